"""Prefault: a fast log finds its next pages in memory; a slow one takes no memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.log.commit_log import CommitLog
from pocketmq.model.step import Next, Now
from pocketmq.store.marks import Marks
from pocketmq.store.write.prefault import HURRY_MS, Prefault
from tests.kit.store_language import until
from tests.sim.quick_disk import QuickDisk

KIB = 1024
SIZE = 256 * KIB
AHEAD = 64 * KIB


class Growing:
    """A log of two files, and what brings its pages."""

    def __init__(self, directory: Path) -> None:
        own = directory / "pocketmq"
        own.mkdir(parents=True)
        self.disk = QuickDisk()
        self.log = CommitLog(self.disk, directory / "commitlog", SIZE)
        for base in (0, SIZE):
            self.log.offer_spare(self.log.make_spare(own, base))
            self.log.place(SIZE - 8)
            self.log.write(base, bytes(SIZE - 8))
        self.marks = Marks(0, 0, 0, is_sync=False)
        self.ahead = Prefault(self.log, self.marks, AHEAD)
        self.ms = 0
        self.disk.calls.clear()

    def grow_to(self, end: int, *, after_ms: int) -> Next:
        """Appends up to an end, which takes so long; returns what a step then asks for."""
        self.ms += after_ms
        self.marks.append(end, self.ms)
        return self.ahead.step(Now(self.ms, self.ms))

    async def brought(self) -> None:
        """Waits until the thread is done."""
        await self.ahead.close()

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """(position in its file, bytes) of what was brought."""
        return self.disk.ranges("bring")


@pytest.fixture
async def growing(tmp_path: Path) -> AsyncIterator[Growing]:
    made = Growing(tmp_path)
    yield made
    await made.ahead.close()
    made.log.close()


async def test_a_log_that_grows_slowly_takes_no_memory(growing: Growing) -> None:
    for number in range(1, 6):
        asked = growing.grow_to(number * AHEAD // 2, after_ms=HURRY_MS)
        assert asked == Next(mark=growing.marks.appended, value=(number + 1) * AHEAD // 2)
    await growing.brought()
    assert growing.ranges == []


async def test_one_that_grows_fast_finds_the_next_pages(growing: Growing) -> None:
    growing.grow_to(AHEAD // 2, after_ms=HURRY_MS)
    asked = growing.grow_to(AHEAD, after_ms=HURRY_MS - 1)
    assert asked.mark is growing.marks.appended
    await until(lambda: growing.ahead.step(Now(growing.ms, growing.ms)).value == 3 * AHEAD // 2)
    assert growing.ranges == [(AHEAD, AHEAD)]
    growing.grow_to(3 * AHEAD // 2, after_ms=1)
    await growing.brought()
    assert growing.ranges == [(AHEAD, AHEAD), (2 * AHEAD, AHEAD // 2)]
    assert growing.ahead.upto == 3 * AHEAD // 2 + AHEAD


async def test_while_pages_are_brought_nothing_else_is_begun(growing: Growing) -> None:
    growing.grow_to(AHEAD // 2, after_ms=HURRY_MS)
    growing.grow_to(AHEAD, after_ms=1)
    asked = growing.grow_to(2 * AHEAD, after_ms=1)
    assert asked.mark is not growing.marks.appended
    await growing.brought()
    assert len(growing.ranges) == 1


async def test_a_file_ends_and_the_next_one_goes_on(growing: Growing) -> None:
    growing.grow_to(SIZE - AHEAD, after_ms=HURRY_MS)
    growing.grow_to(SIZE - AHEAD // 2, after_ms=1)
    await until(lambda: growing.ahead.step(Now(growing.ms, growing.ms)).value == SIZE)
    growing.grow_to(SIZE + AHEAD, after_ms=1)
    await growing.brought()
    assert growing.ranges == [(SIZE - AHEAD // 2, AHEAD // 2), (AHEAD, AHEAD)]


async def test_what_was_brought_is_unchanged_and_not_held(growing: Growing) -> None:
    growing.grow_to(AHEAD // 2, after_ms=HURRY_MS)
    growing.grow_to(AHEAD, after_ms=1)
    await growing.brought()
    (file,) = growing.log.files_between(AHEAD, AHEAD + 1)
    assert not file.is_held
    assert not any(file.read(AHEAD, AHEAD))


async def test_a_file_that_is_gone_is_no_error(growing: Growing) -> None:
    growing.grow_to(AHEAD // 2, after_ms=HURRY_MS)
    (file,) = growing.log.files_between(0, 1)
    growing.grow_to(AHEAD, after_ms=1)
    file.remove()
    await growing.brought()
    assert not file.is_open
