"""Where two stores differ: by meaning, message for message, and by bytes, file for file.

Messages are compared queue by queue. Both logs are walked once side by side; as long as they hold
the same messages in the same order, nothing is kept. Queues that are not in step are digested, and
walked once more to find their first difference. Memory grows with queues, not with messages.
"""

import hashlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.files.disk import Disk
from broker.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
)
from broker.format.table_json import decode_table
from broker.model.message import StoredMessage
from broker.model.offsets import QueueKey
from broker.tools.dump import LogDump
from broker.tools.store_access import Sizes

PIECE: Final = 1024 * 1024
_FIELDS: Final = (
    "queue_offset", "body", "body_crc", "properties", "system_flag", "flag", "reconsume_times",
    "born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host",
    "prepared_transaction_offset",
)  # fmt: skip


class Difference(NamedTuple):
    """One difference; `where` is a queue and offset, or a file and byte."""

    kind: str
    where: str
    left: str
    right: str


class Side(NamedTuple):
    """One of the two stores."""

    directory: Path
    sizes: Sizes


class _Digest:
    """What a queue holds, folded."""

    __slots__ = ("count", "sha")

    def __init__(self) -> None:
        self.count = 0
        self.sha = hashlib.sha256()

    def add(self, message: StoredMessage) -> None:
        self.count += 1
        self.sha.update(repr([getattr(message, name) for name in _FIELDS]).encode())


def message_differences(disk: Disk, left: Side, right: Side) -> Iterator[Difference]:
    """Yield one difference for each queue whose messages are not the same.

    Where in the log they lie does not count.
    Errors   Corruption is not raised: damaged records count as missing, see `store verify`
    Cost     two walks over both logs, four where queues differ
    """
    digests: tuple[dict[QueueKey, _Digest], dict[QueueKey, _Digest]] = ({}, {})
    walks = [LogDump(disk, side.directory, side.sizes) for side in (left, right)]
    for messages in zip_longest(*walks):
        for message, found in zip(messages, digests, strict=True):
            if message is not None:
                key = (message.topic, message.queue_id)
                found.setdefault(key, _Digest()).add(message)
    for key in sorted(digests[0].keys() | digests[1].keys()):
        one, other = (found.get(key) for found in digests)
        if one is None or other is None:
            yield Difference("queue", _name(key), _count(one), _count(other))
        elif one.sha.digest() != other.sha.digest():
            yield _first_difference(disk, left, right, key)


def _count(digest: _Digest | None) -> str:
    return f"{digest.count} messages" if digest is not None else "none"


def _name(key: QueueKey) -> str:
    return f"{key[0]}:{key[1]}"


def _of_queue(disk: Disk, side: Side, key: QueueKey) -> Iterator[StoredMessage]:
    for message in LogDump(disk, side.directory, side.sizes):
        if (message.topic, message.queue_id) == key:
            yield message


def _first_difference(disk: Disk, left: Side, right: Side, key: QueueKey) -> Difference:
    pairs = zip_longest(_of_queue(disk, left, key), _of_queue(disk, right, key))
    for one, other in pairs:
        if one is None or other is None:
            present = one or other
            where = f"{_name(key)}:{present.queue_offset}"
            return Difference("message", where, _shown(one), _shown(other))
        for name in _FIELDS:
            values = getattr(one, name), getattr(other, name)
            if values[0] != values[1]:
                where = f"{_name(key)}:{one.queue_offset}"
                return Difference(name, where, _shown(values[0]), _shown(values[1]))
    return Difference("message", _name(key), "changed meanwhile", "changed meanwhile")


def _shown(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, StoredMessage):
        return f"record {value.physical_offset}"
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def file_differences(left: Path, right: Path) -> Iterator[Difference]:
    """Yield one difference for each file of log, queues and index that is not the same.

    Index files are compared by their order: their names are of the clock that made them.
    """
    for directory in (COMMIT_LOG_DIRECTORY, CONSUME_QUEUE_DIRECTORY):
        yield from _tree_differences(left / directory, right / directory, directory)
    indexes = [_files_in(side / INDEX_DIRECTORY) for side in (left, right)]
    for one, other in zip_longest(*indexes):
        if one is None or other is None:
            present = one or other
            yield Difference("file", f"{INDEX_DIRECTORY}/{present.name}", *_presence(one, other))
        else:
            yield from _byte_difference(one, other, f"{INDEX_DIRECTORY}/{one.name}")


def _files_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _presence(one: Path | None, other: Path | None) -> tuple[str, str]:
    return ("there" if one else "missing", "there" if other else "missing")


def _tree_differences(left: Path, right: Path, prefix: str) -> Iterator[Difference]:
    names = [
        {str(path.relative_to(side)): path for path in _files_in(side)} for side in (left, right)
    ]
    for name in sorted(names[0].keys() | names[1].keys()):
        one, other = (found.get(name) for found in names)
        if one is None or other is None:
            yield Difference("file", f"{prefix}/{name}", *_presence(one, other))
        else:
            yield from _byte_difference(one, other, f"{prefix}/{name}")


def _byte_difference(one: Path, other: Path, name: str) -> Iterator[Difference]:
    sizes = one.stat().st_size, other.stat().st_size
    if sizes[0] != sizes[1]:
        yield Difference("size", name, str(sizes[0]), str(sizes[1]))
        return
    with one.open("rb") as left, other.open("rb") as right:
        position = 0
        while piece := left.read(PIECE):
            beside = right.read(PIECE)
            if piece != beside:
                at = next(
                    n
                    for n, pair in enumerate(zip(piece, beside, strict=True))
                    if pair[0] != pair[1]
                )
                values = f"0x{piece[at]:02X}", f"0x{beside[at]:02X}"
                yield Difference("byte", f"{name} at {position + at}", *values)
                return
            position += len(piece)


def table_differences(left: Path, right: Path) -> Iterator[Difference]:
    """Yield one difference for each table under config/ that says something else."""
    for name in sorted(
        {path.name for side in (left, right) for path in (side / CONFIG_DIRECTORY).glob("*.json")}
    ):
        tables = [_table(side / CONFIG_DIRECTORY / name) for side in (left, right)]
        if tables[0] != tables[1]:
            yield Difference("table", f"{CONFIG_DIRECTORY}/{name}", *map(_shown, tables))


def _table(path: Path) -> Any:
    try:
        return decode_table(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        return f"cannot be read: {error}"
