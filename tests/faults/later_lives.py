"""Lives of a broker in which messages wait, each ended by SIGKILL at a random time.

Producers send messages for a time, for a delay level, at once and in transactions; take some back,
commit and roll back. A life is 0.3 to 4 s long once the broker is ready, messages wait for up to
SPREAD_S: most come in another life than they were sent in. At the end everything undecided is
decided, everything due is waited for, and the log is read: what must hold is checkers.py.

Source of time is the wall clock of the machine, which has to stay unchanged meanwhile.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

from pocketmq.client import AsyncClient, ClientError, Message, Receipt, Resolution
from pocketmq.model.message import StoredMessage
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.tools.selection import LogSearch
from tests.e2e.daemon import Daemon, pocketmq
from tests.faults.checkers import (
    COMMIT,
    NOTHING,
    ROLLBACK,
    Told,
    Verdict,
    delays,
    once,
    transactions,
)
from tests.faults.lives import SMALL_FILES, check_log, options, words

TOPICS: Final = ("orders", "bills")
GROUP: Final = "payers"
LIFE_S: Final = (0.3, 4.0)
SPREAD_S: Final = 20.0
LEVELS_MS: Final = {1: 1_000, 2: 5_000, 3: 10_000}
SENDERS: Final = 12
RECALLED_MS: Final = 2_500
"""A message that has so long to go when its recall is answered never comes."""
EARLY_MS: Final = 0
LATE_MS: Final = 5_000
"""A second of a slot, one of rounding, and what two busy cores add; time without a broker apart."""
LOG_FILE_BYTES: Final = 262_144
TIMER_LOG: Final = "mappedFileSizeTimerLog=5216"
END_S: Final = 60.0
FIGURES: Final = (
    "sent", "timed", "levels", "halves", "recalled", "recalls without an answer", "committed",
    "rolled back", "decisions without an answer", "delivered", "early", "lost or twice",
    "half visible or decided wrongly", "late",
)  # fmt: skip
LATEST: Final = "latest, ms"


class LaterLives:
    """All lives of the broker of one store."""

    def __init__(self, place: Path, seed: int) -> None:
        self.store = place / "store"
        self.seed = seed
        self.figures: Counter[str] = Counter()
        self._chance = Random(seed)
        self._number = 0
        self._told: dict[str, Told] = {}
        self._due_ms: dict[str, int] = {}
        self._said: dict[str, Verdict] = {}
        self._open: dict[str, str] = {}
        """Transactions by key that are undecided, or of unknown outcome."""
        self._handles: dict[str, str] = {}
        self.latest_ms = 0
        """The most that a message came late, time without a broker apart."""
        self._up_ms: list[tuple[float, float]] = []
        """When a broker served."""

    def live(self, number: int) -> str:
        """Starts the broker, sends, recalls, decides, kills it; returns how it flushed.

        Errors   AssertionError where it does not start, or tells of what a kill cannot do
        """
        chosen = options(self._chance)
        chosen.pop("store.transient_pool", None)
        daemon = self._started(chosen)
        begun_ms = time.time() * 1_000
        try:
            asyncio.run(self._until_killed(daemon, self._chance.uniform(*LIFE_S), number))
        finally:
            daemon.end()
        self._up_ms.append((begun_ms, time.time() * 1_000))
        check_log(daemon)
        return chosen["store.flush"]

    def _started(self, chosen: dict[str, str]) -> Daemon:
        daemon = Daemon(self.store, *words(chosen, *SMALL_FILES, TIMER_LOG))
        daemon.begin()
        daemon.serve()
        return daemon

    async def _until_killed(self, daemon: Daemon, life_s: float, number: int) -> None:
        async with AsyncClient(daemon.endpoint, retry_ms=0) as client:
            for topic in TOPICS if number == 0 else ():
                await client.admin.create_topic(topic, queue_count=2)
            asyncio.get_running_loop().call_later(life_s, daemon.signal, signal.SIGKILL)
            await asyncio.gather(*(self._produce(client) for _ in range(SENDERS)))

    async def _produce(self, client: AsyncClient) -> None:
        chance = self._chance
        with suppress(ClientError):
            while True:
                choice = chance.random()
                if choice < 0.12 and self._handles:
                    await self._recall(client, chance.choice([*self._handles]))
                elif choice < 0.30 and self._open:
                    await self._decide(client, chance.choice([*self._open]))
                else:
                    await self._send(client, chance)
                await asyncio.sleep(chance.uniform(0, 0.01))

    async def _send(self, client: AsyncClient, chance: Random) -> None:
        self._number += 1
        key, topic = f"K{self.seed}-{self._number}", chance.choice(TOPICS)
        message = Message(topic, key.encode(), message_id=key)
        kind, now_ms = chance.random(), int(time.time() * 1_000)
        if kind < 0.5:
            due_ms = now_ms + chance.randrange(100, int(SPREAD_S * 1_000))
            message, self._due_ms[key] = replace(message, deliver_at_ms=due_ms), due_ms
        elif kind < 0.7:
            level = chance.choice([*LEVELS_MS])
            message = replace(message, delay_level=level)
            self._due_ms[key] = now_ms + LEVELS_MS[level]
        elif kind < 0.9:
            message = replace(message, transactional=True, producer_group=GROUP)
        is_half = message.transactional
        self._told[key] = Told(topic, is_stored=None, is_wanted=not is_half)
        receipt: Receipt = await client.send(message)
        self.figures["sent"] += 1
        self._told[key] = self._told[key]._replace(is_stored=True)
        if is_half:
            self.figures["halves"] += 1
            self._open[key] = receipt.transaction_id
        else:
            self.figures["timed"] += message.deliver_at_ms is not None
            self.figures["levels"] += message.delay_level is not None
        if receipt.recall_handle:
            self._handles[key] = receipt.recall_handle

    async def _recall(self, client: AsyncClient, key: str) -> None:
        handle, told = self._handles.pop(key), self._told[key]
        self._told[key] = told._replace(is_wanted=None)
        self.figures["recalls without an answer"] += 1
        try:
            await client.recall(told.topic, handle)
        except ClientError as error:
            if error.reason != "NotWaiting":
                raise
            self._told[key] = told
        else:
            if time.time() * 1_000 < self._due_ms[key] - RECALLED_MS:
                self._told[key] = told._replace(is_wanted=False)
                self.figures["recalled"] += 1
        self.figures["recalls without an answer"] -= 1

    async def _decide(self, client: AsyncClient, key: str) -> None:
        transaction, told = self._open.pop(key), self._told[key]
        said = self._said.get(key, NOTHING)
        resolution = Resolution.COMMIT if self._chance.random() < 0.6 else Resolution.ROLLBACK
        self._said[key] = said._replace(asked=said.asked | {resolution.value})
        if resolution is Resolution.COMMIT:
            self._told[key] = told._replace(is_wanted=None)
        self.figures["decisions without an answer"] += 1
        await client.end_transaction(GROUP, transaction, resolution)
        self.figures["decisions without an answer"] -= 1
        self.figures["committed" if resolution is Resolution.COMMIT else "rolled back"] += 1
        is_wanted = resolution is Resolution.COMMIT
        self._told[key] = self._told[key]._replace(is_wanted=is_wanted)
        self._said[key] = self._said[key]._replace(taken=COMMIT if is_wanted else ROLLBACK)

    # -- the end ---------------------------------------------------------------------------------
    def end(self) -> None:
        """Starts once more, decides and waits for the rest, stops, compares, verifies the files.

        Errors   AssertionError: what was found wrong
        """
        daemon = self._started({})
        begun_ms = time.time() * 1_000
        try:
            asyncio.run(self._drain(daemon))
            assert daemon.stop() == os.EX_OK, daemon.log.read_text()
        finally:
            daemon.end()
        self._up_ms.append((begun_ms, time.time() * 1_000))
        check_log(daemon)
        wrong = self.wrong(list(LogSearch(find_log_files(self.store, LOG_FILE_BYTES)).messages()))
        assert not wrong, f"seed {self.seed}: {wrong[:8]}\nfigures: {dict(self.figures)}"
        done = pocketmq("store", "verify", str(self.store), "-o", "jsonl", "--max-findings", "5")
        assert (done.code, done.out) == (0, ""), f"{done.out}{done.err}"

    async def _drain(self, daemon: Daemon) -> None:
        async with AsyncClient(daemon.endpoint) as client:
            for key in [*self._open]:
                await self._decide(client, key)
        left_s = max(self._due_ms.values(), default=0) / 1_000 - time.time()
        await asyncio.sleep(min(max(left_s, 0.0), END_S) + LATE_MS / 1_000)

    def wrong(self, records: list[StoredMessage]) -> list[str]:
        """Returns what does not hold between the log and what producers were told; counts it."""
        found = once(records, self._told)
        self.figures["lost or twice"] += len(found)
        decided = transactions(records, self._said)
        self.figures["half visible or decided wrongly"] += len(decided)
        early = delays(records, self._due_ms, early_ms=EARLY_MS, late_ms=2**62)
        self.figures["early"] += len(early)
        came = [one for one in records if one.topic in TOPICS and one.unique_key in self._due_ms]
        late_ms = {
            one.unique_key: self.up_ms(self._due_ms[one.unique_key], one.store_timestamp_ms)
            for one in came
        }
        self.figures["delivered"] += sum(record.topic in TOPICS for record in records)
        self.latest_ms = max(late_ms.values(), default=0)
        late = [f"{key} came {ms} ms late" for key, ms in late_ms.items() if ms > LATE_MS]
        self.figures["late"] += len(late)
        return found + decided + early + late

    def up_ms(self, begin_ms: float, end_ms: float) -> int:
        """Returns for how long of a time a broker served."""
        assert all(a[1] <= b[0] for a, b in pairwise(self._up_ms))
        parts = (min(end, end_ms) - max(begin, begin_ms) for begin, end in self._up_ms)
        return int(sum(max(part, 0.0) for part in parts))
