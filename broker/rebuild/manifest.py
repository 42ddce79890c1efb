"""`manifest.json`: every file a rebuild made, with what proves it and where it comes from."""

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from broker.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from broker.format.index_layout import HEADER, HEADER_SIZE, IndexHeaderValues
from broker.format.names import CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from broker.rebuild.plan import Mapper
from broker.rebuild.sequential import Rebuilt
from broker.rebuild.staging import MANIFEST_FILE, Staging

_PIECE: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileMark:
    """One file: its path below the directory, length, sha256 and the records it is about.

    source   physical offsets [first record, last record], empty when it tells of none
    """

    path: str
    size: int
    sha256: str
    source: list[int]


def write_manifest(staging: Staging, rebuilt: Rebuilt, mapper: Mapper) -> None:
    """Make all files durable and write down what they are."""
    tasks = [(str(staging.out), path) for path in view_files(staging.out)]
    marks = list(mapper(mark_file, tasks))
    document = asdict(rebuilt)
    document["queues"] = [[*key, *ends] for key, ends in sorted(rebuilt.queues.items())]
    document["files"] = [asdict(mark) for mark in marks]
    staging.write(staging.work / MANIFEST_FILE, document)


def view_files(out: Path) -> list[str]:
    """Return the paths of all files of the views below a directory, sorted."""
    return sorted(_files_below(out, CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY))


def _files_below(out: Path, *names: str) -> Iterator[str]:
    for name in names:
        for path in (out / name).rglob("*"):
            if path.is_file():
                yield path.relative_to(out).as_posix()


def mark_file(task: tuple[str, str]) -> FileMark:
    """Make a file durable and return its mark.

    Cost     about 1 ms a MiB
    """
    out, path = task
    digest = hashlib.sha256()
    with (Path(out) / path).open("rb") as file:
        os.fsync(file.fileno())
        while piece := file.read(_PIECE):
            digest.update(piece)
        size = file.tell()
        is_index = path.startswith(INDEX_DIRECTORY)
        source = _index_source(file.fileno()) if is_index else _unit_source(file.fileno(), size)
    return FileMark(path, size, digest.hexdigest(), source)


def _index_source(descriptor: int) -> list[int]:
    header = IndexHeaderValues(*HEADER.unpack(os.pread(descriptor, HEADER_SIZE, 0)))
    return [header.begin_physical_offset, header.end_physical_offset]


def _unit_source(descriptor: int, size: int) -> list[int]:
    """Return the records of the first and the last unit that tells of one."""
    count = size // UNIT_SIZE
    units = range(count)
    lower = bisect_left(units, True, key=lambda n: _unit(descriptor, n)[1] != PRE_BLANK_SIZE)
    upper = bisect_left(units, True, lower, key=lambda n: _unit(descriptor, n)[1] == 0)
    if lower >= upper:
        return []
    return [_unit(descriptor, lower)[0], _unit(descriptor, upper - 1)[0]]


def _unit(descriptor: int, number: int) -> Any:
    return UNIT.unpack(os.pread(descriptor, UNIT_SIZE, number * UNIT_SIZE))
