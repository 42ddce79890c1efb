"""`pocketmq/watermark`: up to where the log was durable for certain.

Two slots of 4096 bytes:
   0   8  sequence        rises with every write; the valid slot with the higher one counts
   8   8  flushed_upto    physical offset below which every byte was synced
  16  48  checkpoint      the checkpoint's bytes at that time
  64   4  crc             CRC-32 of the 64 bytes before

If the checkpoint differs from both copies, another broker wrote here since: the mark is void.
Recovery needs it to tell a torn tail (above) from damage (below).

A slot that was synced stays as it is until the other one has been synced, so that a power cut
always leaves a mark. A new checkpoint is announced before it is saved: one slot then has the copy
of the old checkpoint, the other that of the new one, until `settle`.
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
        "_descriptor", "_disk", "_found", "_is_allocated", "_is_announced", "_kept", "_path",
        "_sequence", "_written", "checkpoint", "flushed_upto",
    )  # fmt: skip

    def __init__(self, disk: Disk, own_directory: Path) -> None:
        self._disk = disk
        self._path = own_directory / MARK_FILE
        self._descriptor = -1
        self._is_allocated = False
        self._is_announced = False
        self._sequence = 0
        self._kept = 0
        """The slot that is not to be written to: it is durable."""
        self._written: int | None = None
        """The slot that the next sync makes durable."""
        self._found: list[tuple[int, int, int, bytes]] = []
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
            self._consider(slot, self._disk.read_at(self._descriptor, slot * SLOT_SIZE, MARK.size))
        self._found.sort(reverse=True)
        if self._found:
            self._adopt(*self._found[0])

    def _consider(self, slot: int, content: bytes) -> None:
        if len(content) < MARK.size:
            return
        sequence, flushed_upto, checkpoint, crc = MARK.struct.unpack(content)
        if crc == zlib.crc32(content[:_CRC_POSITION]) and sequence > 0:
            self._found.append((sequence, slot, flushed_upto, checkpoint))

    def _adopt(self, sequence: int, slot: int, flushed_upto: int, checkpoint: bytes) -> None:
        self._sequence = max(self._sequence, sequence)
        self._kept = slot
        self.flushed_upto = flushed_upto
        self.checkpoint = checkpoint

    def valid_upto(self, checkpoint: bytes) -> int | None:
        """Return the mark, None when there is none or another broker wrote since.

        Effects  the newest found slot with this checkpoint is the one that counts from here on
        """
        if self._sequence and self.checkpoint == checkpoint:
            return self.flushed_upto
        for found in self._found:
            if found[3] == checkpoint:
                self._adopt(*found)
                return self.flushed_upto
        return None

    def write(self, flushed_upto: int, checkpoint: bytes | None = None) -> None:
        """Set the mark; durable with the next `sync`. An older mark is safe, a younger never is.

        checkpoint   the bytes beside it; None: those it has
        Effects  none on disk while a checkpoint is announced
        Errors   DiskFull, AllocationFailed, before the first mark only
        """
        self.flushed_upto = flushed_upto
        if self._is_announced:
            return
        if not self._is_allocated:
            self._disk.allocate(self._descriptor, 0, 2 * SLOT_SIZE, self._path)
            self._is_allocated = True
        self._sequence += 1
        checkpoint = self.checkpoint if checkpoint is None else checkpoint
        content = MARK.struct.pack(self._sequence, flushed_upto, checkpoint, 0)[:_CRC_POSITION]
        content += zlib.crc32(content).to_bytes(4)
        self._written = slot = 1 - self._kept
        self._disk.write_at(self._descriptor, slot * SLOT_SIZE, content)
        self._found = []
        self.checkpoint = checkpoint

    def announce(self, checkpoint: bytes) -> None:
        """Set the mark beside a checkpoint that is about to be saved, after the next `sync`.

        Effects  `write` remembers until `settle`: the mark beside the old checkpoint has to stay
        Errors   those of `write`
        """
        self.write(self.flushed_upto, checkpoint)
        self._is_announced = True

    def settle(self) -> None:
        """Know that the announced checkpoint was saved.

        Errors   those of `write`
        """
        self._is_announced = False
        self.write(self.flushed_upto)

    def sync(self) -> None:
        """Make the mark durable; blocks. Another thread may `write` meanwhile."""
        slot, self._written = self._written, None
        self._disk.sync(self._descriptor)
        if slot is not None:
            self._kept = slot

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._disk.close(descriptor)
