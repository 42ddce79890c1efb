"""Loses machines that ship their store, and kills archive runs; what is archived is compared.

raw     a broker under load, and `archive ship` beside it. Both are killed and the store's directory
        is deleted; the store is restored from the archive, to which it ships again. Acknowledged
        messages may be lost if the last round began before them, and no others
lake    `archive run` over a log, killed five times; each message must be in the lake once
table   the same with an Iceberg table, which pyiceberg also reads, before and after a compaction
"""

import asyncio
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from bench.store import write_log
from harness.budget import Budget
from harness.process import Failed, ended, environment, module, running, serve
from pocketmq.client import AsyncClient, ClientError, Message
from pocketmq.files.disk import Disk
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.tools.archive.objects import open_objects
from pocketmq.tools.lake.commits import read_lake
from pocketmq.tools.lake.reading import LakeBounds, last_offsets, parts_of, read_part
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
KILLS: Final = 5
KILL_S: Final = (5.0, 25.0)
PER_RECORD: Final = 1 << 256
BODY: Final = 1000
FILE_SIZE: Final = 256 * 1024 * 1024


# -- raw -------------------------------------------------------------------------------------------
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
    chance = random.Random(budget.seed)
    ages: list[float] = []
    lives, known = 0, dict[int, float]()
    while lives < LOSSES and (not lives or budget.left()):
        archive, store = place / "archive", place / "store"
        life = Life(lives * NUMBERS_PER_LIFE)
        _live(place, store, str(archive), life, chance.uniform(*LOAD_S))
        known |= life.acknowledged
        found = _restored(place, store, str(archive))
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


# -- lake ------------------------------------------------------------------------------------------
def lake(place: Path, budget: Budget) -> dict[str, Any]:
    """Archives a log of `budget.messages` records with kills; returns the figures.

    Errors   AssertionError: log and lake have different messages
    """
    store = place / "store"
    write_log(store, budget.messages, body=BODY, file_size=FILE_SIZE)
    return archived_with_kills(store, str(place / "lake"), random.Random(budget.seed), budget)


def table(place: Path, budget: Budget) -> dict[str, Any]:
    """Archives a log of `budget.messages` records to an Iceberg table with kills.

    Errors   AssertionError: log and table have different messages
    """
    store, target = place / "store", place / "table"
    write_log(store, budget.messages, body=BODY, file_size=FILE_SIZE)
    chance = random.Random(budget.seed)
    options = ("--format", "iceberg")
    figures = archived_with_kills(store, str(target), chance, budget, options)
    found = table_sum(target)
    ended(module("pocketmq", "archive", "compact", target))
    assert found == table_sum(target) == lake_sum(str(target)), "pyiceberg reads other messages"
    return figures


def archived_with_kills(
    store: Path, target: str, chance: random.Random, budget: Budget, options: Sequence[str] = ()
) -> dict[str, Any]:
    """Archives a store's directory with KILLS kills, and compares each message with the log."""
    command = module("pocketmq", "archive", "run", store, target, *options)
    kills = 0
    while kills < KILLS:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment())
        try:
            process.wait(chance.uniform(*KILL_S))
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        if process.wait() == 0:
            break
        budget.progress(f"{kills} kills")
    begun = monotonic()
    ended(command)
    last_s = monotonic() - begun
    wanted, found = log_sum(store), lake_sum(target)
    assert wanted == found, f"the log has {wanted[0]} messages, the lake {found[0]}, or others"
    size = sum(file.size for file in find_log_files(store))
    return {
        "kills": kills, "log, MB": size // 10**6, "messages, equal in log and lake": found[0],
        "sum of sha256 of offset and body": f"{found[1]:064x}",
        "last run, s": round(last_s, 1),
    }  # fmt: skip


def _digest(physical_offset: int, body: bytes) -> int:
    return int.from_bytes(sha256(b"%d " % physical_offset + body).digest())


def log_sum(store: Path) -> tuple[int, int]:
    """Returns the number of a log's messages, and the sum of their digests."""
    search, number, total = LogSearch(find_log_files(store)), 0, 0
    for message in search.messages():
        total += _digest(message.physical_offset, message.body)
        number += 1
    return number, total % PER_RECORD


def lake_sum(target: str) -> tuple[int, int]:
    """Returns the number of a lake's messages, and the sum of their digests."""
    objects = open_objects(Disk(), target)
    manifest = read_lake(objects)
    number, total = 0, 0
    for part in parts_of(manifest, LakeBounds()):
        for batch in read_part(objects, part, ("body",), last_offsets(manifest)):
            total += _digest_of(batch)
            number += batch.num_rows
    return number, total % PER_RECORD


def table_sum(directory: Path) -> tuple[int, int]:
    """Returns the same of an Iceberg table, as pyiceberg reads it."""
    scan = StaticTable.from_metadata(str(directory)).scan()
    number, total = 0, 0
    for task in scan.plan_files():
        with pq.ParquetFile(task.file.file_path.removeprefix("file://")) as opened:
            for batch in opened.iter_batches(columns=["physical_offset", "body"]):
                total += _digest_of(batch)
                number += batch.num_rows
    return number, total % PER_RECORD


def _digest_of(batch: Any) -> int:
    places, bodies = batch.column("physical_offset"), batch.column("body")
    pairs = zip(places.to_pylist(), bodies.to_pylist(), strict=True)
    return sum(_digest(place, body) for place, body in pairs)
