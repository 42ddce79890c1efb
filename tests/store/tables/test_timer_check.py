"""How far the timer is: a real broker's numbers, and our own behind them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import pack_into, unpack

import pytest

from broker.files.disk import Disk
from broker.store.tables.timer_check import SHIFTS_MAX, ClockShift, TimerCheck, TimerProgress
from tests.golden_stores import GoldenStores

NAME = "config/timercheck"
SHIFTS = (ClockShift(), ClockShift(7, -3_600_000), ClockShift(9, 700))
OURS = TimerProgress(
    1_795_221_494_000, 7_020, 134, 134, 0, 5, 3, 4_711, 1_795_221_494_900, 1_795_221_499_000, SHIFTS
)  # fmt: skip


def opened(directory: Path) -> TimerCheck:
    check = TimerCheck(Disk(), directory, ThreadPoolExecutor(1))
    check.load()
    return check


def test_a_real_brokers_is_read(golden: GoldenStores) -> None:
    check = opened(golden.store("semantics"))
    assert check.progress == TimerProgress(
        1_795_221_494_000, 7_020, 134, 134, 0, 1_795_221_494_576, 33
    )


async def test_what_is_written_stands_where_a_real_broker_looks(tmp_path: Path) -> None:
    await opened(tmp_path).put(OURS)
    content = (tmp_path / NAME).read_bytes()
    assert len(content) == 4_096
    assert unpack(">7q", content[:56]) == OURS[:7]
    assert opened(tmp_path).progress == OURS


async def test_as_many_shifts_as_the_file_has_room_for_are_read(tmp_path: Path) -> None:
    many = OURS._replace(shifts=tuple(ClockShift(n, -n) for n in range(SHIFTS_MAX)))
    await opened(tmp_path).put(many)
    assert (tmp_path / NAME).stat().st_size == 4_096
    assert opened(tmp_path).progress == many


async def test_our_own_numbers_mean_nothing_once_another_broker_went_on(tmp_path: Path) -> None:
    await opened(tmp_path).put(OURS)
    content = bytearray((tmp_path / NAME).read_bytes())
    pack_into(">q", content, 0, 1_795_221_500_000)
    (tmp_path / NAME).write_bytes(content)
    assert opened(tmp_path).progress == TimerProgress(1_795_221_500_000, *OURS[1:7])


@pytest.mark.parametrize("content", [b"", b"short", bytes(4_096), b"\xff" * 56])
def test_what_says_nothing_is_nothing(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / NAME).write_bytes(content)
    assert opened(tmp_path).progress == TimerProgress()
