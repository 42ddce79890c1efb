"""Open files and buffers: their number is bounded, buffers are lent singly, all are closed."""

import mmap
from functools import partial
from pathlib import Path

import pytest

from pocketmq.files.disk_errors import close_all
from pocketmq.files.mapped_file import MappedFile
from pocketmq.files.memory import PageMemory, TransientPool
from pocketmq.files.open_files import OpenFiles
from tests.sim.quick_disk import QuickDisk

SHELF_SIZE = 4096


class Shelf:
    """Files a, b, c … of which three may be open.

    shelf.use("a", "b"); assert shelf.open == "ab"
    """

    def __init__(self, directory: Path) -> None:
        self.keeper = OpenFiles(3)
        self.files: dict[str, MappedFile] = {}
        for name in "abcde":
            (directory / name).write_bytes(bytes(SHELF_SIZE))
            self.files[name] = MappedFile(QuickDisk(), directory / name, 0, SHELF_SIZE, self.keeper)

    def use(self, *names: str) -> None:
        for name in names:
            file = self.files[name].open()
            file.was_used = True

    @property
    def open(self) -> str:
        return "".join(name for name, file in self.files.items() if file.is_open)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_up_to_the_bound_everything_stays_open(shelf: Shelf) -> None:
    shelf.use("a", "b", "c")
    assert shelf.open == "abc"
    assert (shelf.keeper.count, shelf.keeper.size_bytes) == (3, 3 * SHELF_SIZE)


def test_the_one_opened_first_makes_room(shelf: Shelf) -> None:
    shelf.use("a", "b", "c", "d")
    assert shelf.open == "bcd"


def test_one_used_since_it_was_looked_at_outlives_others(shelf: Shelf) -> None:
    shelf.use("a", "b", "c", "d")
    shelf.use("b")
    shelf.use("e")
    assert shelf.open == "bde"


def test_a_held_file_stays_whoever_comes(shelf: Shelf) -> None:
    shelf.files["a"].hold()
    shelf.use("b", "c", "d", "e")
    assert "a" in shelf.open
    assert shelf.keeper.count == 3
    shelf.files["a"].let_go()


def test_when_all_others_are_held_the_bound_gives_way(shelf: Shelf) -> None:
    for name in "abc":
        shelf.files[name].hold()
    shelf.use("d")
    assert shelf.open == "abcd"


def test_a_file_closed_by_others_is_forgotten(shelf: Shelf) -> None:
    shelf.use("a", "b", "c")
    shelf.files["b"].close()
    shelf.use("d")
    assert shelf.open == "acd"


def failing() -> None:
    raise ValueError("stuck")


def test_all_are_closed_in_their_order() -> None:
    closed: list[str] = []
    close_all(partial(closed.append, name) for name in "abc")
    assert closed == ["a", "b", "c"]


def test_an_error_keeps_no_other_from_being_closed() -> None:
    closed: list[str] = []
    with pytest.raises(ValueError, match="stuck"):
        close_all([failing, lambda: closed.append("b"), failing, lambda: closed.append("d")])
    assert closed == ["b", "d"]


class StingyMemory(PageMemory):
    """A system that locks one buffer and no more."""

    locked = 0

    def lock(self, memory: mmap.mmap) -> bool:
        StingyMemory.locked += 1
        return StingyMemory.locked == 1


def test_each_buffer_is_lent_once_until_it_is_back() -> None:
    pool = TransientPool(QuickDisk().memory, size_bytes=4096, count=2)
    first, second = pool.borrow(), pool.borrow()
    assert (len(first), len(second), pool.free_count) == (4096, 4096, 0)
    first[:4] = b"mine"
    assert bytes(second[:4]) == bytes(4)
    pool.give_back(first)
    pool.give_back(second)
    assert pool.free_count == 2
    pool.close()


def test_what_the_system_does_not_lock_is_told() -> None:
    pool = TransientPool(StingyMemory(), size_bytes=4096, count=2)
    assert not pool.is_locked
    pool.close()


def test_a_pool_with_a_buffer_out_does_not_close() -> None:
    pool = TransientPool(QuickDisk().memory, size_bytes=4096, count=1)
    buffer = pool.borrow()
    with pytest.raises(AssertionError):
        pool.close()
    pool.give_back(buffer)
    pool.close()
