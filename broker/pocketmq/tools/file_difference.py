"""Differences of two stores' files: byte for byte, and tables by their content.

Files of log and queues are compared by name, index files by their order: their names are of the
clock that made them. A file of the log that is all zeros counts as none: it was made ahead.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
)
from pocketmq.format.table_json import decode_table
from pocketmq.tools.difference import Difference, excerpts, first_unlike

PIECE: Final = 1024 * 1024
LOG_FILES: Final = (COMMIT_LOG_DIRECTORY,)
VIEW_FILES: Final = (CONSUME_QUEUE_DIRECTORY, CONSUME_QUEUE_EXTENSION_DIRECTORY, INDEX_DIRECTORY)
_MISSING: Final = object()


def file_differences(left: Path, right: Path, directories: Sequence[str]) -> Iterator[Difference]:
    """Yields a difference for each file below these directories that is not the same.

    Cost     reads both, holes of sparse files included
    """
    for directory in directories:
        for one, other in _pairs(left / directory, right / directory):
            present = one or other
            assert present is not None
            where = present.relative_to(left if one else right).as_posix()
            if one is not None and other is not None:
                yield from _byte_differences(one, other, where)
            elif directory != COMMIT_LOG_DIRECTORY or not _is_all_zeros(present):
                there = ("there" if one else "missing", "there" if other else "missing")
                yield Difference("file", where, "file", *there)


def _pairs(left: Path, right: Path) -> Iterator[tuple[Path | None, Path | None]]:
    """Yields the pairs of files to compare: by name, index files by order."""
    found = [
        sorted(path for path in directory.rglob("*") if path.is_file())
        for directory in (left, right)
    ]
    if left.name == INDEX_DIRECTORY:
        yield from zip_longest(*found)
        return
    one, other = (
        {path.relative_to(directory): path for path in paths}
        for directory, paths in zip((left, right), found, strict=True)
    )
    for name in sorted(one.keys() | other.keys()):
        yield one.get(name), other.get(name)


def _is_all_zeros(path: Path) -> bool:
    with path.open("rb") as opened:
        return all(not piece.strip(b"\0") for piece in iter(lambda: opened.read(PIECE), b""))


def _byte_differences(one: Path, other: Path, where: str) -> Iterator[Difference]:
    sizes = one.stat().st_size, other.stat().st_size
    if sizes[0] != sizes[1]:
        yield Difference("file", where, "length", str(sizes[0]), str(sizes[1]))
    with one.open("rb") as left, other.open("rb") as right:
        position = 0
        while (piece := left.read(PIECE)) and (beside := right.read(PIECE)):
            at = len(piece) if piece == beside else first_unlike(piece, beside)
            if at < min(len(piece), len(beside)):
                values = f"0x{piece[at]:02X}", f"0x{beside[at]:02X}"
                yield Difference("file", where, f"byte {position + at}", *values)
                return
            position += len(piece)


# -- tables ----------------------------------------------------------------------------------------
def table_differences(left: Path, right: Path) -> Iterator[Difference]:
    """Yields a difference for each entry of a table under config/ that differs."""
    directories = [store / CONFIG_DIRECTORY for store in (left, right)]
    names = {path.name for directory in directories for path in directory.glob("*.json")}
    for name in sorted(names):
        one, other = (_table(directory / name) for directory in directories)
        yield from _entry_differences(f"{CONFIG_DIRECTORY}/{name}", "", one, other)


def _table(path: Path) -> Any:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return _MISSING
    try:
        return decode_table(content)
    except ValueError as error:
        return f"cannot be read: {error}"


def _entry_differences(where: str, what: str, one: Any, other: Any) -> Iterator[Difference]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys(), key=str):
            name = f"{what}.{key}" if what else str(key)
            pair = one.get(key, _MISSING), other.get(key, _MISSING)
            yield from _entry_differences(where, name, *pair)
    elif one != other:
        left, right = excerpts(*(_entry_text(value) for value in (one, other)))
        yield Difference("table", where, what or "table", left, right)


def _entry_text(value: Any) -> str:
    if value is _MISSING:
        return "missing"
    return json.dumps(value, ensure_ascii=False)
