"""Buffers of locked memory that stand in for the file being written to.

    borrow ──► file.stage(buffer): writes go there ──commit──► the file ──► give_back

A buffer is as long as a file; a writer then never waits for the page cache, and the file gets its
bytes in larger pieces. What was not committed is lost with the process.
Source: TransientStorePool.
"""

import contextlib
import mmap

from broker.files.disk import Disk


class TransientPool:
    """A fixed number of buffers."""

    __slots__ = ("_buffers", "_free", "count", "is_locked")

    def __init__(self, disk: Disk, *, size_bytes: int, count: int) -> None:
        self.count = count
        self._buffers = [disk.make_buffer(size_bytes) for _ in range(count)]
        locked = [disk.lock(buffer) for buffer in self._buffers]
        self.is_locked = all(locked)
        """Whether the system keeps all of it in memory; it may allow that for too little."""
        self._free = [memoryview(buffer) for buffer in self._buffers]

    @property
    def free_count(self) -> int:
        """Buffers that are not borrowed."""
        return len(self._free)

    def borrow(self) -> memoryview:
        """Return a buffer; there must be a free one. Its content is whatever it held last."""
        assert self._free
        return self._free.pop()

    def give_back(self, buffer: memoryview) -> None:
        """Take a buffer that is written to and read from no more."""
        assert len(self._free) < self.count
        self._free.append(buffer)

    def close(self) -> None:
        """Give the memory back to the system; every buffer was given back before.

        Effects  a buffer that a failed write still points to goes with the process
        """
        assert len(self._free) == self.count
        for view in self._free:
            view.release()
        for buffer in self._buffers:
            with contextlib.suppress(BufferError):
                buffer.close()
        self._free, self._buffers = [], list[mmap.mmap]()
