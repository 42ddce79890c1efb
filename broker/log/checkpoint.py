"""The checkpoint file: how far log, queues and index were durable when it was written.

Source: StoreCheckpoint.
"""

from pathlib import Path

from broker.files.disk import Disk
from broker.format.checkpoint_layout import (
    CHECKPOINT_FILE_SIZE,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
)


class Checkpoint:
    """The file and the values it holds."""

    __slots__ = ("_descriptor", "_disk", "path", "values")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._descriptor = -1
        self.path = path
        self.values = CheckpointValues()

    def load(self) -> None:
        """Read the values; all are 0 when there is no file."""
        if self._disk.exists(self.path):
            self.values = decode_checkpoint(self._disk.read_file(self.path))

    def save(self, values: CheckpointValues) -> None:
        """Write the values durably; blocks.

        They must describe what is durable already, never what is about to be.
        Errors   DiskFull, AllocationFailed, FsyncFailed
        """
        if self._descriptor < 0:
            self._open()
        self._disk.write_at(self._descriptor, 0, encode_checkpoint(values))
        self._disk.sync(self._descriptor)
        self.values = values

    def _open(self) -> None:
        if self._disk.exists(self.path):
            self._descriptor = self._disk.open(self.path)
        else:
            self._descriptor = self._disk.make_sparse_file(self.path, CHECKPOINT_FILE_SIZE)
        try:
            self._disk.allocate(self._descriptor, 0, CHECKPOINT_FILE_SIZE, self.path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._disk.close(descriptor)
