"""Kills `archive run` beside a broker that deletes what is archived; log and lake are compared.

lake    each message of the log must be in the lake once
table   the same with an Iceberg table, which pyiceberg also reads, before and after a compaction

A broker serves the store. Its retention deletes each file that the lake has. Kills are before the
first commit of a run, within a commit, and after one.
"""

import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from bench.store import write_log
from harness.budget import Budget
from harness.process import Failed, ended, environment, module, running, serve
from harness.s3 import archive_place
from pocketmq.files.disk import Disk
from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.model.errors import NotAStore
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.tools.archive.objects import Objects, open_objects
from pocketmq.tools.lake.catalog import INTENT, Manifest
from pocketmq.tools.lake.commits import read_lake
from pocketmq.tools.lake.reading import LakeBounds, last_offsets, parts_of, read_part
from pocketmq.tools.selection import LogSearch, Selection

EARLY, WITHIN, AFTER = "before a commit", "within a commit", "after a commit"
KILLS: Final = (EARLY, WITHIN, AFTER, WITHIN, AFTER)
"""Where each kill is meant to be; the figures count where they were."""
DELAY_S: Final = {EARLY: (5.0, 25.0), WITHIN: (0.0, 0.1), AFTER: (0.0, 10.0)}
"""Seconds to the kill from the beginning of a run, from one file of a commit, and from its end."""
POLL_S: Final = 0.02
RETAINED: Final = (
    "retention.mode=on", "retention.archive_hold=true", "retention.size_bytes=1B",
    "retention.interval_ms=1s",
)  # fmt: skip
DELETED_S: Final = 120.0
"""Time in which retention must delete what the last run archived."""
LEFT_MAX: Final = 2
"""Files of the log that retention keeps at most: the last one, and one that recovery needs."""
UNARCHIVED: Final = "retention.unarchived"
PER_RECORD: Final = 1 << 256
BODY: Final = 1000
FILE_SIZE: Final = 256 * 1024 * 1024


def lake(place: Path, budget: Budget) -> dict[str, Any]:
    """Archives a log of `budget.messages` records with kills; returns the figures.

    Errors   AssertionError: log and lake have different messages, or a file was deleted too early
    """
    store = place / "store"
    write_log(store, budget.messages, body=BODY, file_size=FILE_SIZE)
    with archive_place(place, budget.target) as lakes:
        return archived_with_kills(store, lakes.target("lake"), budget)


def table(place: Path, budget: Budget) -> dict[str, Any]:
    """Archives a log of `budget.messages` records to an Iceberg table with kills.

    Errors   AssertionError: those of `lake`, or pyiceberg reads other messages
    """
    store = place / "store"
    write_log(store, budget.messages, body=BODY, file_size=FILE_SIZE)
    with archive_place(place, budget.target) as lakes:
        target = lakes.target("table")
        figures = archived_with_kills(store, target, budget, ("--format", "iceberg"))
        location = open_objects(Disk(), target).target
        found = table_sum(location, lakes.of_iceberg)
        begun = monotonic()
        ended(module("pocketmq", "archive", "compact", target))
        figures["compaction, s"] = round(monotonic() - begun, 1)
        compacted = table_sum(location, lakes.of_iceberg)
        assert found == compacted == lake_sum(target), "pyiceberg reads other messages"
        return figures


def archived_with_kills(
    store: Path, target: str, budget: Budget, options: Sequence[str] = ()
) -> dict[str, Any]:
    """Archives a served store with kills, and compares each message with the log as it was."""
    command = module("pocketmq", "archive", "run", store, target, *options)
    wanted, files = log_sum(store), find_log_files(store)
    budget.progress(f"{wanted[0]} messages in {len(files)} files")
    said = store.parent / "log"
    chance, kills, seen = random.Random(budget.seed), Counter[str](), Watched(store, target)
    with running(serve(store, *RETAINED), said, in_order=True):
        begun = monotonic()
        for moment in KILLS:
            where = killed(command, seen, moment, chance)
            if where is None:
                break
            kills[where] += 1
            budget.progress(f"{kills.total()} kills, the last one {where}")
        last = monotonic()
        ended(command)
        over = monotonic()
        deleted = _deleted_by_retention(seen, {file.base for file in files})
    assert UNARCHIVED not in said.read_text(), "retention deleted a file that the lake lacks"
    found = lake_sum(target)
    assert wanted == found, f"the log had {wanted[0]} messages, the lake {found[0]}, or others"
    return {
        "kills": kills.total(), **{f"kills {where}": kills[where] for where in DELAY_S},
        "log, MB": sum(file.size for file in files) // 10**6,
        "lake, MB": sum(file.size for file in read_lake(seen.objects).files) // 10**6,
        "commits": read_lake(seen.objects).run,
        "messages, equal in log and lake": found[0],
        "sum of sha256 of offset and body": f"{found[1]:064x}",
        "log files deleted, all of them archived": f"{deleted} of {len(files)}",
        "all runs, s": round(over - begun, 1), "last run, s": round(over - last, 1),
    }  # fmt: skip


class Seen(NamedTuple):
    """A lake at one moment: the offset up to which it has the log, and its intent."""

    manifest: Manifest
    intent: bytes

    @property
    def upto(self) -> int:
        """Physical offset below which the lake has all messages."""
        return max(self.manifest.marks.upto, 0)

    @property
    def has_intended(self) -> bool:
        """Whether the files of the last intent are in the lake."""
        intended = json.loads(self.intent)["files"] if self.intent else []
        return {*intended} <= {file.path for file in self.manifest.files}

    def where(self, before: "Seen") -> str:
        """Returns where a run was killed that began at another moment."""
        if self.intent != before.intent and not self.has_intended:
            return WITHIN
        return AFTER if self.upto > before.upto else EARLY


Step = Callable[[], bool]
"""Returns whether a run has reached a moment."""


class Watched:
    """A lake and the log beside it, seen from outside of the processes that change them."""

    def __init__(self, store: Path, target: str) -> None:
        self._log = store / COMMIT_LOG_DIRECTORY
        self.objects: Objects = open_objects(Disk(), target)

    @property
    def bases(self) -> list[int]:
        """The physical offsets at which the log's files begin."""
        return sorted(int(path.name) for path in self._log.iterdir() if path.name.isdigit())

    def look(self) -> Seen:
        """Returns the lake's state.

        Errors   AssertionError: a file of the log is gone that the lake lacks
        """
        first = self.bases[0]
        try:
            manifest = read_lake(self.objects)
        except NotAStore:
            manifest = Manifest()
        seen = Seen(manifest, self._intent())
        assert first <= seen.upto, f"the log begins at {first}, the lake ends at {seen.upto}"
        return seen

    def begun_after(self, before: Seen) -> Step:
        """Returns whether a commit began after a moment."""
        return lambda: self._intent() != before.intent

    def committed_after(self, before: Seen) -> Step:
        """Returns whether a commit took effect after a moment."""
        return lambda: self.look().upto > before.upto

    def written(self, share: float) -> Step:
        """Returns whether one file of the commit is written, chosen by a number below 1."""

        def is_written() -> bool:
            names = json.loads(self._intent())["files"]
            try:
                self.objects.opened(names[int(share * len(names))]).close()
            except FileNotFoundError:
                return False
            return True

        return is_written

    def _intent(self) -> bytes:
        try:
            return b"".join(self.objects.get(INTENT))
        except FileNotFoundError:
            return b""


def killed(command: Sequence[str], lake: Watched, moment: str, chance: random.Random) -> str | None:
    """Runs a command, and kills it after a moment; returns where it was killed.

    Returns   None: the command ended before
    Errors    Failed: the command failed
    """
    before = lake.look()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment())
    steps = {
        EARLY: (), WITHIN: (lake.begun_after(before), lake.written(chance.random())),
        AFTER: (lake.committed_after(before),),
    }  # fmt: skip
    try:
        for is_reached in steps[moment]:
            while process.poll() is None and not is_reached():
                sleep(POLL_S)
        process.wait(chance.uniform(*DELAY_S[moment]))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return lake.look().where(before)
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise Failed(f"archive run failed with {process.returncode}")
    return None


def _deleted_by_retention(lake: Watched, bases: set[int]) -> int:
    """Returns how many of a log's files are gone when retention has deleted what the lake has.

    Errors   AssertionError: it deletes less in DELETED_S, or a file that the lake lacks
    """
    late = monotonic() + DELETED_S
    while len(bases.intersection(lake.bases)) > LEFT_MAX and monotonic() < late:
        lake.look()
        sleep(POLL_S)
    left = len(bases.intersection(lake.bases))
    assert left <= LEFT_MAX, f"retention keeps {left} files that are archived"
    return len(bases) - left


def _digest(physical_offset: int, body: bytes) -> int:
    return int.from_bytes(sha256(b"%d " % physical_offset + body).digest())


def log_sum(store: Path) -> tuple[int, int]:
    """Returns the number of a log's messages, and the sum of their digests."""
    search, number, total = LogSearch(find_log_files(store), Selection()), 0, 0
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


def table_sum(location: str, options: Mapping[str, str]) -> tuple[int, int]:
    """Returns the same of an Iceberg table, as pyiceberg reads it.

    location   its directory, or its URL without options
    options    those of pyiceberg
    """
    opened = StaticTable.from_metadata(location, dict(options))
    number, total = 0, 0
    for task in opened.scan().plan_files():
        with opened.io.new_input(task.file.file_path).open() as file, pq.ParquetFile(file) as rows:
            for batch in rows.iter_batches(columns=["physical_offset", "body"]):
                total += _digest_of(batch)
                number += batch.num_rows
    return number, total % PER_RECORD


def _digest_of(batch: Any) -> int:
    places, bodies = batch.column("physical_offset"), batch.column("body")
    pairs = zip(places.to_pylist(), bodies.to_pylist(), strict=True)
    return sum(_digest(place, body) for place, body in pairs)
