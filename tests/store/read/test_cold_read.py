"""Reads that wait for the disk: begun when awaited, made again until they have what they lack."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pocketmq.files.mapped_file import ColdRead
from pocketmq.model.errors import DiskSlow
from pocketmq.store.read.cold_read import TRIES_MAX, ColdReads, Later, value_of


class Shelf:
    """A value that lies on disk in some pieces."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces
        self.fetched = 0
        self.read_count = 0

    def fetch(self) -> None:
        self.fetched += 1

    def read(self) -> str:
        self.read_count += 1
        if self.fetched < self.pieces:
            raise ColdRead(self.fetch)
        return "found"


@pytest.fixture
def patience() -> Iterator[ColdReads]:
    with ThreadPoolExecutor(1) as pool:
        yield ColdReads(pool)


async def test_what_is_in_memory_is_there_at_once(patience: ColdReads) -> None:
    assert patience.now_or_later(Shelf(0).read) == "found"
    assert await value_of(patience.now_or_later(Shelf(0).read)) == "found"


async def test_old_bytes_are_fetched_piece_by_piece(patience: ColdReads) -> None:
    shelf = Shelf(3)
    later = patience.now_or_later(shelf.read)
    assert isinstance(later, Later)
    assert shelf.fetched == 0, "what is not awaited asks the disk for nothing"
    assert await value_of(later) == "found"
    assert (shelf.fetched, shelf.read_count) == (3, 4)


async def test_memory_that_never_keeps_them_ends_the_read(patience: ColdReads) -> None:
    with pytest.raises(DiskSlow, match="1000 reads from disk"):
        await value_of(patience.now_or_later(Shelf(TRIES_MAX + 1).read))
    tries = iter(range(TRIES_MAX))
    with pytest.raises(DiskSlow, match="1000 reads from disk"):
        await patience.in_turn(Shelf(TRIES_MAX + 1).read, bool, tries)


async def test_other_errors_are_the_callers(patience: ColdReads) -> None:
    def fail() -> int:
        raise KeyError("lost")

    with pytest.raises(KeyError):
        patience.now_or_later(fail)


async def test_reads_that_have_more_take_turns(patience: ColdReads) -> None:
    order: list[str] = []

    async def search(name: str, pages: int) -> None:
        for _ in range(pages):
            await patience.in_turn(lambda: order.append(name), lambda _: True, iter(()))

    await asyncio.gather(search("a", 3), search("b", 3))
    assert order == ["a", "b"] * 3


async def test_a_page_that_waits_for_the_disk_keeps_nobody_else_out(patience: ColdReads) -> None:
    shelf = Shelf(1)
    waiting = asyncio.ensure_future(patience.in_turn(shelf.read, bool, iter(range(9))))
    await asyncio.sleep(0)
    assert await patience.in_turn(Shelf(0).read, lambda _: False, iter(())) == "found"
    assert await waiting == "found"
