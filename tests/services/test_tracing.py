"""The way of a message: linear in records and groups, bounded, with turns of others between."""

import asyncio

import pytest

from pocketmq.services.admin import tracing
from pocketmq.services.admin.tracing import trace_message
from tests.kit.store_broker import StoreBroker

KEY = "0A000001000000010000000000000001"


async def sent(broker: StoreBroker, count: int, groups: int) -> None:
    """Stores a message so many times, of which each group has read the first."""
    await broker.add("orders", *[b"x"] * count, UNIQ_KEY=KEY)
    for number in range(groups):
        await broker.store.tables.offsets.commit(f"g{number}", "orders", 0, 1)


async def test_each_record_tells_which_groups_have_had_it(broker: StoreBroker) -> None:
    await sent(broker, 2, 2)
    _, records = await trace_message(broker.store, KEY, "orders")
    assert [(one.passed_by, one.awaited_by) for one in records] == [
        (["g0", "g1"], []), ([], ["g0", "g1"]),
    ]  # fmt: skip


async def test_with_many_groups_the_newest_records_are_shown(
    broker: StoreBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "STANDINGS_MAX", 15)
    await sent(broker, 9, 5)
    _, records = await trace_message(broker.store, KEY, "orders")
    assert [one.queue_offset for one in records] == [6, 7, 8]


async def test_others_have_their_turn_between(
    broker: StoreBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "STEP_COUNT", 4)
    await sent(broker, 12, 12)
    tracing_one = asyncio.ensure_future(trace_message(broker.store, KEY, "orders"))
    turns = 0
    while not tracing_one.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 15


async def test_positions_are_gone_through_once(
    broker: StoreBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sent(broker, 12, 3)
    asked: list[int] = []
    offsets = broker.store.tables.offsets
    positions = type(offsets).positions

    def counted(self: object) -> object:
        asked.append(1)
        return positions(offsets)

    monkeypatch.setattr(type(offsets), "positions", counted)
    await trace_message(broker.store, KEY, "orders")
    assert len(asked) == 1
