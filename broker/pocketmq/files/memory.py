"""Memory: advice on the pages of maps, and buffers of locked memory.

Buffers replace the file being written to:
    borrow ──► file.stage(buffer): writes go there ──commit──► the file ──► give_back

A buffer is as long as a file; a writer then never waits for the page cache, and the file gets its
bytes in larger pieces. Bytes that were not committed are lost with the process.
Source: TransientStorePool.
"""

import contextlib
import ctypes
import mmap
import os
from typing import Final

MADV_POPULATE_WRITE: Final = 23
"""Linux 5.14; elsewhere pages are faulted in one by one."""
PIECE_BYTES: Final = 64 * 1024
PIECES_MAX: Final = 1_024
"""Buffers that one call may fill."""


class PageMemory:
    """Pages of maps and buffers; a test can replace it (`Disk.memory`)."""

    __slots__ = ("_can_populate",)

    def __init__(self) -> None:
        self._can_populate = True

    def make_buffer(self, size_bytes: int) -> mmap.mmap:
        """Returns memory that belongs to no file."""
        return mmap.mmap(-1, size_bytes)

    def lock(self, memory: mmap.mmap) -> bool:
        """Keeps all pages in memory; False where the system does not allow it.

        Blocks   until all pages are there, without holding the interpreter
        """
        return call_on_memory("mlock", memory)

    def unlock(self, memory: mmap.mmap) -> None:
        """Unlocks the pages so that the system may evict them; blocks briefly."""
        call_on_memory("munlock", memory)

    def touch(self, memory: mmap.mmap) -> None:
        """Fault in all pages of a map for writing; blocks without holding the interpreter."""
        call_on_memory("madvise", memory, MADV_POPULATE_WRITE)

    def populate(self, memory: mmap.mmap, position: int, size_bytes: int) -> None:
        """Fault in pages that are about to be written, in one call instead of one fault each."""
        assert position % mmap.PAGESIZE == 0
        if not self._can_populate:
            return
        try:
            memory.madvise(MADV_POPULATE_WRITE, position, size_bytes)
        except OSError:
            self._can_populate = False

    def bring(self, descriptor: int, position: int, size_bytes: int) -> None:
        """Loads pages of a file into the page cache by reading them into one small buffer.

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
    """Calls a function of the C library with address and length of some memory; whether it could.

    Blocks   without holding the interpreter
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
    """A fixed number of buffers."""

    __slots__ = ("_buffers", "_free", "count", "is_locked")

    def __init__(self, memory: PageMemory, *, size_bytes: int, count: int) -> None:
        self.count = count
        self._buffers = [memory.make_buffer(size_bytes) for _ in range(count)]
        locked = [memory.lock(buffer) for buffer in self._buffers]
        self.is_locked = all(locked)
        """Whether the system keeps all of it in memory; it may allow that for too little."""
        self._free = [memoryview(buffer) for buffer in self._buffers]

    @property
    def free_count(self) -> int:
        """Buffers that are not borrowed."""
        return len(self._free)

    def borrow(self) -> memoryview:
        """Returns a buffer; there must be a free one. Its content is whatever it held last."""
        assert self._free
        return self._free.pop()

    def give_back(self, buffer: memoryview) -> None:
        """Takes a buffer that is written to and read from no more."""
        assert len(self._free) < self.count
        self._free.append(buffer)

    def close(self) -> None:
        """Gives the memory back to the system; every buffer was given back before.

        Effects  a buffer that a failed write still points to goes with the process
        """
        assert len(self._free) == self.count
        for view in self._free:
            view.release()
        for buffer in self._buffers:
            with contextlib.suppress(BufferError):
                buffer.close()
        self._free, self._buffers = [], list[mmap.mmap]()
