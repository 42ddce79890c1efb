"""The timer where something comes between: refused room, a backlog, a lap by the clock, a start."""

import asyncio
from itertools import pairwise

import pytest

from pocketmq.format.properties import encode_properties
from pocketmq.format.timer_layout import LOG_UNIT_SIZE, SLOT_COUNT
from pocketmq.model.errors import DiskFull
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.system_topics import QueuePlace
from pocketmq.services.delay import enqueue
from pocketmq.services.delay.timer import Timer
from pocketmq.services.delay.timer_resume import TimerResumption
from pocketmq.store.timer.timer_files import TimerFiles
from tests.kit.rows import Row
from tests.kit.store_language import BORN_HOST
from tests.kit.timing import SETTINGS, row_of, timing

LAP_MS = SETTINGS["timer_slot_count"] * 1_000
HOUR_MS = 3_600_000


async def test_what_became_due_while_its_slot_had_no_room_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with timing() as desk:

        async def refused() -> None:
            raise DiskFull(path="timerwheel")

        with monkeypatch.context() as patch:
            patch.setattr(TimerFiles, "make", lambda _: refused())
            await desk.put_waiting(row_of(desk, "waits", 3_000), row_of(desk, "late", -5_000))
            await desk.part(10)
            assert desk.bodies() == ["late"]
        desk.clock.advance(5_000)
        await desk.pass_time(2_000)
        assert desk.bodies() == ["late", "waits"]


@pytest.mark.parametrize("in_ms", [5_000, -5_000])
async def test_a_long_journal_of_leases_lets_others_have_their_turn(in_ms: int) -> None:
    turn, seen, topic = 0, dict[int, set[int]](), "rmq_sys_REVIVE_LOG_DefaultCluster"

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def is_open(queue_offset: int) -> bool:
        seen.setdefault(turn, set()).add(queue_offset)
        return False

    async with timing(is_open=is_open) as desk:
        place = QueuePlace(topic, 0)
        rows = [row_of(desk, f"m{n}", in_ms, place=place, TAGS="ck") for n in range(900)]
        ticking = asyncio.create_task(others())
        await desk.put_waiting(*rows)
        await desk.pass_time(7_000)
        ticking.cancel()
    assert set().union(*seen.values()) == set(range(900))
    assert max(map(len, seen.values())) <= 512
    assert in_ms < 0 or max(b - a for a, b in pairwise(sorted(seen))) < 200, "none has to wait"


async def test_what_was_found_delivered_is_so_when_asked_again() -> None:
    async with timing() as desk:
        await desk.wait("a", 2_000)
        await desk.pass_time(4_000)
        (message,) = desk.messages("rmq_sys_wheel_timer")
        resumption = TimerResumption(desk.store, 0)
        record = desk.store.log.read(message.physical_offset, 1_000)
        record = record[: int.from_bytes(record[:4])]
        assert await resumption.is_delivered(record)
        assert await resumption.is_delivered(record)


async def test_what_was_moved_before_a_start_may_not_be_let_go() -> None:
    async with timing(timer_slot_count=16_384) as desk:
        await desk.wait("a", 10_000)
        await desk.wait("b", 2 * HOUR_MS)
        await desk.pass_time(2_000)
        desk.clock.wall += HOUR_MS
        await desk.pass_time(1_000)
        first = desk.messages("rmq_sys_wheel_timer")[0].physical_offset
        assert desk.timer.floor() <= first
        await desk.restarted()
        assert desk.bodies() == []
        assert desk.timer.floor() <= first


@pytest.mark.parametrize("jump_ms", [LAP_MS + 700, 3 * LAP_MS + 2_000, 700 - LAP_MS, -LAP_MS])
async def test_a_clock_set_by_a_lap_of_the_wheel_loses_nothing(jump_ms: int) -> None:
    async with timing() as desk:
        names = [f"m{number}" for number in range(12)]
        for number, name in enumerate(names):
            await desk.wait(name, 3_000 + 1_000 * number)
        await desk.pass_time(1_000)
        desk.clock.wall += jump_ms
        await desk.pass_time(18_000)
        assert desk.bodies() == names


async def test_a_clock_set_back_by_a_lap_before_a_start_loses_nothing() -> None:
    async with timing() as desk:
        for number in range(12):
            await desk.wait(f"a{number}", 3_000 + 1_000 * number)
        await desk.pass_time(1_000)
        await desk.close()
        desk.clock.wall -= LAP_MS
        await desk.open()
        for number in range(12):
            await desk.wait(f"b{number}", 3_000 + 1_000 * number)
        await desk.pass_time(30_000)
        assert sorted(desk.bodies()) == sorted(f"{c}{n}" for c in "ab" for n in range(12))


async def test_a_recall_holds_though_the_slot_before_takes_long() -> None:
    async with timing() as desk:
        await desk.put_waiting(*[row_of(desk, f"m{number}", 5_000) for number in range(600)])
        await desk.wait("b", 7_000)
        await desk.pass_time(4_000)
        desk.clock.advance(1_000)
        while not desk.bodies():
            await desk.part(1)
        assert len(desk.bodies()) < 600
        await desk.wait("marker", 2_000, key="KEYb", TIMER_DEL_UNIQKEY="KEYb")
        desk.clock.advance(5_000)
        await desk.run()
        assert len(desk.bodies()) == 600


async def test_what_is_recalled_stays_away_though_marker_and_message_are_read_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enqueue, "READ_MAX", 8)
    async with timing() as desk:
        await desk.wait("first", 30_000)
        await desk.pass_time(1_000)
        await desk.timer.close()
        names = [f"m{number}" for number in range(20)]
        await desk.put_waiting(*[row_of(desk, name, 5_000) for name in names])
        await desk.wait("marker", 5_000, key="KEYm1", TIMER_DEL_UNIQKEY="KEYm1")
        await desk.store.close()
        desk.clock.advance(60_000)
        await desk.open()
        assert sorted(desk.bodies()) == sorted({*names, "first"} - {"m1"})


async def test_a_clock_set_forward_and_back_makes_nothing_early() -> None:
    async with timing(timer_slot_count=32_768) as desk:
        await desk.wait("a", 2 * HOUR_MS)
        await desk.wait("b", 30_000)
        await desk.pass_time(2_000)
        for jump_ms in (HOUR_MS, -HOUR_MS):
            desk.clock.wall += jump_ms
            await desk.pass_time(2_000)
        await desk.pass_time(30_000)
        assert desk.bodies() == ["b"]
        await desk.pass_time(2 * HOUR_MS - 40_000, step_ms=200_000)
        assert desk.bodies() == ["b"]
        await desk.pass_time(10_000)
        assert desk.bodies() == ["b", "a"]


async def test_a_time_beyond_all_numbers_stops_nothing() -> None:
    async with timing() as desk:
        said = {"REAL_TOPIC": "orders", "REAL_QID": "0", "TIMER_OUT_MS": "9" * 19}
        await desk.put_waiting(Row(b"odd", encode_properties(said), 0, 5, BORN_HOST))
        await desk.wait("a", 2_000)
        await desk.pass_time(4_000)
        assert desk.bodies() == ["odd", "a"]


async def test_what_was_delivered_after_a_move_stays_delivered_by_a_clock_set_back_twice() -> None:
    async with timing() as desk:
        await desk.wait("a", 20_000)
        await desk.wait("b", 60_000)
        await desk.pass_time(2_000)
        desk.clock.wall -= 300_000
        await desk.pass_time(25_000)
        assert desk.bodies() == ["a"]
        await desk.close()
        desk.clock.wall -= 10_000
        await desk.open()
        for _ in range(2):
            await desk.killed()
            await desk.pass_time(250_000, step_ms=5_000)
        assert desk.bodies() == ["a", "b"]


async def test_what_came_again_before_a_kill_does_not_come_again_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    day_ms = 24 * HOUR_MS
    async with timing(timer_slot_count=SLOT_COUNT) as desk:
        for name in ("a", "b"):
            await desk.wait(name, 3 * day_ms)
        await desk.wait("marker", 3 * day_ms, key="KEYb", TIMER_DEL_UNIQKEY="KEYb")
        await desk.pass_time(day_ms, step_ms=day_ms // 2)
        with monkeypatch.context() as patch:
            patch.setattr(Timer, "_save_if_due", lambda _: None)
            await desk.pass_time(day_ms, step_ms=day_ms // 2)
            await desk.pass_time(2_000)
        assert len(desk.messages("rmq_sys_wheel_timer")) == 6
        await desk.killed()
        await desk.pass_time(2_000)
        assert len(desk.messages("rmq_sys_wheel_timer")) == 6
        await desk.pass_time(day_ms, step_ms=day_ms // 2)
        assert desk.bodies() == ["a"]


async def test_a_damaged_unit_lets_nothing_go_that_waits_behind_it() -> None:
    async with timing() as desk:
        for number in range(4):
            await desk.wait(f"m{number}", 300_000 if number else 2_000)
        await desk.pass_time(20_000)
        log = desk.store.timer.log
        assert log is not None
        places = [message.physical_offset for message in desk.messages("rmq_sys_wheel_timer")]
        while desk.timer.floor() != places[1]:  # Until it is written down what was delivered.
            await desk.pass_time(1_000)
        await desk.pass_time(1_000)
        file = log.files.files[0]
        file.view[LOG_UNIT_SIZE : 2 * LOG_UNIT_SIZE] = b"\xff" * LOG_UNIT_SIZE
        assert desk.timer.floor() == places[2]
        await desk.pass_time(300_000, step_ms=10_000)
        while desk.timer.floor() != OFFSET_MAX:
            await desk.pass_time(1_000)
