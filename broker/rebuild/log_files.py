"""The files of a commit log, as names and numbers that can be sent to a worker."""

import os
from dataclasses import dataclass
from pathlib import Path

from broker.format.index_layout import IndexGeometry
from broker.format.names import COMMIT_LOG_DIRECTORY, offset_from_file_name
from broker.model.delay_levels import DEFAULT_DELAY_LEVELS
from broker.model.errors import NotAStore, StoreGap, WrongFileSize

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


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """What views are built with; the same in every worker.

    check_crc      compare every body with its CRC, and a property CRC where there is one
    crc_share      of the chunks whose CRCs are compared: 1 is all, 0.1 every tenth by its place
    property_crc   the writer appends a property CRC: properties that end in zeros are damage
    removed        queue offsets of removed topics, as `QueueTable` takes them
    """

    consume_queue_file_bytes: int
    geometry: IndexGeometry
    style: str
    time_zone: str = "UTC"
    delay_levels: str = DEFAULT_DELAY_LEVELS
    check_crc: bool = False
    property_crc: bool = False
    crc_share: float = 1.0
    removed: str = ""


def find_log_files(store: Path, file_size_bytes: int) -> list[LogFile]:
    """Return the files of a store's log in order; none when it has no log.

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
        if size != file_size_bytes:
            raise WrongFileSize(
                path=str(path), expected_bytes=file_size_bytes, found_bytes=size,
                key_names=_KEY_NAMES,
            )  # fmt: skip
        if files and base != files[-1].end:
            raise StoreGap(path=str(path), expected=files[-1].end, found=base)
        files.append(LogFile(str(path), base, size))
    return files
