"""The hash index: finds records by key. A view of the log.

    index/20261121003515660 (full) · index/20261121003518147 (full) · index/… (being filled)

A record is indexed by its unique key, each of its keys and, in the 5.5 style, its tag. When a file
is full, the next entries go to a new file; the entries of one record may be in two files.
Source: IndexService, CommitLogDispatcherBuildIndex.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import close_all
from pocketmq.format.dispatch_batch import entries_of
from pocketmq.format.index_entries import PACKED, index_entries, searched_hash
from pocketmq.format.index_layout import IndexGeometry, is_indexed
from pocketmq.format.names import is_index_file_name, next_index_file_name
from pocketmq.log.index_file import IndexFile
from pocketmq.model.batch import Written
from pocketmq.model.stats import Counter, Gauge

TIME_MARGIN_MS: Final = 1_000
"""Time by which a search is extended in both directions, as entries contain whole seconds."""
KNOWN: Final = "known"
"""Reason to skip a record: it precedes the last indexed record."""
ROLLED_BACK: Final = "rolled_back"
"""Reason to skip a record: it rolls back a transaction."""


class Candidate(NamedTuple):
    """An entry whose key hash may match; the key itself is not compared.

    file_name, number   position from which a search can continue
    is_match            whether key hash, time and physical offset match the search; False for
                        other entries of the chain
    The physical offset BROKEN (log/index_file.py) reports that the chain is damaged and ends here.
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
        self._held: list[bytes] = []
        self.is_damaged = False
        """Whether `load` removed a file of another length: the index lacks entries."""
        self.sealed_time = 0
        """End time of the last file that was flushed when full, ms; 0 if there is none."""
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
                "pocketmq_index_fill_ratio",
                "Fill level of the newest index file.",
                self._fill_ratio,
            ),
        ]

    def _fill_ratio(self) -> float:
        return (
            self.files[-1].entry_count / (self.geometry.entry_count_max - 1) if self.files else 0.0
        )

    @property
    def durable_offset(self) -> int:
        """One more than the start of the last indexed record; 0 without entries."""
        for file in reversed(self.files):
            if file.entry_count:
                return file.header.end_physical_offset + 1
        return 0

    def load(self, *, read_only: bool = False, knows_size: bool = False) -> None:
        """Finds all files; ignores other names, and removes empty files unless `read_only`.

        knows_size   whether the file size is certain: a file of another length is then removed
        Errors   WrongFileSize if `read_only` or not `knows_size`; ReadFailed
        """
        for name in self._disk.names(self.directory):
            path = self.directory / name
            if not is_index_file_name(name):
                continue
            size = self._disk.file_size(path)
            if not size:  # A crash followed the file's creation before its length was durable.
                if not read_only:
                    self._disk.unlink(path)
                continue
            file = IndexFile(self._disk, path, self.geometry)
            if size != self.geometry.file_size:
                if read_only or not knows_size:
                    raise file.wrong_size(size)
                self._disk.unlink(path)
                self.is_damaged = True
                continue
            file.load(read_only=read_only)
            self.files.append(file)

    # -- writing -------------------------------------------------------------------------------
    def apply(self, written: Sequence[Written]) -> None:
        """Adds the keys of records; skips records before the last indexed one.

        Errors   those of `put`
        Source   IndexService.buildIndex
        """
        guard = self.files[-1].header.end_physical_offset if self.files else 0
        if written and written[0].begin >= guard:
            entries = entries_of(written)
            if entries is not None:
                self.put(entries)
                return
        wanted = []
        for run in written:
            if not is_indexed(run.destination.transaction):
                self.skipped.add((ROLLED_BACK,), len(run))
            elif run.begin >= guard:
                wanted.append(run)
            else:
                known = bisect_left(run.physical_offsets, guard)
                self.skipped.add((KNOWN,), known)
                wanted += [run.behind(known)] if known < len(run) else []
        self.put(index_entries(wanted, self.style))

    def put(self, entries: bytes) -> None:
        """Adds entries in log order; none may precede the last indexed record.

        Shape    as in `Written.entries`
        Errors   DiskFull, AllocationFailed: the remaining entries are held for the next call
        """
        if entries:
            self._held.append(entries)
        while self._held:
            entries = self._held[0]
            file = self.files[-1] if self.files else None
            if file is None or file.is_full:
                file = self._roll(PACKED.unpack_from(entries)[2])
            count = file.put_all(entries)
            assert count > 0, "no entry fits into a file that is not full"
            self.entries_put.value += count
            if count * PACKED.size == len(entries):
                self._held.pop(0)
            else:
                self._held[0] = entries[count * PACKED.size :]

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
        """Removes entries of records at or after a physical offset.

        time_of   as in `View.truncate`
        """
        self._held.clear()
        kept = len(self.files)
        while kept and self.files[kept - 1].header.begin_physical_offset >= physical_offset:
            kept -= 1
        self._keep(kept)
        if self.files:
            self.files[-1].truncate(physical_offset, time_of)

    def repair(self, physical_offset: int, time_of: Callable[[int], int]) -> None:
        """Keeps, after a crash, the entries of records below an offset, which were durable.

        Other entries that a power cut left are removed; their records are dispatched again.
        """
        kept = len(self.files)
        while kept and not self.files[kept - 1].begins_below(physical_offset):
            kept -= 1
        self._keep(kept)
        if self.files:
            self.files[-1].repair(physical_offset, time_of)

    def durable_below(self, physical_offset: int, sealed_time: int | None) -> int:
        """Returns `durable_offset` as it would be after `drop_doubtful` and `truncate`."""
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
        """Removes the first damaged or empty file and all later files.

        Their records are dispatched again, from the last record of the remaining files on. A power
        cut may leave a file that was never synced empty, after a file with room.

        sealed_time   None, except after another broker's unclean end: files that end later are also
                      removed, as such a broker syncs index files only when they are full
        """
        sound = self._sound_count(sealed_time)
        if sound == len(self.files):
            return
        self._keep(sound)
        if self.files:  # Other keys of the last record may be in the removed file.
            self.truncate(self.files[-1].header.end_physical_offset, time_of)

    def remove_all(self) -> None:
        """Removes all files, so that the index is rebuilt."""
        self._held.clear()
        self._keep(0)

    def _keep(self, count: int) -> None:
        """Keeps the first files and removes the others, durably: a crash must not restore them."""
        gone = self.files[count:]
        del self.files[count:]
        for file in gone:
            file.remove()
        if gone:
            self._disk.sync_directory(self.directory)

    def trim(self, min_physical_offset: int) -> list[IndexFile]:
        """Drops files, except the last, whose records left the log; returns them for unlinking.

        Source   IndexService.deleteExpiredFile
        """
        gone: list[IndexFile] = []
        while len(self.files) > 1:
            if self.files[0].header.end_physical_offset >= min_physical_offset:
                break
            gone.append(self.files.pop(0))
        return gone

    def flush(self, files: Sequence[IndexFile] | None = None) -> None:
        """Makes the entries of all files, or of the given held files, durable; blocks."""
        for file in self.files if files is None else files:
            if file.is_dirty:
                file.sync()
            if file.is_full:
                self.sealed_time = file.header.end_timestamp

    # -- reading -------------------------------------------------------------------------------
    def candidates(
        self, topic: str, key: str, *, begin_ms: int, end_ms: int, index_type: str = "",
        after: tuple[str, int] | None = None, lowest: int = 0,
    ) -> Iterator[Candidate]:  # fmt: skip
        """Yields every step of a key's chains, newest first.

        after    file name and number of the candidate with which an earlier search ended: the
                 search continues after it
        lowest   physical offset below which no entry matches: files that end before it are skipped
        Cost     reads of two pages a file, whatever the times
        Source   IndexService.queryOffset, IndexFile.selectPhyOffset; their files of other times
                 are skipped, with messages that were stored after the clock was set back
        """
        wanted = searched_hash(topic, key, index_type)
        lower, upper = begin_ms - TIME_MARGIN_MS, end_ms + TIME_MARGIN_MS
        for file in reversed(self.files):
            name = file.path.name
            if after is not None and name > after[0]:
                continue
            below = after[1] if after is not None and name == after[0] else 0
            if file.header.end_physical_offset < lowest:
                continue
            # No file is skipped by its header's times, as the clock may have been set within it.
            # An entry that is older than its file's first entry contains the first entry's time.
            first_ms = file.header.begin_timestamp
            for number, physical_offset, time_ms, is_equal in file.walk(wanted, below):
                may_be_older = time_ms == first_ms and number > 1
                is_timely = lower <= time_ms and (time_ms <= upper or may_be_older)
                is_match = is_equal and physical_offset >= lowest and is_timely
                yield Candidate(name, number, physical_offset, is_match)

    def close(self) -> None:
        """Closes all files."""
        close_all(file.close for file in self.files)
