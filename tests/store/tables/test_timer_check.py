"""How far the timer is: a real broker's numbers, and our own behind them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import pack, pack_into, unpack
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.timer_layout import SHIFTS_MAX, ClockShift, TimerProgress
from pocketmq.store.tables.timer_check import TimerCheck
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


def test_a_store_without_the_file_begins_at_0(tmp_path: Path) -> None:
    for check in (TimerCheck(Disk(), tmp_path, ThreadPoolExecutor(1)), opened(tmp_path)):
        assert check.progress == (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ((0, 0),))


async def test_our_own_numbers_stand_where_the_format_says(tmp_path: Path) -> None:
    await opened(tmp_path).put(OURS)
    content = (tmp_path / NAME).read_bytes()
    shifts = pack(">6q", 0, 0, 7, -3_600_000, 9, 700)
    own = pack(">8s4q", b"pocketmT", OURS.read_ms, OURS.delivered_before, OURS.wheel_ms, 3)
    assert content[2_048:2_136] == own + shifts
    assert content[4_088:] == pack(">q", OURS.resume_below_ms)
    assert not any(content[56:2_048] + content[2_136:4_088])
    assert SHIFTS_MAX == (4_088 - 2_088) // 16


@pytest.mark.parametrize(
    ("place", "number"),
    [
        (2_048, 0),  # The mark.
        (2_064, -1),  # delivered_before
        (2_072, -1),  # wheel_ms
        (2_080, 0),  # shift_count
        (2_080, -1),
        (2_080, SHIFTS_MAX + 1),
        (2_104, -1),  # first_place of the second shift
        (4_088, -1),  # resume_below_ms
    ],
)
async def test_of_our_own_numbers_all_are_sound_or_none_counts(
    tmp_path: Path, place: int, number: int
) -> None:
    await opened(tmp_path).put(OURS)
    content = bytearray((tmp_path / NAME).read_bytes())
    pack_into(">q", content, place, number)
    (tmp_path / NAME).write_bytes(content)
    assert opened(tmp_path).progress == TimerProgress(*OURS[:7])


async def test_numbers_may_be_0(tmp_path: Path) -> None:
    await opened(tmp_path).put(TimerProgress(read_ms=5, shifts=(ClockShift(0, -3),)))
    assert opened(tmp_path).progress == TimerProgress(5, shifts=(ClockShift(0, -3),))


@pytest.mark.parametrize(("size", "read_ms"), [(55, 0), (56, 7), (4_095, 7), (4_097, 7)])
async def test_a_file_of_another_size_has_a_real_brokers_numbers_or_none(
    tmp_path: Path, size: int, read_ms: int
) -> None:
    await opened(tmp_path).put(OURS._replace(read_ms=7))
    content = (tmp_path / NAME).read_bytes() + b"x"
    (tmp_path / NAME).write_bytes(content[:size])
    expected = TimerProgress(7, *OURS[1:7]) if read_ms else TimerProgress()
    assert opened(tmp_path).progress == expected


@pytest.mark.parametrize(
    ("queue_end", "log_end", "count", "changed"),
    [
        (134, 4_711, 0, {}),
        (200, 9_999, 0, {}),
        (133, 4_711, 1, {"queue_offset": 133, "queue_limit": 133}),
        (134, 4_710, 0, {"delivered_before": 4_710}),
        (0, 0, 1, {"queue_offset": 0, "queue_limit": 0, "delivered_before": 0}),
    ],
)
async def test_places_beyond_their_ends_come_down_to_them(
    tmp_path: Path, queue_end: int, log_end: int, count: int, changed: dict[str, Any]
) -> None:
    check = opened(tmp_path)
    await check.put(OURS)
    before = (tmp_path / NAME).stat().st_ino
    assert await check.clamp(queue_end, log_end) == count
    assert check.progress == opened(tmp_path).progress == OURS._replace(**changed)
    assert ((tmp_path / NAME).stat().st_ino == before) == (not changed)


async def test_a_limit_beyond_the_queues_end_alone_is_not_counted(tmp_path: Path) -> None:
    check = opened(tmp_path)
    await check.put(OURS._replace(queue_limit=140))
    assert await check.clamp(134, 4_711) == 0
    assert opened(tmp_path).progress == OURS
