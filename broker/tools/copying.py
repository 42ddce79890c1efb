"""Which files of a store are copied, in which order, and how one is."""

import os
from collections.abc import Iterator
from enum import Enum
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Final

from broker.files.disk_errors import FullDisk
from broker.format.layout import is_zero
from broker.format.names import OWN_DIRECTORY
from broker.rebuild.range_pass import Advance

PIECE_SIZE: Final = 1024 * 1024
BLOCK_SIZE: Final = 64 * 1024
"""Zeros of this size are left out of a file: it stays sparse."""


class Turn(Enum):
    """When a file is copied."""

    EARLY = "before the log"
    LOG = "with the log"
    LATE = "after the log"
    OUT = "left out"
    NEVER = "never"


RUNNING, STOPPED, WITH_VIEWS = range(3)
_TURNS: Final[tuple[tuple[str, tuple[Turn, Turn, Turn]], ...]] = (
    # the first pattern that fits a path                 running  stopped  with its views
    ("lock abort backup.json* pocketmq/reserve *.draft", (Turn.NEVER, Turn.NEVER, Turn.NEVER)),
    ("pocketmq/watermark", (Turn.NEVER, Turn.LATE, Turn.LATE)),
    ("pocketmq/queue_ends.json*", (Turn.NEVER, Turn.NEVER, Turn.LATE)),
    ("commitlog/*", (Turn.LOG, Turn.LOG, Turn.LOG)),
    ("pocketmq/replaced/*", (Turn.OUT, Turn.OUT, Turn.OUT)),
    ("consumequeue/* index/*", (Turn.OUT, Turn.OUT, Turn.LATE)),
    ("checkpoint", (Turn.EARLY, Turn.EARLY, Turn.EARLY)),
    # Tables that the log needs; the others hold positions in it, or nothing that must agree.
    ("config/topics.json* config/subscriptionGroup.json*", (Turn.LATE, Turn.LATE, Turn.LATE)),
    ("config/topicQueueMapping.json*", (Turn.LATE, Turn.LATE, Turn.LATE)),
    ("config/*.json config/*.json.bak", (Turn.EARLY, Turn.EARLY, Turn.EARLY)),
    ("config/*", (Turn.OUT, Turn.EARLY, Turn.EARLY)),
    ("pocketmq/removed.json*", (Turn.LATE, Turn.LATE, Turn.LATE)),
    ("pocketmq/store.json", (Turn.LATE, Turn.LATE, Turn.LATE)),
    ("*", (Turn.OUT, Turn.LATE, Turn.LATE)),
)
_OF_A_STORE: Final = (
    "abort checkpoint backup.draft commitlog/* consumequeue/* index/* config/* pocketmq/*"
).split()
"""What an earlier run, or a broker that had the copy open, may have left in it."""


def walk(directory: Path, *, follows_links: bool = True) -> Iterator[str]:
    """Yield the path of every file of a store; directories may be links to another disk."""
    for place, names, files in os.walk(directory, followlinks=follows_links):
        names.sort()
        for path in (Path(place, name) for name in sorted(files)):
            if path.is_file():
                yield path.relative_to(directory).as_posix()


def turn_of(relative: str, column: int) -> Turn:
    """Return when the file of this path is copied, of a store that is RUNNING, STOPPED, …."""
    return next(
        turns[column]
        for patterns, turns in _TURNS
        if any(fnmatchcase(relative, pattern) for pattern in patterns.split())
    )


def is_of_a_store(relative: str) -> bool:
    """Return whether a file of this path is a store's, so that it may go from a copy."""
    return any(fnmatchcase(relative, pattern) for pattern in _OF_A_STORE)


def shown_left_out(relative: str) -> str:
    """Return what stands for a file that is left out: its directory, unless tables lie there."""
    parts = os.fsencode(relative).decode("utf-8", "replace").split("/")
    return "/".join(parts[:2] if parts[0] in ("config", OWN_DIRECTORY) else parts[:1])


def copy_file(source: Path, target: Path, *, upto: int, size: int, advance: Advance) -> str:
    """Copy a file's first bytes, zeros up to the size asked for; returns the copy's sha256.

    Errors   OSError; DiskFull, AllocationFailed
    """
    digest, position = sha256(), 0
    with source.open("rb", buffering=0) as opened, target.open("wb", buffering=0) as sink:
        while position < upto and (piece := opened.read(min(PIECE_SIZE, upto - position))):
            digest.update(piece)
            advance(len(piece))
            with FullDisk(target):
                _write_sparse(sink.fileno(), piece, position)
            position += len(piece)
        for begin in range(position, size, PIECE_SIZE):
            digest.update(bytes(min(PIECE_SIZE, size - begin)))
        with FullDisk(target):
            os.truncate(sink.fileno(), size)
    return digest.hexdigest()


def _write_sparse(descriptor: int, piece: bytes, position: int) -> None:
    """Write what is no zeros; a disk that is nearly full takes a part and says so."""
    for begin in range(0, len(piece), BLOCK_SIZE):
        block = memoryview(piece)[begin : begin + BLOCK_SIZE]
        is_hole = is_zero(block, 0, len(block))
        while len(block) and not is_hole:
            written = os.pwrite(descriptor, block, position + begin)
            block, begin = block[written:], begin + written
