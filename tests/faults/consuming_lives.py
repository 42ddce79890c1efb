"""Lives of a broker that groups receive from, each ended by SIGKILL at a random time.

A life is 0.1 to 1.5 s long once the broker is ready. Files and settings are those of lives.py, but
for the transient pool, which a kill may cost what was acknowledged.
"""

import asyncio
import os
import re
import signal
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from tests.e2e.daemon import Daemon, pocketmq
from tests.faults.consumers import IN_ORDER, TOPICS_OF, Consumers
from tests.faults.deliveries import Deliveries
from tests.faults.history import VIOLATIONS_TOLD, History, Violation
from tests.faults.lives import SMALL_FILES, check_log, options, words

LIFE_S: Final = (0.1, 1.5)
LEASES_MS: Final = (1_000, 1_500, 2_000, 3_000)
ATTEMPTS_MAX: Final = 4
_LAG: Final = re.compile(
    r'^(rocketmq_consumer_lag_messages\{.*consumer_group="([^"]+)".*\} (\S+))$', re.MULTILINE
)
LAST: Final = "the last life"


def behind(daemon: Daemon) -> list[str]:
    """Returns what metrics tell of groups that have not consumed everything."""
    told = _LAG.findall(daemon.page("/metrics").text)
    assert {group for _, group, _ in told} >= set(TOPICS_OF), f"no lag of the groups in {told}"
    return [line for line, group, count in told if group in TOPICS_OF and float(count)]


class ConsumingLives:
    """All lives of the broker of one store.

    leases_ms      how long leases last
    attempts_max   deliveries of a message to a group
    """

    def __init__(
        self, place: Path, seed: int, leases_ms: tuple[int, ...] = LEASES_MS,
        attempts_max: int = ATTEMPTS_MAX,
    ) -> None:  # fmt: skip
        self.store = place / "store"
        self.seed = seed
        self.history = History(place / "history.jsonl")
        self.deliveries = Deliveries(attempts_max, frozenset({IN_ORDER}))
        self.kills: Counter[str] = Counter()
        self._chance = Random(seed)
        self._load = Consumers(self.history, self.deliveries, seed, leases_ms)

    def live(self, number: int) -> None:
        """Starts the broker, sends, receives and settles, kills it.

        Errors   Violation; AssertionError where it does not start
        """
        chosen = options(self._chance)
        chosen.pop("store.transient_pool", None)
        daemon = self._started(chosen)
        try:
            asyncio.run(self._until_killed(daemon, self._chance.uniform(*LIFE_S)))
        finally:
            daemon.end()
        self.kills[chosen["store.flush"]] += 1
        self._settle(f"life {number}, {chosen['store.flush']} flush")
        check_log(daemon)

    async def _until_killed(self, daemon: Daemon, life_s: float) -> None:
        asyncio.get_running_loop().call_later(life_s, daemon.signal, signal.SIGKILL)
        await self._load.run(daemon.endpoint)

    def _started(self, chosen: dict[str, str]) -> Daemon:
        daemon = Daemon(self.store, *words(chosen, *SMALL_FILES))
        daemon.begin()
        daemon.serve()
        return daemon

    def end(self) -> None:
        """Starts once more, consumes the rest, compares everything, stops, verifies the files.

        Errors   Violation
        """
        daemon = self._started({})
        try:
            asyncio.run(self._load.drain(daemon.endpoint, lambda: bool(behind(daemon))))
            for line in behind(daemon):  # An ack without an answer may hide what is stuck.
                self.deliveries.tell("stuck", f"the broker says {line}")
            assert daemon.stop() == os.EX_OK, daemon.log.read_text()
        finally:
            daemon.end()
        self._settle(LAST)
        check_log(daemon)
        self.history.close()
        done = pocketmq("store", "verify", str(self.store), "-o", "jsonl", "--max-findings", "5")
        assert (done.code, done.out) == (0, ""), f"{done.out}{done.err}"

    @property
    def figures(self) -> Counter[str]:
        """Counts of operations and of violations, by kind."""
        return self.history.figures + self.deliveries.figures

    def _settle(self, when: str) -> None:
        """Raises what was found wrong so far."""
        wrong = self.deliveries.wrong
        if wrong:
            for text in wrong:
                self.history.event("checker", "check", "violation", err=text)
            told = "\n  ".join(wrong[:VIOLATIONS_TOLD])
            raise Violation(
                f"{len(wrong)} violations, seed {self.seed}, seen in {when}; the history is "
                f"{self.history.path}:\n  {told}\nfigures: {dict(self.figures)}"
            )
        self.history.settle()
