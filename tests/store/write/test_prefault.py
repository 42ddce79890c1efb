"""Prefault: a fast log finds its next pages in memory; a slow one takes no memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.log.commit_log import CommitLog
from pocketmq.model.step import Next, Now
from pocketmq.store.marks import Marks
from pocketmq.store.write.prefault import BUSY_RATIO, CHEAP_US, HURRY_MS, SKIPPED_COUNT, Prefault
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
        self.cost_us, self.busy_ratio = 3.0, 1.0
        """Processor time of each KiB that is brought; its duration is a multiple of that."""
        self._looks = 0
        self.ahead = Prefault(self.log, self.marks, AHEAD, self.times)
        self.ms = 0
        self.disk.calls.clear()

    def times(self) -> tuple[float, float]:
        """Returns in turn zeros, and the times of what was brought in between."""
        self._looks += 1
        seconds = self.ranges[-1][1] / KIB * self.cost_us / 1e6 if self._looks % 2 == 0 else 0.0
        return seconds * self.busy_ratio, seconds

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


@pytest.mark.parametrize(
    ("cost_us", "busy_ratio", "populated", "is_left_out"),
    [
        (CHEAP_US / 2, 1, 0, True),
        (2 * CHEAP_US, BUSY_RATIO, 0, True),
        (2 * CHEAP_US, 2, 0, False),
        (CHEAP_US / 2, 1, SIZE, False),
    ],
    ids=["fast memory", "busy processors", "neither", "small writes"],
)
async def test_most_prefaults_that_do_not_pay_are_left_out(
    growing: Growing, cost_us: float, busy_ratio: float, populated: int, is_left_out: bool
) -> None:
    growing.cost_us, growing.busy_ratio = cost_us, busy_ratio
    for file in growing.log.files.files:
        file.populated = populated
    step = AHEAD // 2 // SKIPPED_COUNT
    growing.ahead = Prefault(growing.log, growing.marks, 2 * step, growing.times)
    growing.grow_to(step, after_ms=HURRY_MS)
    for number in range(2, SKIPPED_COUNT + 4):
        growing.grow_to(number * step, after_ms=1)
        await until(lambda: growing.ahead.step(Now(growing.ms, growing.ms)).value > 1)
    assert len(growing.ranges) == (2 if is_left_out else SKIPPED_COUNT + 2)
