"""The files of a commit log, as names and numbers that can be sent to a worker."""

import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.format.index_layout import IndexGeometry, StyleSpans
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    is_junk,
    offset_file_name,
    offset_from_file_name,
)
from pocketmq.model.errors import ReadFailed, StoreGap, StrayFile, WrongFileSize
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.store_shape import StoreShape
from pocketmq.walk.log_walk import Hole, LogWalk
from pocketmq.walk.reader import Chunk, LogReader
from pocketmq.walk.search import first_times
from pocketmq.walk.source import LogSource

CLOCK_STEP_MS: Final = 3_600_000
"""Largest backward step of a broker's clock with which a search by time misses no message."""
_KEY_NAMES = "mappedFileSizeCommitLog"


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file: `base` is the physical offset of its first byte."""

    path: str
    base: int
    size: int

    @property
    def end(self) -> int:
        """Physical offset after its last byte."""
        return self.base + self.size

    @contextmanager
    def opened(self) -> Iterator[LogSource]:
        """Opens and maps the file for a walk.

        Errors   ReadFailed, OSError; ValueError: the file has become shorter than `size`
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError as error:
            raise ReadFailed(path=self.path, why=str(error.strerror)) from error
        try:
            with (
                mmap.mmap(descriptor, self.size, access=mmap.ACCESS_READ) as mapped,
                memoryview(mapped) as view,
            ):

                def read_into(position: int, room: memoryview) -> int:
                    return os.preadv(descriptor, [room], position)

                yield LogSource(self.path, self.base, self.size, view, read_into, self.size)
        finally:
            os.close(descriptor)


@dataclass(frozen=True, kw_only=True)
class KnownShape(StoreShape):
    """The shape of an existing store, and other facts needed before its files are opened.

    older_styles        JSON, [[end, index style], …], ascending by physical offset: records that
                        start below an end have its index style, later records `index_style`
    removed             JSON: queue offsets below which messages of deleted topics have no units
                        (`QueueTable`); "" if there are none
    left_over           bounds of records that no longer belong to a queue (`LeftOver.text`); "" if
                        there are none
    property_crc_from   physical offset from which on each record ends with a CRC over the whole
                        record; OFFSET_MAX: no record does; None: the store does not contain the
                        offset, so the first records show whether records end with a CRC
    check_crc           whether to check the CRC of every body, and property CRCs where they exist
    crc_share           share of the chunks whose CRCs are checked: 1 is all, 0.1 about a tenth;
                        positions select the chunks
    filters             text of config/consumerFilter.json, "" without a file: the subscriptions
                        whose filter bits the extension units contain (filter/subscriptions.py)
    """

    older_styles: str = ""
    removed: str = ""
    left_over: str = ""
    property_crc_from: int | None = None
    check_crc: bool = False
    crc_share: float = 1.0
    filters: str = ""

    @property
    def geometry(self) -> IndexGeometry:
        """Geometry of the store's index files."""
        return IndexGeometry.of(self)

    @property
    def style_spans(self) -> StyleSpans:
        """`older_styles`, parsed."""
        return tuple((end, style) for end, style in json.loads(self.older_styles or "[]"))

    def with_styles(self, spans: StyleSpans, style: str | None) -> "KnownShape":
        """Returns the shape with the index styles that were found in an index."""
        older = json.dumps(spans) if spans else ""
        return replace(self, older_styles=older, index_style=style or self.index_style)


def find_log_files(store: Path, file_size_bytes: int | None = None) -> list[LogFile]:
    """Returns the files of a store's log in order; an empty list if the store has no log.

    file_size_bytes   required size of each file; None: the size of the first file
    Errors   StrayFile, WrongFileSize, StoreGap
    Source   MappedFileQueue.doLoad
    """
    directory = store / COMMIT_LOG_DIRECTORY
    names = sorted(os.listdir(directory)) if directory.is_dir() else []
    names = [name for name in names if not is_junk(name) and not (directory / name).is_dir()]
    files: list[LogFile] = []
    for name in names:
        path = directory / name
        base = offset_from_file_name(name)
        if base is None:
            raise StrayFile(path=str(path), why="its name is not an offset of 20 digits")
        size = path.stat().st_size
        if size == 0 and name == names[-1]:
            continue
        file_size_bytes = file_size_bytes or size
        if size != file_size_bytes:
            raise WrongFileSize(
                path=str(path), expected_bytes=file_size_bytes, found_bytes=size,
                key_names=_KEY_NAMES,
            )  # fmt: skip
        if files and base != files[-1].end:
            raise StoreGap(path=str(path), expected=files[-1].end, found=base)
        files.append(LogFile(str(path), base, size))
    return files


class ReadableLog(NamedTuple):
    """The readable files of a log, and the gaps of missing or too short files."""

    files: list[LogFile]
    gaps: list[Hole]


def find_readable_files(store: Path, file_size_bytes: int) -> ReadableLog:
    """Returns the readable files of a store's log.

    Files that are too short are among them; the missing end of such a file is a gap. A file of
    another store is not among them, but a gap that names it.

    Errors   StrayFile; WrongFileSize: no file has `file_size_bytes`, or a file is larger
    """
    directory = store / COMMIT_LOG_DIRECTORY
    files: list[LogFile] = []
    gaps: list[Hole] = []
    paths = sorted(directory.iterdir()) if directory.is_dir() else []
    paths = [path for path in paths if not is_junk(path.name) and not path.is_dir()]
    if paths and not paths[-1].stat().st_size:
        paths.pop()  # A broker created the file in advance, and wrote nothing to it.
    sizes = {path.stat().st_size for path in paths}
    named = {offset_from_file_name(path.name) or 0: path.stat().st_size for path in paths}
    foreign = foreign_bases(named, file_size_bytes)
    for path in paths:
        base = offset_from_file_name(path.name)
        if base is None:
            raise StrayFile(path=str(path), why="its name is not an offset of 20 digits")
        found = path.stat().st_size
        if base in foreign:
            why = foreign_name(base, file_size_bytes)
            gaps.append(Hole(str(path), base, base + found, why, is_followed=False))
            continue
        if found > file_size_bytes or file_size_bytes not in sizes:
            raise WrongFileSize(
                path=str(path), expected_bytes=file_size_bytes, found_bytes=found,
                key_names=_KEY_NAMES,
            )  # fmt: skip
        gaps += _gap_before(directory, files, base, file_size_bytes)
        if found:
            files.append(LogFile(str(path), base, found))
        if found < file_size_bytes:
            why = f"the file has {found} bytes, {file_size_bytes} expected"
            gaps.append(Hole(str(path), base + found, base + file_size_bytes, why, False))
    return ReadableLog(files, gaps)


def foreign_bases(named: Mapping[int, int], file_size_bytes: int) -> set[int]:
    """Returns the names, as offsets, of files that begin inside another file of the log.

    Such a file is another store's, or a copy. The other file is complete, or it is missing between
    complete files, and then only a file of another length counts.

    named   length of each file, by the offset that is its name
    """
    whole = {base for base, size in named.items() if size == file_size_bytes}
    of_log = {base for base in whole if not base % file_size_bytes}
    first, last = min(of_log, default=0), max(of_log, default=0)
    return {
        base
        for base, size in named.items()
        if base % file_size_bytes
        and (
            base - base % file_size_bytes in of_log
            or (size != file_size_bytes and first < base < last)
        )
    }


def foreign_name(base: int, file_size_bytes: int) -> str:
    """Returns what is wrong with the name of such a file."""
    around = offset_file_name(base - base % file_size_bytes)
    return f"an offset inside {around}: another store's file"


def _gap_before(directory: Path, files: list[LogFile], base: int, size: int) -> Iterator[Hole]:
    begin = files[-1].base + size if files else base
    if begin < base:
        missing = str(directory / offset_file_name(begin))
        yield Hole(missing, begin, base, "the file is missing", False)


def may_hold(files: Sequence[LogFile], begin_ms: int, end_ms: int) -> list[bool]:
    """Returns for each file whether it may contain records of store times [begin_ms, end_ms).

    A file's first record is its oldest; clock steps of `CLOCK_STEP_MS` are tolerated.

    Cost     a read of two records of each file
    """
    times: list[tuple[int, ...]] = []
    for file in files:
        with file.opened() as source:
            times.append(first_times(source))
    following = [*times[1:], ()][: len(times)]
    return [
        not (own and min(own) >= end_ms + CLOCK_STEP_MS)
        and not (behind and max(behind) < begin_ms - CLOCK_STEP_MS)
        for own, behind in zip(times, following, strict=True)
    ]


def walk_over(
    files: Sequence[LogFile], walk: LogWalk, upto: int = OFFSET_MAX
) -> Iterator[Chunk | Hole]:
    """Walks files one at a time; yields holes, and chunks of the records below `upto`."""
    for file in files:
        if file.base < upto:
            with file.opened() as source:
                yield from walk.over(source, file.base, upto)


def records_end(files: Sequence[LogFile], upto: int = OFFSET_MAX) -> int:
    """Returns the end of the last record in the newest non-empty file; reads no older file.

    A running broker appends only beyond that offset, so its log can safely be read up to it.
    """
    for file in reversed(files):
        walk = LogWalk(LogReader(check_crc=True))
        for _ in walk_over([file], walk, upto):
            pass
        if walk.end:
            return walk.end
    return files[0].base if files else 0


def end_before(files: Sequence[LogFile], begin: int, time_ms: int) -> int:
    """Returns the end of the records before the first one with a store time (ms) or later.

    Cost     0.5 µs a record
    """
    end, walk = begin, LogWalk(LogReader())
    for chunk in walk_over(files, walk):
        if isinstance(chunk, Hole):
            continue
        late = chunk.heads.store_timestamp_ms >= time_ms
        if late.any():
            return int(chunk.heads.physical_offset[late.argmax()])
        end = chunk.end
    return end


def bytes_at(files: Sequence[LogFile], physical_offset: int, size: int) -> bytes:
    """Returns `size` bytes of the log; all are in one file."""
    file = next(file for file in files if file.base <= physical_offset < file.end)
    with open(file.path, "rb") as opened:
        opened.seek(physical_offset - file.base)
        return opened.read(size)
