"""`pocketmq/watermark`: up to where the log was durable for certain.

Two slots of 4096 bytes, written in turn:
   0   8  sequence        rises with every write; the valid slot with the higher one counts
   8   8  flushed_upto    physical offset below which every byte was synced
  16  48  checkpoint      the checkpoint's bytes at that time
  64   4  crc             CRC-32 of the 64 bytes before

If the checkpoint differs from the copy, another broker wrote here since: the mark is void.
Recovery needs it to tell a torn tail (above) from damage (below).
"""

import zlib
from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.format.layout import Layout

MARK_FILE: Final = "watermark"
SLOT_SIZE: Final = 4096
MARK: Final = Layout(
    ("sequence", "q", "rises with every write; the valid slot with the higher one counts"),
    ("flushed_upto", "q", "physical offset below which every byte was synced"),
    ("checkpoint", "48s", "the checkpoint's bytes at that time"),
    ("crc", "I", "CRC-32 of the 64 bytes before"),
)
_CRC_POSITION: Final = MARK.positions["crc"]


class FlushedMark:
    """The mark of one store."""

    __slots__ = (
        "_descriptor", "_disk", "_is_allocated", "_path", "_sequence", "checkpoint", "flushed_upto",
    )  # fmt: skip

    def __init__(self, disk: Disk, own_directory: Path) -> None:
        self._disk = disk
        self._path = own_directory / MARK_FILE
        self._descriptor = -1
        self._is_allocated = False
        self._sequence = 0
        self.checkpoint = b""
        self.flushed_upto = 0

    def open(self) -> None:
        """Make or open the file and read the newer valid slot.

        Errors   DiskFull, AllocationFailed
        """
        if not self._disk.exists(self._path):
            self._descriptor = self._disk.make_sparse_file(self._path, 2 * SLOT_SIZE)
            return
        self._descriptor = self._disk.open(self._path)
        for slot in (0, 1):
            self._consider(self._disk.read_at(self._descriptor, slot * SLOT_SIZE, MARK.size))

    def _consider(self, content: bytes) -> None:
        if len(content) < MARK.size:
            return
        sequence, flushed_upto, checkpoint, crc = MARK.struct.unpack(content)
        if crc == zlib.crc32(content[:_CRC_POSITION]) and sequence > self._sequence:
            self._sequence = sequence
            self.flushed_upto = flushed_upto
            self.checkpoint = checkpoint

    def valid_upto(self, checkpoint: bytes) -> int | None:
        """Return the mark, None when there is none or another broker wrote since."""
        if not self._sequence or self.checkpoint != checkpoint:
            return None
        return self.flushed_upto

    def write(self, flushed_upto: int, checkpoint: bytes) -> None:
        """Set the mark; durable with the next `sync`. An older mark is safe, a younger never is.

        Errors   DiskFull, AllocationFailed, before the first mark only
        """
        if not self._is_allocated:
            self._disk.allocate(self._descriptor, 0, 2 * SLOT_SIZE, self._path)
            self._is_allocated = True
        self._sequence += 1
        content = MARK.struct.pack(self._sequence, flushed_upto, checkpoint, 0)[:_CRC_POSITION]
        content += zlib.crc32(content).to_bytes(4)
        slot = self._sequence % 2
        self._disk.write_at(self._descriptor, slot * SLOT_SIZE, content)
        self.flushed_upto = flushed_upto
        self.checkpoint = checkpoint

    def sync(self) -> None:
        """Make the mark durable; blocks."""
        self._disk.sync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            self._disk.close(self._descriptor)
            self._descriptor = -1
