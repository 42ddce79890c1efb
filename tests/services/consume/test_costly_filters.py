"""A filter that takes long for each message holds up neither other callers nor any message."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pocketmq.filter.parsing import parse_filter
from pocketmq.filter.turns import TURN_NS, turn_count
from pocketmq.model.administration import GroupSettings
from tests.kit.consuming import GROUP, ConsumeDesk, bodies

COSTLY = parse_filter(" OR ".join(["TAGS LIKE '%_x_%_'"] * 90), is_sql=True)
"""One turn for a message with 15,000 characters."""
LONG = "y" * 15_000


async def turns_of(asking: Awaitable[Any]) -> tuple[Any, int]:
    """Returns what is awaited, and how many turns others had meanwhile."""
    task, count = asyncio.ensure_future(asking), 0
    while not task.done():
        await asyncio.sleep(0)
        count += 1
    return task.result(), count


async def plainly(desk: ConsumeDesk) -> None:
    """Leaves the group as it is."""


async def in_order(desk: ConsumeDesk) -> None:
    """Makes it receive in order."""
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))


@pytest.mark.parametrize("prepare", [plainly, in_order])
async def test_a_receive_gives_others_their_turn_and_finds_what_matches(
    desk: ConsumeDesk, prepare: Callable[[ConsumeDesk], Awaitable[None]]
) -> None:
    await prepare(desk)
    for _ in range(6):
        await desk.send("m", tag=LONG)
    await desk.send("wanted", tag="-x--")
    found: list[str] = []
    turn_sum = 0
    for _ in range(20):
        received, count = await turns_of(desk.receive(wanted=COSTLY))
        turn_sum += count
        found += bodies(received)
    assert found == ["wanted"]
    assert turn_sum > 6


async def test_broadcast_receives_give_others_their_turn(desk: ConsumeDesk) -> None:
    for _ in range(6):
        await desk.send("m", tag=LONG)
    await desk.send("wanted", tag="-x--")
    found: list[str] = []
    turn_sum = 0
    for _ in range(12):
        asking = desk.receive(wanted=COSTLY, broadcast=True, client_id="c")
        received, count = await turns_of(asking)
        turn_sum += count
        found += bodies(received)
    assert found == ["wanted"]
    assert turn_sum >= 12 * 3, "one for the call, and one behind each queue's read"


async def test_a_turn_holds_one_record_at_least_and_as_many_as_the_filter_counts(
    desk: ConsumeDesk,
) -> None:
    await desk.send("m", tag=LONG)
    for _ in range(4):
        await desk.send("m", tag="y" * 1_500)
    records = (await desk.receive(max_messages=8)).records
    long = max(records, key=len)
    short = [record for record in records if record is not long]
    assert COSTLY.cost_ns(long) > TURN_NS > 4 * COSTLY.cost_ns(short[0])
    assert turn_count(COSTLY, [long, *short]) == 1
    assert turn_count(COSTLY, [*short, long]) == 4
    assert turn_count(COSTLY, short) == 4
    assert turn_count(COSTLY, []) == 0
