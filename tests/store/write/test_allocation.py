"""Allocation: the next file is there in time, and a full disk is tried again by itself."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.format.names import RESERVE_FILE
from pocketmq.log.commit_log import DRAFT_NAME, CommitLog
from pocketmq.model.errors import AllocationFailed, DiskFull, StoreFailed
from pocketmq.store.write.allocation import RETRY_INTERVAL_MS, Allocation, Reserve
from tests.kit.records import record
from tests.kit.store_language import until
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk, full_disk

SIZE = 8192


class Stock:
    """A log and the one who keeps its next file in stock."""

    def __init__(self, directory: Path) -> None:
        self.own = directory / "pocketmq"
        self.own.mkdir(parents=True)
        self.disk, self.clock = QuickDisk(), FakeClock()
        self.log = CommitLog(self.disk, directory / "commitlog", SIZE)
        self.failures: list[BaseException] = []
        self.allocation = Allocation(self.log, self.own, self.clock, self.failures.append)

    def fill(self) -> None:
        """Puts one record that leaves no room for another."""
        place = self.log.place(SIZE - 8)
        self.log.write(place, record(place, size=SIZE - 8))

    @property
    def names(self) -> list[str]:
        return self.disk.names(self.log.files.directory)


@pytest.fixture
async def stock(tmp_path: Path) -> AsyncIterator[Stock]:
    made = Stock(tmp_path)
    yield made
    await made.allocation.close()
    made.log.close()


async def test_the_next_file_is_made_before_it_is_needed(stock: Stock) -> None:
    stock.allocation.request()
    await until(lambda: stock.log.has_room(1))
    assert stock.names == [f"{0:020d}"]
    stock.fill()
    stock.allocation.request()
    await until(lambda: stock.log.has_room(1))
    assert stock.names == [f"{0:020d}", f"{SIZE:020d}"]


async def test_a_file_has_all_its_blocks_before_it_has_its_name(stock: Stock) -> None:
    await stock.allocation.room()
    ((_, begin, size, path),) = stock.disk.calls["allocate"]
    assert (begin, size, path) == (0, SIZE, stock.own / DRAFT_NAME)
    assert stock.disk.synced == [path]
    assert stock.disk.names(stock.own) == []
    assert stock.names == [f"{0:020d}"]


async def test_one_file_is_in_stock_whoever_asks_how_often(stock: Stock) -> None:
    stock.allocation.request()
    stock.allocation.request()
    await asyncio.gather(stock.allocation.room(), stock.allocation.room())
    stock.allocation.request()
    await stock.allocation.room()
    assert len(stock.disk.calls["make_sparse_file"]) == 1


async def test_a_full_disk_is_told_at_once_and_tried_again_every_second(stock: Stock) -> None:
    stock.disk.full_below = stock.log.files.directory
    with pytest.raises(DiskFull) as caught:
        await stock.allocation.room()
    assert caught.value.path == str(stock.log.files.directory / f"{0:020d}")
    stock.disk.full_below = None
    stock.clock.advance(RETRY_INTERVAL_MS - 1)
    with pytest.raises(DiskFull):
        await stock.allocation.room()
    assert not stock.log.has_room(1)
    stock.clock.advance(1)
    await stock.allocation.room()
    assert stock.log.has_room(1)
    assert stock.allocation.full is None
    assert not stock.failures


async def test_a_disk_that_stays_full_is_logged_once(
    stock: Stock, caplog: pytest.LogCaptureFixture
) -> None:
    stock.disk.full_below = stock.log.files.directory
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            with pytest.raises(DiskFull):
                await stock.allocation.room()
            stock.clock.advance(RETRY_INTERVAL_MS)
    assert [entry.message for entry in caplog.records] == ["disk.full"]


async def test_a_half_made_file_leaves_nothing(stock: Stock) -> None:
    stock.disk.fail("allocate", full_disk())
    with pytest.raises(DiskFull):
        await stock.allocation.room()
    assert stock.names == []
    assert stock.disk.names(stock.own) == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AllocationFailed(why="it is gone"), AllocationFailed),
        (PermissionError("not yours"), StoreFailed),
    ],
)
async def test_any_other_failure_ends_the_store(
    stock: Stock, error: Exception, expected: type[StoreFailed]
) -> None:
    stock.disk.fail("make_sparse_file", error)
    await stock.allocation.room()
    assert [type(StoreFailed.by(failure)) for failure in stock.failures] == [expected]
    assert str(error) in str(stock.failures[0])


async def test_closing_waits_for_the_file_in_the_making(stock: Stock) -> None:
    with stock.disk.held():
        stock.allocation.request()
        await until(lambda: bool(stock.disk.synced))
        closing = asyncio.create_task(stock.allocation.close())
        await asyncio.sleep(0)
        assert not closing.done()
    await closing
    assert stock.names == [f"{0:020d}"]
    stock.log.close()
    assert stock.names == []


async def test_a_caller_may_give_up_waiting_for_room(stock: Stock) -> None:
    with stock.disk.held():
        waiting = asyncio.create_task(stock.allocation.room())
        await until(lambda: bool(stock.disk.synced))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await stock.allocation.room()
    assert stock.log.has_room(1)


# -- the reserve -----------------------------------------------------------------------------------
FULL = DiskFull(path="/s/table")


class Aside:
    """A reserve on a disk of its own."""

    def __init__(self, directory: Path, size: int = SIZE) -> None:
        self.directory = directory
        self.disk = QuickDisk()
        self.reserve = Reserve(self.disk, directory, size)

    def release(self, cause: DiskFull) -> bool:
        """Gives it away; returns whether a second try is due."""
        with self.reserve.release(cause) as is_due:
            return is_due

    def cause(self) -> DiskFull | None:
        """Why it does not stand."""
        return self.reserve.released

    @property
    def names(self) -> list[str]:
        return self.disk.names(self.directory)


@pytest.fixture
def aside(tmp_path: Path) -> Aside:
    return Aside(tmp_path)


def test_it_has_blocks_behind_every_byte(aside: Aside) -> None:
    aside.reserve.make()
    aside.reserve.make()
    found = (aside.directory / RESERVE_FILE).stat()
    assert (found.st_size, found.st_blocks * 512) == (SIZE, SIZE)
    assert aside.reserve.released is None


def test_it_is_given_away_once_and_tells_why_until_it_stands_again(aside: Aside) -> None:
    aside.reserve.make()
    assert aside.release(FULL)
    aside.release(DiskFull(path="/s/other"))
    assert aside.cause() is FULL
    assert aside.names == []
    aside.reserve.make()
    assert aside.cause() is None
    assert aside.names == [RESERVE_FILE]


def test_work_that_failed_before_another_thread_gave_it_away_has_a_second_try(aside: Aside) -> None:
    aside.reserve.make()
    tries: list[bool] = []

    def work() -> str:
        tries.append(RESERVE_FILE in aside.names)
        if len(tries) == 1:
            assert aside.release(FULL)  # As another thread does, before this one asks for room.
            raise DiskFull(path="/s/other")
        return "done"

    with aside.disk.trouble.reporting(full=aside.reserve.release):
        assert aside.disk.trouble.with_room(work) == "done"
    assert tries == [True, False]


def test_nothing_is_set_aside_until_a_second_try_is_over(aside: Aside) -> None:
    aside.reserve.make()
    made: list[bool] = []
    maker = threading.Thread(target=aside.reserve.make)
    with aside.reserve.release(FULL) as is_due:
        assert is_due
        maker.start()
        maker.join(0.02)
        made.append(RESERVE_FILE in aside.names)
    maker.join()
    assert [*made, RESERVE_FILE in aside.names] == [False, True]


def test_who_needs_room_waits_for_a_file_in_the_making(aside: Aside) -> None:
    aside.reserve.make()
    order: list[str] = []

    def ask() -> None:
        order.append("asks")
        aside.release(FULL)
        order.append("has")

    asking = threading.Thread(target=ask)
    with aside.reserve.kept():
        asking.start()
        asking.join(0.02)
        order.append("made")
    asking.join()
    assert order == ["asks", "made", "has"]


def test_a_disk_without_room_for_it_counts_as_full(aside: Aside) -> None:
    aside.disk.full_below = aside.directory
    with pytest.raises(DiskFull):
        aside.reserve.make()
    assert aside.reserve.released is not None
    assert aside.names == []


def test_it_is_kept_from_who_must_not_have_it(aside: Aside) -> None:
    aside.reserve.make()
    with aside.reserve.kept():
        with aside.reserve.kept():
            assert not aside.release(FULL)
        assert not aside.release(FULL)
    assert aside.reserve.released is None
    assert aside.release(FULL)


def test_nothing_is_set_aside_when_told_so(tmp_path: Path) -> None:
    aside = Aside(tmp_path, 0)
    aside.reserve.make()
    assert not aside.release(FULL)
    assert aside.reserve.released is None
    assert aside.names == []


def test_a_start_keeps_it_where_there_is_room(aside: Aside) -> None:
    aside.reserve.begin()
    aside.reserve.make()
    aside.reserve.begin()
    assert aside.names == [RESERVE_FILE]


def test_a_start_on_a_full_disk_begins_by_giving_it_away(
    aside: Aside, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside.reserve.make()
    monkeypatch.setattr(QuickDisk, "space", lambda disk, path: (0, SIZE - 1))
    aside.reserve.begin()
    assert aside.names == []


def test_one_of_another_size_is_made_anew(aside: Aside) -> None:
    aside.reserve.make()
    other = Reserve(aside.disk, aside.directory, SIZE // 2)
    other.begin()
    other.make()
    assert (aside.directory / RESERVE_FILE).stat().st_size == SIZE // 2
