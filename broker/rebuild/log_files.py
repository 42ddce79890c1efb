"""The files of a commit log, as names and numbers that can be sent to a worker."""

import json
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from broker.format.index_layout import IndexGeometry, StyleSpans
from broker.format.names import COMMIT_LOG_DIRECTORY, offset_from_file_name
from broker.model.errors import NotAStore, StoreGap, WrongFileSize
from broker.model.message import OFFSET_MAX
from broker.model.store_shape import StoreShape
from broker.walk.log_walk import Hole, LogWalk
from broker.walk.reader import Chunk, LogReader
from broker.walk.source import LogSource

_KEY_NAMES = "mappedFileSizeCommitLog"


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file: `base` is the physical offset of its first byte."""

    path: str
    base: int
    size: int

    @property
    def end(self) -> int:
        """Physical offset behind its last byte."""
        return self.base + self.size

    @contextmanager
    def opened(self) -> Iterator[LogSource]:
        """Open and map the file for a walk.

        Errors   OSError; ValueError: it is shorter than it was
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
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
    """The shape of an existing store, and what else must be known before its files are opened.

    older_styles        JSON, [[physical offset, index style], …], rising: records that start below
                        it are indexed in another style than `index_style`
    removed             where queues of removed topics go on, "" without any (`QueueTable`)
    property_crc_from   physical offset from which on records end with a CRC over all of them,
                        OFFSET_MAX: nowhere yet; None where the store does not say: the first
                        records tell
    check_crc           compare every body with its CRC, and a property CRC where there is one
    crc_share           of the chunks whose CRCs are compared: 1 is all, 0.1 every tenth by its
                        place
    """

    older_styles: str = ""
    removed: str = ""
    property_crc_from: int | None = None
    check_crc: bool = False
    crc_share: float = 1.0

    @property
    def geometry(self) -> IndexGeometry:
        """That of its index files."""
        return IndexGeometry.of(self)

    @property
    def style_spans(self) -> StyleSpans:
        """The older styles, parsed."""
        return tuple((end, style) for end, style in json.loads(self.older_styles or "[]"))

    def with_styles(self, spans: StyleSpans, style: str | None) -> "KnownShape":
        """Return the shape with what an index shows of its styles."""
        older = json.dumps(spans) if spans else ""
        return replace(self, older_styles=older, index_style=style or self.index_style)


def find_log_files(store: Path, file_size_bytes: int | None = None) -> list[LogFile]:
    """Return the files of a store's log in order; none when it has no log.

    file_size_bytes   of each; None: that of the first
    Errors   NotAStore (a foreign file), WrongFileSize, StoreGap
    Source   MappedFileQueue.doLoad
    """
    directory = store / COMMIT_LOG_DIRECTORY
    names = sorted(os.listdir(directory)) if directory.is_dir() else []
    names = [name for name in names if not (directory / name).is_dir()]
    files: list[LogFile] = []
    for name in names:
        path = directory / name
        base = offset_from_file_name(name)
        if base is None:
            raise NotAStore(path=str(path), why="a file of another name stands here")
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


def walk_over(
    files: Sequence[LogFile], walk: LogWalk, upto: int = OFFSET_MAX
) -> Iterator[Chunk | Hole]:
    """Yield what a walk finds in files, opened one at a time, of records below `upto`."""
    for file in files:
        if file.base < upto:
            with file.opened() as source:
                yield from walk.over(source, file.base, upto)


def records_end(files: Sequence[LogFile], upto: int = OFFSET_MAX) -> int:
    """Return where the records of the newest file that holds any end; older ones are not read.

    What a broker writes meanwhile lies behind it, so that a live log can be read below it.
    """
    for file in reversed(files):
        walk = LogWalk(LogReader(check_crc=True))
        for _ in walk_over([file], walk, upto):
            pass
        if walk.end:
            return walk.end
    return files[0].base if files else 0


def bytes_at(files: Sequence[LogFile], physical_offset: int, size: int) -> bytes:
    """Return bytes of the log."""
    file = next(file for file in files if file.base <= physical_offset < file.end)
    with open(file.path, "rb") as opened:
        opened.seek(physical_offset - file.base)
        return opened.read(size)
