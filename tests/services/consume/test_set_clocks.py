"""Leases, and a wall clock that somebody sets: they last as long as was asked for."""

import pytest

from broker.model.administration import GroupSettings
from tests.fakes.consuming import GROUP, INVISIBLE_MS, TOPIC, ConsumeDesk, bodies

HOUR_MS = 3_600_000


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
