"""Buffers that stand in for files: lent one by one, locked where the system allows it."""

import mmap

import pytest

from broker.files.transient_pool import TransientPool
from tests.fakes.quick_disk import QuickDisk


class StingyDisk(QuickDisk):
    """A system that locks one buffer and no more."""

    locked = 0

    def lock(self, memory: mmap.mmap) -> bool:
        StingyDisk.locked += 1
        return StingyDisk.locked == 1


def test_each_buffer_is_lent_once_until_it_is_back() -> None:
    pool = TransientPool(QuickDisk(), size_bytes=4096, count=2)
    first, second = pool.borrow(), pool.borrow()
    assert (len(first), len(second), pool.free_count) == (4096, 4096, 0)
    first[:4] = b"mine"
    assert bytes(second[:4]) == bytes(4)
    pool.give_back(first)
    pool.give_back(second)
    assert pool.free_count == 2
    pool.close()


def test_what_the_system_does_not_lock_is_told() -> None:
    pool = TransientPool(StingyDisk(), size_bytes=4096, count=2)
    assert not pool.is_locked
    pool.close()


def test_a_pool_with_a_buffer_out_does_not_close() -> None:
    pool = TransientPool(QuickDisk(), size_bytes=4096, count=1)
    buffer = pool.borrow()
    with pytest.raises(AssertionError):
        pool.close()
    pool.give_back(buffer)
    pool.close()
