"""Leases last as long as was asked for when the wall clock is set."""

from pathlib import Path

import pytest

from pocketmq.model.administration import GroupSettings
from tests.kit.consuming import GROUP, INVISIBLE_MS, TOPIC, ConsumeDesk, bodies, consuming
from tests.sim.clock import START_MS, FakeClock

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
async def test_a_lease_lasts_as_long_as_was_asked_for(
    desk: ConsumeDesk, by_ms: int, *, fifo: bool, is_changed: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a")
    before = await desk.receive()
    desk.clock.wall += by_ms
    if is_changed:
        await desk.consume.change_invisible(GROUP, TOPIC, [(before.handles[0], INVISIBLE_MS)])
    await desk.step(INVISIBLE_MS - 1)
    assert (await desk.receive()).records == []
    waiting = await desk.parked()
    await desk.step(1)
    assert bodies(await waiting) == ["a"]


@pytest.mark.parametrize("fifo", [False, True])
async def test_one_that_begins_after_a_jump_goes_by_the_new_clock(
    desk: ConsumeDesk, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a")
    desk.clock.wall -= HOUR_MS
    got = await desk.receive()
    assert got.invisible_until_ms == desk.clock.wall_ms() + INVISIBLE_MS
    desk.clock.wall += 2 * HOUR_MS
    await desk.step(INVISIBLE_MS - 1)
    assert (await desk.receive()).records == []
    await desk.step(1)
    assert bodies(await desk.receive()) == ["a"]


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("is_changed", [False, True])
async def test_a_lease_of_a_clock_that_was_ahead_lasts_no_longer_after_a_stop(
    tmp_path: Path, *, fifo: bool, is_changed: bool
) -> None:
    """The clock was 24 years ahead, and is set right while no broker runs; twice."""
    clock = FakeClock(START_MS + 24 * YEAR_MS)
    directory = tmp_path / "s"
    for number in range(2):
        async with consuming(directory, clock=clock) as desk:
            if not number:
                await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
                await desk.send("a")
            got = await desk.receive()
            assert bodies(got) == ["a"]
            if is_changed:
                handles = [(got.handles[0], INVISIBLE_MS)]
                await desk.consume.change_invisible(GROUP, TOPIC, handles)
            image = desk.talking.killed(tmp_path / f"image{number}")
        directory = image
        clock.wall = START_MS + number * 60_000
        async with consuming(directory, clock=clock) as desk:
            await desk.step(INVISIBLE_MS - 1)
            assert (await desk.receive()).records == []
            await desk.step(1)
            got = await desk.receive()
            assert bodies(got) == ["a"]
            await desk.step(INVISIBLE_MS)
            directory = desk.talking.killed(tmp_path / f"right{number}")


async def test_a_lease_in_order_that_began_by_the_right_clock_keeps_its_time_after_a_kill(
    tmp_path: Path,
) -> None:
    """Handles of the clock that was ahead came before it: its time is above its end."""
    clock = FakeClock(START_MS + 24 * YEAR_MS)
    async with consuming(tmp_path / "s", clock=clock) as desk:
        await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
        await desk.send("a")
        await desk.receive()
        clock.wall = START_MS
        await desk.step(INVISIBLE_MS)
        got = await desk.receive(invisible_ms=60_000)
        assert bodies(got) == ["a"]
        image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=clock) as desk:
        await desk.step(60_000 - 1)
        assert (await desk.receive()).records == []
        await desk.step(1)
        assert bodies(await desk.receive()) == ["a"]


async def test_the_ends_of_leases_in_order_follow_a_set_clock_over_a_kill(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    """Effects of a clock that was set are saved like all others."""
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
    await desk.send("a")
    await desk.send("b", queue_id=1)
    await desk.receive(max_messages=1)
    desk.clock.wall += HOUR_MS
    assert len((await desk.receive(max_messages=1)).records) == 1
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        await later.step(INVISIBLE_MS - 1)
        assert (await later.receive()).records == []
        await later.step(1)
        assert sorted(bodies(await later.receive())) == ["a", "b"]


async def test_clocks_are_looked_at_before_a_lease_is_written_down(desk: ConsumeDesk) -> None:
    """It lies in the topic of the timer, whose times go by the clock."""
    looks: list[int] = []
    writing = desk.store.writing
    writing.before_waiting = lambda: looks.append(desk.store.tables.offsets.leases.journal_end)
    await desk.send("a")
    got = await desk.receive()
    await desk.consume.ack(GROUP, TOPIC, got.handles)
    assert looks == [0, 1]
