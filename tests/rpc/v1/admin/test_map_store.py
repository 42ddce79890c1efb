"""MapStore: parts of the log with topics and times, and the fill of queues and index."""

from itertools import pairwise

import pytest

from pocketmq.model.errors import IllegalNumber
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.services.admin.store_map import PARTS_MAX
from tests.kit.call import FakeCall
from tests.kit.store_broker import SIZES, StoreBroker

FILE = SIZES["commit_log_file_size_bytes"]


async def mapped(
    broker: StoreBroker, count: int = 0, call: FakeCall | None = None
) -> pb.MapStoreResponse:
    return await broker.admin.map_store(pb.MapStoreRequest(part_count=count), call or FakeCall())


async def test_an_empty_log_has_no_part(broker: StoreBroker) -> None:
    found = await mapped(broker)
    assert [*found.parts] == [*found.topics] == []
    assert found.queue_entry_count == found.index_entry_count == 0


async def test_parts_name_the_topic_with_the_most_bytes_and_end_with_their_file(
    broker: StoreBroker,
) -> None:
    for number in range(12):  # A file has room for two and a half of these.
        topic = "orders" if number < 6 else "audit"
        broker.clock.advance(1_000)
        await broker.add(topic, bytes(100_000), KEYS=f"k{number}")
    found = await mapped(broker, 24)
    parts = found.parts
    assert (parts[0].begin, parts[-1].end) == (0, broker.store.appended)
    assert all(before.end == after.begin for before, after in pairwise(parts))
    assert all(one.begin // FILE == (one.end - 1) // FILE for one in parts)
    assert all(one.topic >= 0 for one in parts), "a record covers the parts after its begin"
    names = [found.topics[one.topic].name for one in parts]
    assert names == sorted(names, reverse=True)
    assert {*names} == {"orders", "audit"}
    times = [one.stored_ms for one in parts if one.stored_ms]
    assert times == sorted(times)
    assert found.topics[0].size_bytes == pytest.approx(600_000, rel=0.01)
    assert found.queue_entry_count == found.index_entry_count == 12
    assert (found.log_file_count, found.log_file_size_bytes) == (6, FILE)
    assert found.queue_file_count == 2
    assert found.queue_file_size_bytes == SIZES["consume_queue_file_size_bytes"]


async def test_many_messages_are_sampled_by_their_number(broker: StoreBroker) -> None:
    for topic in ("orders", "audit", "audit", "audit"):
        await broker.add(topic, *[bytes(20)] * 2_000)
    found = await mapped(broker)
    sizes = {one.name: one.size_bytes for one in found.topics}
    assert sizes["audit"] / sizes["orders"] == pytest.approx(3, rel=0.02)
    assert sum(sizes.values()) == pytest.approx(8_000 * len(broker.records()[0]), rel=0.01)


async def test_names_of_other_topics_are_not_shown(broker: StoreBroker) -> None:
    await broker.add("orders", b"a")
    await broker.add("audit", b"a" * 200)
    call = FakeCall()
    call.may = lambda need: need.name == "orders"
    found = await mapped(broker, call=call)
    assert [one.name for one in found.topics] == ["", "orders"]


async def test_more_files_than_parts_share_parts(broker: StoreBroker) -> None:
    for _ in range(9):
        await broker.add("orders", bytes(200_000))
    found = await mapped(broker, 2)
    assert found.parts[0].end == 5 * FILE
    assert len(found.parts) == 2
    with pytest.raises(IllegalNumber):
        await mapped(broker, PARTS_MAX + 1)
