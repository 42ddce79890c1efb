"""Memory: advice on mapped pages, and the transient pool of locked buffers.

With the pool, the log writes records to a buffer of a file's length, so that it never waits for the
page cache. A commit copies them to the file in larger pieces. Records that were not committed are
lost with the process.
Source: TransientStorePool.
"""

import contextlib
import ctypes
import mmap
import os
from typing import Final

MADV_POPULATE_WRITE: Final = 23
"""Advice that exists since Linux 5.14; on older systems pages are faulted in one by one."""
PIECE_BYTES: Final = 64 * 1024
PIECES_MAX: Final = 1_024
"""Number of times that one call of `preadv` may fill a buffer of PIECE_BYTES."""


class PageMemory:
    """Pages of maps and buffers; tests can replace it (`Disk.memory`)."""

    __slots__ = ("_can_populate",)

    def __init__(self) -> None:
        self._can_populate = True

    def make_buffer(self, size_bytes: int) -> mmap.mmap:
        """Returns memory that belongs to no file."""
        return mmap.mmap(-1, size_bytes)

    def lock(self, memory: mmap.mmap) -> bool:
        """Locks all pages in memory; returns False if the system does not allow it.

        Blocks   until all pages are loaded, without holding the GIL
        """
        return call_on_memory("mlock", memory)

    def unlock(self, memory: mmap.mmap) -> None:
        """Unlocks the pages so that the system may evict them; blocks briefly."""
        call_on_memory("munlock", memory)

    def touch(self, memory: mmap.mmap) -> None:
        """Faults in all pages of a map for writing; blocks without holding the GIL."""
        call_on_memory("madvise", memory, MADV_POPULATE_WRITE)

    def populate(self, memory: mmap.mmap, position: int, size_bytes: int) -> None:
        """Prefaults pages that will be written soon: one call instead of a fault for each page."""
        assert position % mmap.PAGESIZE == 0
        if not self._can_populate:
            return
        try:
            memory.madvise(MADV_POPULATE_WRITE, position, size_bytes)
        except OSError:
            self._can_populate = False

    def bring(self, descriptor: int, position: int, size_bytes: int) -> None:
        """Loads pages of a file into the page cache by reading them into a small buffer.

        Blocks   without holding the GIL
        Errors   OSError
        """
        piece = bytearray(PIECE_BYTES)
        end = position + size_bytes
        while position < end:
            count = min(-(-(end - position) // PIECE_BYTES), PIECES_MAX)
            read = os.preadv(descriptor, [piece] * count, position)
            if not read:
                return
            position += read


def call_on_memory(name: str, memory: mmap.mmap, *more: int) -> bool:
    """Calls a C function with address and length of memory; returns whether it exists and succeeds.

    Blocks   without holding the GIL
    """
    call = getattr(ctypes.CDLL(None), name, None)
    if call is None:
        return False
    first = ctypes.c_char.from_buffer(memory)
    try:
        address = ctypes.c_void_p(ctypes.addressof(first))
        return bool(call(address, ctypes.c_size_t(len(memory)), *more) == 0)
    finally:
        del first  # The map can be closed again.


class TransientPool:
    """A pool with a fixed number of buffers."""

    __slots__ = ("_buffers", "_free", "count", "is_locked")

    def __init__(self, memory: PageMemory, *, size_bytes: int, count: int) -> None:
        self.count = count
        self._buffers = [memory.make_buffer(size_bytes) for _ in range(count)]
        locked = [memory.lock(buffer) for buffer in self._buffers]
        self.is_locked = all(locked)
        """Whether all buffers are locked in memory; the system may limit locked memory."""
        self._free = [memoryview(buffer) for buffer in self._buffers]

    @property
    def free_count(self) -> int:
        """Number of buffers that are not borrowed."""
        return len(self._free)

    def borrow(self) -> memoryview:
        """Returns a buffer with old content; one must be free."""
        assert self._free
        return self._free.pop()

    def give_back(self, buffer: memoryview) -> None:
        """Returns a buffer to the pool; it must not be used after that."""
        assert len(self._free) < self.count
        self._free.append(buffer)

    def close(self) -> None:
        """Returns the memory to the system; every buffer must have been given back.

        Effects  a buffer to which a failed write still refers is freed when the process ends
        """
        assert len(self._free) == self.count
        for view in self._free:
            view.release()
        for buffer in self._buffers:
            with contextlib.suppress(BufferError):
                buffer.close()
        self._free, self._buffers = [], list[mmap.mmap]()
