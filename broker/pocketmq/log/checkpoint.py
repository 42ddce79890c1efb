"""The small files that record a store's durable ends: checkpoint, flushed mark, queue ends.

    checkpoint                  the ends up to which log, queues and index were durable
    pocketmq/watermark          the flushed mark: below it, the log is durable for certain
    pocketmq/queue_ends.json    the end of every queue when the checkpoint was written

The mark separates a torn tail (above it) from damage (below it). Both its slots contain a copy of
the checkpoint. If neither copy equals the checkpoint, another broker wrote to the store later, and
the mark is void. A slot is overwritten only once the other is synced: one slot is always valid.

After a crash a start reads the queue ends from the table and opens no queue. The table is written
before its checkpoint, and the previous table is kept as `.bak`. If neither table belongs to the
checkpoint, the queues are read.
docs/reference/formats/own-files.md has the layouts.
Source: StoreCheckpoint; mark and table are PocketMQ's (RocketMQ reads the ends of all queues).
"""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.checkpoint_layout import (
    CHECKPOINT_FILE_SIZE,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
)
from pocketmq.format.layout import Layout
from pocketmq.format.names import BACKUP_SUFFIX, CHECKPOINT_FILE, MARK_FILE
from pocketmq.log.queue_end import QueueEnd
from pocketmq.model.errors import DiskFull, ReadFailed, TableUnreadable
from pocketmq.model.message import OFFSET_MAX, QueueKey

SLOT_SIZE: Final = 4096
_CRC_SIZE: Final = 4
MARK: Final = Layout(
    ("sequence", "q", "grows with every write; the valid slot with the higher one counts"),
    ("flushed_upto", "q", "physical offset below which every byte was synced"),
    ("checkpoint", "48s", "the checkpoint's bytes at that time"),
    ("crc", "I", "CRC-32 of the 64 bytes before"),
)
_CRC_POSITION: Final = MARK.positions["crc"]
CONFIRMED: Final = Layout(
    (
        "confirmed_upto",
        "q",
        "consumers saw the records below; -1 - offset: unconfirmed ones; 2^63 - 1: all of them",
    ),
    ("confirmed_crc", "I", "CRC-32 of the 76 bytes before; invalid in older versions: all"),
)
"""Follows MARK in a slot."""
OLDEST: Final = Layout(
    (
        "oldest_base",
        "q",
        "offset at which the oldest file of the log begins, or will begin; 2^63 - 1: unknown",
    ),
    ("oldest_crc", "I", "CRC-32 of the 88 bytes before; invalid in older versions: unknown"),
)
"""Follows CONFIRMED in a slot."""
_OLDEST_POSITION: Final = MARK.size + CONFIRMED.size
_SLOT_READ: Final = _OLDEST_POSITION + OLDEST.size
QUEUE_ENDS_FILE: Final = "queue_ends.json"


class _NumbersFile:
    """Base class of files of fixed length that stay open and are overwritten in place."""

    __slots__ = ("_descriptor", "_disk", "path", "size")

    def __init__(self, disk: Disk, path: Path, size: int) -> None:
        self._disk = disk
        self._descriptor = -1
        self.path = path
        self.size = size

    def _open(self) -> bool:
        """Opens the file, or creates it without blocks; returns whether it existed."""
        assert self._descriptor < 0
        is_there = self._disk.exists(self.path)
        if is_there:
            self._descriptor = self._disk.open(self.path)
        else:
            self._descriptor = self._disk.make_sparse_file(self.path, self.size)
        return is_there

    def _allocate(self) -> None:
        self._disk.allocate(self._descriptor, 0, self.size, self.path)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._disk.close(descriptor)


def read_checkpoint(disk: Disk, directory: Path) -> CheckpointValues:
    """Returns the values of a store's checkpoint; zeros if the store has none."""
    path = directory / CHECKPOINT_FILE
    return decode_checkpoint(disk.read_file(path) if disk.exists(path) else b"")


class StoreCheckpoint(_NumbersFile):
    """The checkpoint file and its values."""

    __slots__ = ("values",)

    def __init__(self, disk: Disk, path: Path) -> None:
        super().__init__(disk, path, CHECKPOINT_FILE_SIZE)
        self.values = CheckpointValues()

    @property
    def content(self) -> bytes:
        """The values as bytes; mark and queue ends contain them to identify their checkpoint."""
        return encode_checkpoint(self.values)

    def load(self) -> None:
        """Reads the values; all are 0 if there is no file."""
        self.values = read_checkpoint(self._disk, self.path.parent)

    def save(self, values: CheckpointValues) -> None:
        """Writes the values durably; blocks.

        The values must describe durable data, never data that is about to be written.
        Errors   DiskFull, AllocationFailed, WriteFailed, FsyncFailed
        """
        if self._descriptor < 0:
            self._open()
            try:
                self._allocate()
            except BaseException:
                self.close()
                raise
        assert self._descriptor >= 0
        self._disk.write_at(self._descriptor, 0, encode_checkpoint(values))
        self._disk.sync(self._descriptor)
        self.values = values


class FlushedMark(_NumbersFile):
    """The flushed mark of one store."""

    __slots__ = (
        "_found", "_is_allocated", "_is_announced", "_kept", "_sequence", "_written", "checkpoint",
        "confirmed_upto", "flushed_upto", "is_confirmed", "oldest_base",
    )  # fmt: skip

    def __init__(self, disk: Disk, own_directory: Path) -> None:
        super().__init__(disk, own_directory / MARK_FILE, 2 * SLOT_SIZE)
        self._is_allocated = False
        self._is_announced = False
        self._sequence = 0
        self._kept = 0
        """Number of the slot that is durable, and must therefore not be overwritten."""
        self._written: int | None = None
        """Number of the slot that the next sync makes durable."""
        self._found: list[tuple[int, int, int, bytes, int, int]] = []
        self.checkpoint = b""
        self.flushed_upto = 0
        self.confirmed_upto = OFFSET_MAX
        """Physical offset below which consumers may see the records; `write` stores it."""
        self.is_confirmed = False
        """Whether a leader has confirmed the records below `confirmed_upto`; `write` stores it."""
        self.oldest_base = OFFSET_MAX
        """Base of the oldest file of the log; OFFSET_MAX: unknown. `write` stores it."""

    def confirm(self, upto: int, *, is_confirmed: bool) -> None:
        """Sets `confirmed_upto` and `is_confirmed` for the next `write`."""
        self.confirmed_upto, self.is_confirmed = upto, is_confirmed

    def open(self) -> None:
        """Reads the file's newer valid slot; if there is no file, the first `write` creates it."""
        if not self._disk.exists(self.path):
            return
        self._open()
        self._choose(
            *(self._disk.read_at(self._descriptor, slot * SLOT_SIZE, _SLOT_READ) for slot in (0, 1))
        )

    def look(self) -> None:
        """Reads the mark as `open` does, but leaves no file open and writes nothing.

        Errors   OSError: the file cannot be read
        """
        if self._disk.exists(self.path):
            content = self._disk.read_file(self.path)
            self._choose(*(content[slot * SLOT_SIZE :][:_SLOT_READ] for slot in (0, 1)))

    def _choose(self, *slots: bytes) -> None:
        for slot, content in enumerate(slots):
            self._consider(slot, content)
        self._found.sort(reverse=True)
        if self._found:
            self._adopt(*self._found[0])

    def _consider(self, slot: int, content: bytes) -> None:
        if len(content) < MARK.size:
            return
        sequence, flushed_upto, checkpoint, crc = MARK.struct.unpack_from(content)
        if crc == zlib.crc32(content[:_CRC_POSITION]) and sequence > 0:
            confirmed_upto = _checked(content, CONFIRMED, MARK.size)
            oldest_base = _checked(content, OLDEST, _OLDEST_POSITION)
            self._found.append(
                (sequence, slot, flushed_upto, checkpoint, confirmed_upto, oldest_base)
            )

    def _adopt(
        self,
        sequence: int,
        slot: int,
        flushed_upto: int,
        checkpoint: bytes,
        confirmed_upto: int,
        oldest_base: int,
    ) -> None:
        self._sequence = max(self._sequence, sequence)
        self._kept = slot
        self.flushed_upto = flushed_upto
        self.checkpoint = checkpoint
        self.is_confirmed = 0 <= confirmed_upto < OFFSET_MAX
        self.confirmed_upto = max(confirmed_upto, ~confirmed_upto)
        self.oldest_base = oldest_base

    def valid_upto(self, checkpoint: bytes) -> int | None:
        """Returns the mark; None if there is none, or if another broker wrote after it.

        Effects  the newest slot that has this checkpoint becomes the current one; without such a
                 slot, all records count as visible and unconfirmed
        """
        if self._sequence and self.checkpoint == checkpoint:
            return self.flushed_upto
        for found in self._found:
            if found[3] == checkpoint:
                self._adopt(*found)
                return self.flushed_upto
        self.confirm(OFFSET_MAX, is_confirmed=False)
        self.oldest_base = OFFSET_MAX
        return None

    def write(self, flushed_upto: int, checkpoint: bytes | None = None) -> None:
        """Sets the mark; durable with the next `sync`. A mark may be too low, but never too high.

        checkpoint   the checkpoint's bytes to store with the mark; None: those of the last mark
        Effects  between `announce` and `settle` the mark is kept in memory only
        Errors   WriteFailed; DiskFull, AllocationFailed: after the first mark only on a
                 copy-on-write file system
        """
        self.flushed_upto = flushed_upto
        if self._is_announced:
            return
        if not self._is_allocated:
            if self._descriptor < 0:
                self._open()
            self._allocate()
            self._is_allocated = True
        self._sequence += 1
        checkpoint = self.checkpoint if checkpoint is None else checkpoint
        content = MARK.struct.pack(self._sequence, flushed_upto, checkpoint, 0)[:_CRC_POSITION]
        content += zlib.crc32(content).to_bytes(4)
        is_plain = self.is_confirmed or self.confirmed_upto == OFFSET_MAX
        confirmed_upto = self.confirmed_upto if is_plain else ~self.confirmed_upto
        content += CONFIRMED.struct.pack(confirmed_upto, 0)[:-_CRC_SIZE]
        content += zlib.crc32(content).to_bytes(4)
        content += OLDEST.struct.pack(self.oldest_base, 0)[:-_CRC_SIZE]
        content += zlib.crc32(content).to_bytes(4)
        self._written = slot = 1 - self._kept
        self._disk.write_at(self._descriptor, slot * SLOT_SIZE, content)
        self._found = []
        self.checkpoint = checkpoint

    def announce(self, checkpoint: bytes) -> None:
        """Sets the mark for a checkpoint that will be saved after the next `sync`.

        Effects  until `settle`, `write` changes no slot: the mark for the old checkpoint must stay
        Errors   those of `write`
        """
        self.write(self.flushed_upto, checkpoint)
        self._is_announced = True

    def settle(self) -> None:
        """Ends the announcement: the announced checkpoint was saved.

        Errors   those of `write`
        """
        assert self._is_announced
        self._is_announced = False
        self.write(self.flushed_upto)

    def sync(self) -> None:
        """Makes the mark durable; blocks. Another thread may call `write` at the same time."""
        slot, self._written = self._written, None
        self._disk.sync(self._descriptor)
        if slot is not None:
            self._kept = slot


def _checked(content: bytes, layout: Layout, position: int) -> int:
    """Returns a number of a slot that its CRC follows; OFFSET_MAX if the CRC is wrong."""
    end = position + layout.size
    if len(content) < end:
        return OFFSET_MAX
    number, crc = layout.struct.unpack_from(content, position)
    is_valid = crc == zlib.crc32(content[: end - _CRC_SIZE])
    return int(number) if is_valid else OFFSET_MAX


class QueueEnds:
    """The table of queue ends of one store."""

    __slots__ = ("_disk", "_table", "rows")

    def __init__(self, disk: Disk, own_directory: Path) -> None:
        self._disk = disk
        self._table = TableFile(disk, own_directory / QUEUE_ENDS_FILE)
        self.rows: dict[QueueKey, QueueEnd] = {}
        """Rows of the next table; the rows of queues that have grown are out of date."""

    def load(self, checkpoint: bytes) -> dict[QueueKey, QueueEnd]:
        """Returns the table that was written for this checkpoint; empty without a valid one."""
        try:
            return self._table.read(lambda content: _decode(content, checkpoint)) or {}
        except (ReadFailed, TableUnreadable):
            return {}

    def save(self, checkpoint: bytes, rows: Mapping[QueueKey, QueueEnd]) -> None:
        """Writes the table for a checkpoint that is about to be saved; blocks.

        Effects  if the disk is full, the table is removed: the next start reads all queues
        Errors   AllocationFailed, WriteFailed, FsyncFailed
        Cost     about 1 µs a queue and two syncs
        """
        try:
            self._table.write(_encode(checkpoint, rows))
        except DiskFull:  # An old table might have the same checkpoint but other queues.
            self.remove()

    def remove(self) -> None:
        """Deletes the table, for example before other code writes to the queues' files."""
        path = self._table.path
        for name in (path, path.with_name(path.name + BACKUP_SUFFIX)):
            self._disk.unlink(name)
        self._disk.sync_directory(path.parent)


def _encode(checkpoint: bytes, rows: Mapping[QueueKey, QueueEnd]) -> bytes:
    topics: dict[str, dict[int, QueueEnd]] = {}
    for (topic, queue_id), end in rows.items():
        topics.setdefault(topic, {})[queue_id] = end
    # Topic by topic: this runs in a thread, and each call holds the GIL until it returns.
    parts = (f"{json.dumps(topic)}: {json.dumps(queues)}" for topic, queues in topics.items())
    body = ("{" + ", ".join(parts) + "}").encode()
    head = {"checkpoint": checkpoint.hex(), "crc": zlib.crc32(body)}
    return json.dumps(head).encode() + b"\n" + body


def _decode(content: bytes, checkpoint: bytes) -> dict[QueueKey, QueueEnd]:
    head, _, body = content.partition(b"\n")
    if json.loads(head) != {"checkpoint": checkpoint.hex(), "crc": zlib.crc32(body)}:
        raise ValueError("it is damaged, or belongs to another checkpoint")
    try:
        return {
            (topic, int(queue_id)): QueueEnd(*end)
            for topic, queues in json.loads(body).items()
            for queue_id, end in queues.items()
        }
    except (TypeError, AttributeError) as error:
        raise ValueError("its rows are invalid") from error
