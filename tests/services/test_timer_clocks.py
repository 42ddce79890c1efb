"""Clocks are set while messages wait, are taken back, come again: all is as if they were not."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.format.timer_layout import SLOT_COUNT, ClockShift, Units
from pocketmq.model.batch import Destination
from pocketmq.model.step import Now
from pocketmq.services.delay import dequeue, enqueue
from pocketmq.services.delay.dequeue import TimerDequeue
from pocketmq.services.delay.timer import Timer
from pocketmq.services.produce.drafts import DeliveryRequest
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send
from pocketmq.store.message_store import open_store
from tests.kit.drafts import draft, drafts_of
from tests.kit.rows import batch
from tests.kit.store_language import BORN_HOST, STORE_HOST, put_row
from tests.kit.timing import TimingDesk, no_lease, row_of, timing
from tests.sim.clock import START_MS, FakeClock
from tests.sim.quick_disk import QuickDisk

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def take_back(desk: TimingDesk, name: str, said_ms: int) -> None:
    """Puts what takes a message back, which says its time as the message did."""
    in_ms = said_ms - desk.clock.wall
    await desk.wait("marker", in_ms, key=f"KEY{name}", TIMER_DEL_UNIQKEY=f"KEY{name}")


def _came(desk: TimingDesk) -> int:
    return sum(len(desk.bodies(queue_id=number)) for number in range(4))


async def set_clock(desk: TimingDesk, by_ms: int) -> None:
    desk.clock.wall += by_ms
    await desk.run()


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS, -2_300, 700, -30 * DAY_MS])
@pytest.mark.parametrize("starts", [0, 1, 2])
async def test_a_recall_holds_though_the_clock_was_set_before(jump_ms: int, starts: int) -> None:
    async with timing() as desk:
        said_ms = desk.clock.wall + 30_000
        for name in ("a", "b"):
            await desk.wait(name, 30_000)
        await desk.pass_time(2_000)
        await set_clock(desk, jump_ms)
        for _ in range(starts):
            await desk.killed()
        await take_back(desk, "b", said_ms)
        await desk.pass_time(27_000)
        assert desk.bodies() == []
        await desk.pass_time(3_000)
        assert desk.bodies() == ["a"]


async def test_a_recall_holds_that_comes_in_the_last_second_by_another_clock() -> None:
    async with timing() as desk:
        said_ms = desk.clock.wall + 5_500
        for name in ("a", "b"):
            await desk.wait(name, 5_500)
        await desk.pass_time(1_000)
        await set_clock(desk, HOUR_MS)
        await desk.pass_time(4_100)
        await take_back(desk, "b", said_ms)
        await desk.pass_time(2_000)
        assert desk.bodies() == ["a"]


@pytest.mark.parametrize("jumps_ms", [(HOUR_MS, -HOUR_MS), (-HOUR_MS, HOUR_MS), (-5_000, 700)])
@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_recall_holds_though_the_clock_is_set_after_it(
    jumps_ms: tuple[int, int], is_killed: bool
) -> None:
    async with timing() as desk:
        said_ms = desk.clock.wall + 30_000
        for name in ("a", "b"):
            await desk.wait(name, 30_000)
        await desk.pass_time(2_000)
        await take_back(desk, "b", said_ms)
        for jump_ms in jumps_ms:
            await set_clock(desk, jump_ms)
            await (desk.killed() if is_killed else desk.restarted())
            await desk.pass_time(1_000)
        await desk.pass_time(24_000)
        assert desk.bodies() == []
        await desk.pass_time(4_000)
        assert desk.bodies() == ["a"]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_back_and_forward_and_a_start_make_nothing_early_or_late(is_killed: bool) -> None:
    async with timing() as desk:
        await desk.wait("a", 60_000)
        await desk.pass_time(2_000)
        await set_clock(desk, -HOUR_MS)
        await desk.wait("b", 40_000)
        await desk.pass_time(2_000)
        await set_clock(desk, HOUR_MS)
        await (desk.killed() if is_killed else desk.restarted())
        await desk.pass_time(37_000)
        assert desk.bodies() == []
        await desk.pass_time(3_000)
        assert desk.bodies() == ["b"]
        await desk.pass_time(14_000)
        assert desk.bodies() == ["b"]
        await desk.pass_time(4_000)
        assert desk.bodies() == ["b", "a"]


async def test_what_waits_says_how_far_the_clock_of_its_coming_was_ahead() -> None:
    """A start translates recalls by it."""
    async with timing() as desk:
        for name, jump_ms in (("a", 0), ("b", HOUR_MS), ("c", -2 * HOUR_MS)):
            desk.clock.wall += jump_ms
            await desk.wait(name, 60_000)
            await desk.pass_time(1_000)
        shifts = [u for units in desk.store.timer.waiting(0) for u in units["shift_ms"].tolist()]
        assert shifts == [0, -HOUR_MS, HOUR_MS]


async def test_a_saw_tooth_adds_nothing_up() -> None:
    async with timing() as desk:
        for number in range(30):
            await desk.wait(f"m{number}", 61_500)
            desk.clock.wall += (1_000, -1_000, 700, -700)[number % 4]
            await desk.pass_time(500, step_ms=250)
        await desk.pass_time(61_500 - 15_000 - 1)
        assert desk.bodies() == []
        for number in range(30):
            await desk.pass_time(500, step_ms=250)
            assert len(desk.bodies()) <= number + 1
            assert len(desk.bodies()) >= number - 3
        await desk.pass_time(2_000)
        assert sorted(desk.bodies()) == sorted(f"m{number}" for number in range(30))


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_what_came_after_it_was_set_and_before_anybody_looked_waits_as_long_as_it_says(
    jump_ms: int,
) -> None:
    async with timing() as desk:
        await desk.wait("before", 10_000)
        await desk.pass_time(1_000)
        desk.clock.wall += jump_ms
        desk.clock.advance(300)
        await desk.wait("after", 10_000)
        await desk.pass_time(8_500)
        assert desk.bodies() == []
        await desk.pass_time(1_300)
        assert desk.bodies() == ["before"]
        await desk.pass_time(1_500)
        assert desk.bodies() == ["before", "after"]


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_what_comes_again_by_another_clock_waits_no_less(
    jump_ms: int, tmp_path: Path
) -> None:
    async with timing(tmp_path / "s", disk=QuickDisk(), timer_slot_count=SLOT_COUNT) as desk:
        said_ms = desk.clock.wall + 5 * DAY_MS
        for name in ("a", "b"):
            await desk.wait(name, 5 * DAY_MS)
        await desk.pass_time(DAY_MS, step_ms=DAY_MS // 2)
        await set_clock(desk, jump_ms)
        await desk.pass_time(3 * DAY_MS, step_ms=DAY_MS // 2)
        await take_back(desk, "b", said_ms)
        await desk.pass_time(DAY_MS - 2_000, step_ms=DAY_MS // 2)
        assert desk.bodies() == []
        await desk.pass_time(4_000)
        assert desk.bodies() == ["a"]
        (found,) = {m.properties.get("PMQ_TIMER_OUT_MS") for m in desk.messages()}
        assert found == str((said_ms + jump_ms) // 1_000 * 1_000 - 1_000)


async def test_a_recall_among_what_is_unread_holds_though_its_message_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enqueue, "READ_MAX", 8)
    async with timing() as desk:
        await desk.timer.close()
        names = [f"m{number}" for number in range(40)]
        await desk.put_waiting(*[row_of(desk, name, 5_000) for name in names])
        for name in ("m1", "m12", "m39"):
            await desk.wait("marker", 5_000, key=f"KEY{name}", TIMER_DEL_UNIQKEY=f"KEY{name}")
        await desk.store.close()
        desk.clock.advance(60_000)
        await desk.open()
        await desk.pass_time(2_000)
        assert desk.bodies() == [name for name in names if name not in ("m1", "m12", "m39")]
        await desk.killed()
        await desk.pass_time(2_000)
        assert len(desk.bodies()) == 37


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS, 700])
async def test_a_clock_that_is_set_just_before_a_stop_or_just_behind_a_start_is_seen(
    jump_ms: int,
) -> None:
    async with timing() as desk:
        await desk.wait("a", 10_000)
        await desk.pass_time(1_000)
        desk.clock.wall += jump_ms
        await desk.close()
        desk.store = await open_store(desk.settings, desk.clock, desk.disk)
        desk.clock.wall += jump_ms
        desk.timer = Timer(desk.store, STORE_HOST, no_lease)
        await desk.pass_time(8_900)
        assert desk.bodies() == []
        await desk.pass_time(2_100)
        assert desk.bodies() == ["a"]


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_a_clock_that_is_set_while_a_send_has_to_wait_makes_nothing_early_or_late(
    jump_ms: int,
) -> None:
    async with timing() as desk:
        await desk.store.tables.topics.keep("orders")
        key_maker = UniqueKeyMaker(address=b"\n\0\0\1", process_id=1, random_bytes=b"abcd")
        rules = SendRules(STORE_HOST, "C", check_kinds=False)
        sending = Send(desk.store, rules, desk.clock, key_maker=key_maker, random=Random(1))
        message = draft("orders", b"a", message_id="a", delivery=DeliveryRequest(delay_ms=10_000))
        # The first of its kind waits until the timer's topic stands in the table.
        sent = asyncio.ensure_future(sending.send(drafts_of(message), BORN_HOST))
        await asyncio.sleep(0)
        assert not sent.done()
        desk.clock.wall += jump_ms
        desk.timer.step(Now(desk.clock.monotonic, desk.clock.wall))
        await sent
        await desk.settled()
        await desk.pass_time(9_900)
        assert _came(desk) == 0
        await desk.pass_time(2_100)
        assert _came(desk) == 1


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_what_comes_before_the_timer_begins_goes_by_the_clock_of_then(jump_ms: int) -> None:
    async with timing() as desk:
        await desk.wait("before", 4_000)
        await desk.pass_time(1_000)
        await desk.close()
        desk.clock.wall += jump_ms
        desk.store = await open_store(desk.settings, desk.clock, desk.disk)
        await desk.wait("after", 10_000)
        desk.timer = Timer(desk.store, STORE_HOST, no_lease)
        await desk.pass_time(9_000)
        assert desk.bodies() == ["before"]
        await desk.pass_time(2_000)
        assert desk.bodies() == ["before", "after"]


async def test_what_comes_while_a_clock_is_set_back_a_little_joins_no_slot_that_was_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dequeue, "PUT_MAX", 2)
    async with timing() as desk:
        desk.clock.advance(1_000 - desk.clock.wall % 1_000)
        for number in range(8):
            await desk.wait(f"m{number}", 3_000)
        await desk.pass_time(2_950, step_ms=2_950)
        desk.clock.advance(60)
        await desk.part(4)
        assert len(desk.bodies()) == 4
        desk.clock.wall -= 40  # In the second before, and no jump.
        await desk.wait("late", 0)
        await desk.part(40)
        await desk.pass_time(3_000)
        assert desk.bodies() == [*(f"m{number}" for number in range(8)), "late"]


@pytest.mark.parametrize("starts", [1, 2])
async def test_what_came_before_a_kill_stays_so_though_the_clock_is_set_back_and_forward(
    starts: int,
) -> None:
    """The wheel's clock goes on from what was written down, which is before what was delivered."""
    async with timing() as desk:
        await desk.wait("a", 8_000)
        await desk.pass_time(9_000)
        assert desk.bodies() == ["a"]
        desk.clock.wall -= 30 * DAY_MS
        await desk.killed()
        await desk.wait("b", 4_000)
        await set_clock(desk, 30 * DAY_MS)
        for _ in range(starts):
            await desk.restarted()
        await desk.pass_time(20_000)
        assert desk.bodies() == ["a", "b"]


async def test_a_log_that_lost_its_end_goes_on_by_the_last_clock() -> None:
    async with timing() as desk:
        await desk.wait("a", 60_000)
        await set_clock(desk, HOUR_MS)
        await desk.timer.close()
        progress = desk.store.timer.progress
        lost = (ClockShift(), ClockShift(50, progress.shifts[-1].ahead_ms))
        await desk.store.timer.write_down(progress._replace(shifts=lost))
        await desk.store.close()
        await desk.open()
        await desk.wait("b", 5_000)
        await desk.pass_time(7_000)
        assert desk.bodies() == ["b"]
        await desk.pass_time(54_000)
        assert desk.bodies() == ["b", "a"]


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_a_clock_set_while_a_slot_is_read_makes_what_comes_again_neither_early_nor_late(
    jump_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with timing(tmp_path / "s", disk=QuickDisk(), timer_slot_count=SLOT_COUNT) as desk:
        await desk.wait("a", 3 * DAY_MS)
        await desk.pass_time(0)
        jumps = [jump_ms]

        async def read(slot: TimerDequeue, units: Units) -> list[bytes]:
            records = await records_of(slot, units)
            if records and jumps:
                desk.clock.wall += jumps.pop()
                desk.store.timer.observe_clock(Now(desk.clock.monotonic, desk.clock.wall))
            return records

        records_of = TimerDequeue._found
        monkeypatch.setattr(TimerDequeue, "_found", read)
        await desk.pass_time(3 * DAY_MS - 2_000, step_ms=DAY_MS // 2)
        assert not jumps
        assert desk.bodies() == []
        await desk.pass_time(4_000)
        assert desk.bodies() == ["a"]


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("begins_ahead", [False, True])
async def test_a_delay_of_a_clock_that_was_ahead_lasts_no_longer_after_a_kill(
    is_read: bool, begins_ahead: bool
) -> None:
    """The clock was 24 years ahead, and is set right over a kill, before anything was written down.

    is_read   the timer has taken the messages in
    """
    right = START_MS
    async with timing(clock=FakeClock(right + 24 * 365 * DAY_MS * begins_ahead)) as desk:
        desk.clock.wall = right + 24 * 365 * DAY_MS
        for name in ("a", "b"):
            await desk.wait(name, 20_000)
        await take_back(desk, "b", desk.clock.wall + 20_000)
        if is_read:
            await desk.pass_time(2_000)
        desk.clock.wall = right
        await desk.killed()
        await desk.wait("c", 30_000)
        await desk.pass_time(16_000)
        assert desk.bodies() == []
        await desk.pass_time(6_000)
        assert desk.bodies() == ["a"]
        await desk.killed()
        await desk.pass_time(5_000)
        assert desk.bodies() == ["a"]
        await desk.pass_time(6_000)
        assert desk.bodies() == ["a", "c"]
        await desk.killed()
        assert desk.bodies() == ["a", "c"]
        assert desk.timer.waiting_count == 0


@pytest.mark.parametrize("jumps_ms", [(-2 * HOUR_MS, 2 * HOUR_MS), (30 * DAY_MS, -30 * DAY_MS)])
async def test_what_came_while_the_clock_was_wrong_does_not_come_again_after_a_kill(
    jumps_ms: tuple[int, int],
) -> None:
    """Stores times go back and forth, so those of a copy tell nothing of where it lies."""
    async with timing() as desk:
        await desk.wait("a", 3_000)
        await desk.pass_time(1_000)
        await set_clock(desk, jumps_ms[0])
        while not desk.bodies():
            desk.clock.advance(100)
            await desk.part(1)
        desk.clock.wall += jumps_ms[1]
        other = Destination("orders", 1, STORE_HOST)
        await desk.store.writing.put([(other, batch(put_row("stored at the right time")))])
        await desk.killed()
        await desk.pass_time(5_000)
        assert desk.bodies() == ["a"]
