"""Loses machines that ship their store; what is restored is compared with what was acknowledged.

A broker is under load, and `archive ship` runs beside it. Both are killed and the store's directory
is deleted; the store is restored from the archive, to which it ships again. Acknowledged messages
may be lost if the last round began before them, and no others.
"""

import asyncio
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Final

from harness.budget import Budget
from harness.process import Failed, ended, environment, module, running, serve
from harness.s3 import archive_place
from pocketmq.client import AsyncClient, ClientError, Message
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.tools.selection import LogSearch, Selection

LOSSES: Final = 50
NUMBERS_PER_LIFE: Final = 1_000_000
LOAD_S: Final = (2.5, 5.0)
SENDERS: Final = 4
PAUSE_S: Final = 1.0
"""The pause between two rounds of `archive ship`."""
LATE_S: Final = 5.0
"""An age of a lost message that is a failure: rounds on a busy machine take a while themselves."""
TOPIC: Final = "archived"


class Life:
    """One machine: what its broker acknowledged, by number, and when (s)."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.acknowledged: dict[int, float] = {}
        self.lost_at = 0.0

    async def load(self, endpoint: str, seconds: float, end: Any) -> None:
        """Sends until the time is over, then calls `end` while sends are under way."""
        numbers = count(self.first)

        async def one_sender(client: AsyncClient) -> None:
            for number in numbers:
                body = b"%d " % number + bytes(number % 1000)
                await client.send(Message(topic=TOPIC, body=body))
                self.acknowledged[number] = monotonic()

        async with AsyncClient(endpoint, timeout_ms=10_000, retry_ms=0) as client:
            with suppress(ClientError):
                await client.admin.create_topic(TOPIC, queue_count=4)
            senders = [asyncio.create_task(one_sender(client)) for _ in range(SENDERS)]
            await asyncio.sleep(seconds)
            self.lost_at = monotonic()  # The end also removes files, which takes a while.
            end()
            await asyncio.gather(*senders, return_exceptions=True)


def raw(place: Path, budget: Budget) -> dict[str, Any]:
    """Loses machines until there were LOSSES, or the time is over; returns the figures.

    Errors   AssertionError: another message is lost, or the restored store is not sound
    """
    with archive_place(place, budget.target) as archives:
        return _with_losses(place, archives.target("archive"), budget)


def _with_losses(place: Path, archive: str, budget: Budget) -> dict[str, Any]:
    chance, store = random.Random(budget.seed), place / "store"
    ages: list[float] = []
    lives, known = 0, dict[int, float]()
    while lives < LOSSES and (not lives or budget.left()):
        life = Life(lives * NUMBERS_PER_LIFE)
        _live(place, store, archive, life, chance.uniform(*LOAD_S))
        known |= life.acknowledged
        found = _restored(place, store, archive)
        lost = known.keys() - found
        ages.append(max((life.lost_at - known[number] for number in lost), default=0.0))
        assert ages[-1] < LATE_S, f"a message of {ages[-1]:.1f} s ago is lost"
        newest = max(found)
        early = [number for number in lost if number < newest - SENDERS]
        assert not early, f"lost within the archive: {early[:5]} of {newest}"
        known = {number: at for number, at in known.items() if number not in lost}
        lives += 1
        budget.progress(f"{lives} losses, oldest lost message {max(ages):.2f} s")
    ages.sort()
    return {
        "machines lost": lives,
        "acknowledged messages that are left": len(known),
        "age of the oldest lost message, s, median": round(ages[len(ages) // 2], 2),
        "age of the oldest lost message, s, most": round(ages[-1], 2),
        "losses of more than a second": sum(age > PAUSE_S for age in ages),
        "lost otherwise": 0,
    }


def _live(place: Path, store: Path, target: str, life: Life, seconds: float) -> None:
    """Runs a broker and ships its store; then both are killed, and the directory is deleted."""
    said = place / "log"
    with running(serve(store), said) as serving, _shipping(store, target) as shipping:

        def lose() -> None:
            for process in (serving.process, shipping):
                process.send_signal(signal.SIGKILL)
            shutil.rmtree(store, ignore_errors=True)

        asyncio.run(life.load(serving.ready["grpc"], seconds, lose))
    shutil.rmtree(store, ignore_errors=True)


@contextmanager
def _shipping(store: Path, target: str) -> Iterator[subprocess.Popen[str]]:
    """Ships a store; the block begins after the first round."""
    command = module("pocketmq", "archive", "ship", store, target)
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment()
    )
    try:
        assert process.stderr is not None, "it is piped"
        said = ""
        while "Shipped up to" not in said:
            line = process.stderr.readline()
            if not line:
                raise Failed(f"archive ship ended: {said}")
            said += line
        yield process
    finally:
        process.kill()
        process.communicate()


def _restored(place: Path, store: Path, target: str) -> set[int]:
    """Restores the store; returns the numbers of its messages after a start and a verification."""
    ended(module("pocketmq", "store", "restore", target, store))
    with running(serve(store), place / "log", in_order=True):
        pass
    ended(module("pocketmq", "store", "verify", store))
    search = LogSearch(find_log_files(store), Selection((TOPIC,)))
    numbers = set[int]()
    for message in search.messages():
        number, _, rest = message.body.partition(b" ")
        assert rest == bytes(int(number) % 1000), f"message {int(number)} has another body"
        numbers.add(int(number))
    return numbers
