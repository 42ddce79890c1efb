"""The hash index: which records carry a key. A view of the log.

    index/20261121003515660 (full) · index/20261121003518147 (full) · index/… (being filled)

A record is indexed under its unique key, each of its keys and, in the 5.5 style, its tag. A full
file is followed by a new one; one record's entries may lie in two files.
Source: IndexService, CommitLogDispatcherBuildIndex.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from broker.files.closing import close_all
from broker.files.disk import Disk
from broker.format.columns.heads import Numbers
from broker.format.index_layout import (
    IndexGeometry,
    entry_keys,
    index_key,
    key_hash,
)
from broker.format.java_hash import WRAP, java_hash
from broker.format.java_hash_batch import java_hashes
from broker.format.names import is_index_file_name, next_index_file_name
from broker.log.index_file import IndexFile
from broker.model.errors import WrongFileSize
from broker.model.message import TRANSACTION_ROLLBACK, DispatchEntry
from broker.model.stats import Counter, Gauge

FEW_RECORDS: Final = 16
"""Up to here plain Python is quicker than numpy."""
TIME_MARGIN_MS: Final = 1_000
"""Entries keep whole seconds, so a search by time looks one second further each way."""
KNOWN: Final = "known"
"""It lies before the last record that is indexed."""
ROLLED_BACK: Final = "rolled_back"
_KEY_NAMES: Final = "maxHashSlotNum and maxIndexNum"


class Candidate(NamedTuple):
    """A place where a key may be: the hash agrees, the key has not been looked at.

    file_name and number tell where to go on; is_match is False for a step over another key. A
    physical offset of BROKEN (log/index_file.py) ends the chain of one file, which is damaged.
    """

    file_name: str
    number: int
    physical_offset: int
    is_match: bool


class HashIndex:
    """All index files of a store, oldest first."""

    __slots__ = (
        "_disk", "_held", "directory", "entries_put", "files", "geometry", "is_damaged", "name",
        "sealed_time", "skipped", "stats", "style", "zone",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, directory: Path, geometry: IndexGeometry, *, style: str, zone: tzinfo
    ) -> None:
        self._disk = disk
        self.directory = directory
        self.geometry = geometry
        self.style = style
        self.zone = zone
        self.name = "index"
        self.files: list[IndexFile] = []
        self._held: list[tuple[Numbers, Numbers, Numbers]] = []
        self.is_damaged = False
        """Whether `load` removed a file that was cut short: the index lacks entries."""
        self.sealed_time = 0
        """End time of the last file that was flushed when full, ms; 0 before the first."""
        self.entries_put = Counter("pocketmq_index_entries_total", "Entries put into the index.")
        self.skipped = Counter(
            "pocketmq_index_skipped_total", "Records that were not indexed.", ("reason",)
        )
        for reason in (KNOWN, ROLLED_BACK):
            self.skipped.add((reason,), 0)
        self.stats: list[Counter | Gauge] = [
            self.entries_put,
            self.skipped,
            Gauge("pocketmq_index_files", "Index files.", lambda: float(len(self.files))),
            Gauge(
                "pocketmq_index_fill_ratio", "How full the newest index file is.", self._fill_ratio
            ),
        ]

    def _fill_ratio(self) -> float:
        return (
            self.files[-1].entry_count / (self.geometry.entry_count_max - 1) if self.files else 0.0
        )

    @property
    def durable_offset(self) -> int:
        """One more than the start of the last record that is indexed, 0 without entries."""
        for file in reversed(self.files):
            if file.entry_count:
                return file.header.end_physical_offset + 1
        return 0

    def load(self, *, read_only: bool = False, knows_size: bool = False) -> None:
        """Find all files; names that are no index file's are passed over, empty files removed.

        knows_size   a file of another length is damaged, not of another geometry: it goes
        Errors   WrongFileSize unless the size is known
        """
        for name in self._disk.names(self.directory):
            path = self.directory / name
            if not is_index_file_name(name):
                continue
            size = self._disk.file_size(path)
            if not size:  # A crash came between its name and its length.
                if not read_only:
                    self._disk.unlink(path)
                continue
            if size != self.geometry.file_size and knows_size and not read_only:
                self._disk.unlink(path)
                self.is_damaged = True
                continue
            if size != self.geometry.file_size:
                raise WrongFileSize(
                    path=str(path),
                    expected_bytes=self.geometry.file_size,
                    found_bytes=size,
                    key_names=_KEY_NAMES,
                )
            file = IndexFile(self._disk, path, self.geometry)
            file.load(read_only=read_only)
            self.files.append(file)

    # -- writing -------------------------------------------------------------------------------
    def apply(self, entries: Sequence[DispatchEntry]) -> None:
        """Add the keys of records; those before the last indexed one are skipped.

        Source   IndexService.buildIndex
        """
        guard = self.files[-1].header.end_physical_offset if self.files else 0
        wanted = [e for e in entries if e[0] >= guard and e[10] != TRANSACTION_ROLLBACK]
        if len(wanted) < len(entries):
            rolled_back = sum(e[10] == TRANSACTION_ROLLBACK for e in entries)
            self.skipped.add((ROLLED_BACK,), rolled_back)
            self.skipped.add((KNOWN,), len(entries) - len(wanted) - rolled_back)
        if wanted:
            columns = _columns(wanted, self.style)
            if len(columns[0]):
                self._held.append(columns)
        self._put_held()

    def put_columns(self, hashes: Numbers, physical_offsets: Numbers, times_ms: Numbers) -> None:
        """Add entries in log order, whose keys were hashed already; see `apply`.

        Shape    three arrays of one length; no record lies before the last one indexed
        Errors   DiskFull, AllocationFailed
        """
        self._held.append((hashes, physical_offsets, times_ms))
        self._put_held()

    def _put_held(self) -> None:
        """Put what is held; on an error the rest stays held for the next call."""
        while self._held:
            hashes, places, times = self._held[0]
            file = self.files[-1] if self.files else None
            if file is None or file.is_full:
                file = self._roll(int(times[0]))
            count = file.put_all(hashes, places, times)
            self.entries_put.value += count
            if count == len(hashes):
                self._held.pop(0)
            else:
                self._held[0] = (hashes[count:], places[count:], times[count:])

    def _roll(self, time_ms: int) -> IndexFile:
        full = self.files[-1] if self.files else None
        previous_name = full.path.name if full else ""
        name = next_index_file_name(time_ms, self.zone, previous_name)
        self._disk.make_directory(self.directory)
        file = IndexFile(self._disk, self.directory / name, self.geometry)
        file.make(self._disk, full.header if full else None)
        self.files.append(file)
        return file

    def truncate(self, physical_offset: int, time_of: Callable[[int], int]) -> None:
        """Forget records at or behind a physical offset; `time_of` is as in `View.truncate`."""
        self._held.clear()
        while self.files and self.files[-1].header.begin_physical_offset >= physical_offset:
            self.files.pop().remove()
        if self.files:
            self.files[-1].undo_from(physical_offset, time_of)

    def mend(self, physical_offset: int, time_of: Callable[[int], int]) -> None:
        """After a crash: keep the entries of records below an offset, which were durable.

        What a power cut left of the others is taken out; they are dispatched again.
        """
        while self.files and not self.files[-1].begins_below(physical_offset):
            self.files.pop().remove()
        if self.files:
            self.files[-1].mend(physical_offset, time_of)

    def durable_below(self, physical_offset: int, sealed_time: int | None) -> int:
        """Return `durable_offset` as `drop_doubtful`, then `truncate` would leave it."""
        sound = self._sound_count(sealed_time)
        if 0 < sound < len(self.files):
            physical_offset = min(physical_offset, self.files[sound - 1].header.end_physical_offset)
        for file in reversed(self.files[:sound]):
            place = file.last_place_below(physical_offset)
            if place >= 0:
                return place + 1
        return 0

    def _sound_count(self, sealed_time: int | None) -> int:
        for count, file in enumerate(self.files):
            is_late = sealed_time is not None and file.header.end_timestamp > sealed_time
            if is_late or not file.entry_count or not file.is_sound():
                return count
        return len(self.files)

    def drop_doubtful(self, time_of: Callable[[int], int], sealed_time: int | None) -> None:
        """Remove damaged and empty files and all behind them; what they held is dispatched again.

        A power cut leaves a file that was never synced empty, with a file before it that is not
        full.

        With `sealed_time` (after an unclean end of another broker, which syncs index files only
        when they are full) files that end later are removed too.
        """
        sound = self._sound_count(sealed_time)
        if sound == len(self.files):
            return
        for file in self.files[sound:]:
            file.remove()
        del self.files[sound:]
        if self.files:  # The last record's other keys may have stood in the removed file.
            self.truncate(self.files[-1].header.end_physical_offset, time_of)

    def remove_all(self) -> None:
        """Remove every file: the index is to be built again."""
        self._held.clear()
        while self.files:
            self.files.pop().remove()

    def trim(self, min_physical_offset: int) -> list[IndexFile]:
        """Follow a log that lost its head; returns the files to be removed, never the last one.

        Source   IndexService.deleteExpiredFile
        """
        gone: list[IndexFile] = []
        while len(self.files) > 1:
            if self.files[0].header.end_physical_offset >= min_physical_offset:
                break
            gone.append(self.files.pop(0))
        return gone

    def flush(self, files: Sequence[IndexFile] | None = None) -> None:
        """Make all entries durable, or those of some files that are held; blocks."""
        for file in self.files if files is None else files:
            if file.is_dirty:
                file.sync()
            if file.is_full:
                self.sealed_time = file.header.end_timestamp

    # -- reading -------------------------------------------------------------------------------
    def candidates(
        self, topic: str, key: str, *, begin_ms: int, end_ms: int, index_type: str = "",
        after: tuple[str, int] | None = None,
    ) -> Iterator[Candidate]:  # fmt: skip
        """Yield every chain step for a key, newest first; `after` goes on behind such a step.

        Source   IndexService.queryOffset, IndexFile.selectPhyOffset
        """
        wanted = key_hash(java_hash(index_key(topic, key, index_type)))
        lower, upper = begin_ms - TIME_MARGIN_MS, end_ms + TIME_MARGIN_MS
        for file in reversed(self.files):
            name = file.path.name
            if after is not None and name > after[0]:
                continue
            below = after[1] if after is not None and name == after[0] else 0
            header = file.header
            if header.begin_timestamp > upper or header.end_timestamp < lower:
                continue
            for number, physical_offset, time_ms, is_equal in file.walk(wanted, below):
                is_match = is_equal and lower <= time_ms <= upper
                yield Candidate(name, number, physical_offset, is_match)

    def close(self) -> None:
        """Unmap all files."""
        close_all(file.close for file in self.files)


def _columns(entries: list[DispatchEntry], style: str) -> tuple[Numbers, Numbers, Numbers]:
    """Return key hashes, physical offsets and store times of every entry of some records.

    Cost     about 1 µs a record from some hundred keys on
    """
    if len(entries) <= FEW_RECORDS:
        return _few_columns(entries, style)
    texts: list[str] = []
    counts: list[int] = []
    for entry in entries:
        keys = entry_keys(entry[7], entry[8], entry[9], style)
        counts.append(len(keys))
        texts += keys
    topics = [entry[4] for entry in entries]
    places = np.repeat(np.array([entry[0] for entry in entries], dtype=np.int64), counts)
    times = np.repeat(np.array([entry[3] for entry in entries], dtype=np.int64), counts)
    if not texts:
        return places, places, times
    prefixes = _topic_hash(topics[0])
    if topics.count(topics[0]) == len(topics):
        unsigned = java_hashes(texts, prefixes)
    else:
        each = np.array([_topic_hash(topic) for topic in topics], dtype=np.uint32)
        unsigned = java_hashes(texts, np.repeat(each, counts))
    hashes = np.abs(unsigned.view(np.int32).astype(np.int64))
    hashes[hashes == 2**31] = 0
    return hashes, places, times


def _few_columns(entries: list[DispatchEntry], style: str) -> tuple[Numbers, Numbers, Numbers]:
    """Return the same one by one."""
    rows = [
        (key_hash(java_hash(index_key(entry[4], key))), entry[0], entry[3])
        for entry in entries
        for key in entry_keys(entry[7], entry[8], entry[9], style)
    ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return columns[0], columns[1], columns[2]


@lru_cache(maxsize=4096)
def _topic_hash(topic: str) -> int:
    """Return the unsigned hash of what stands before every key of a topic."""
    return java_hash(index_key(topic, "")) & WRAP
