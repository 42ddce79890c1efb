"""Lists of topics and groups: parts of names, orders, pages and sums, over a real store."""

from typing import Any

import pytest

from pocketmq.model.errors import IllegalNumber, IllegalPageToken, UnsupportedFeature
from pocketmq.model.listing import MEASURED_MAX
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.services.admin.members import PUSH
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker

CALL = FakeCall()
TOPICS = pb.ListTopicsRequest.Order
GROUPS = pb.ListGroupsRequest.Order


async def topics(broker: StoreBroker, **fields: Any) -> pb.ListTopicsResponse:
    return await broker.admin.list_topics(pb.ListTopicsRequest(**fields), CALL)


async def topic_names(broker: StoreBroker, **fields: Any) -> list[str]:
    return [one.name for one in (await topics(broker, **fields)).topics]


async def groups(broker: StoreBroker, **fields: Any) -> pb.ListGroupsResponse:
    return await broker.admin.list_groups(pb.ListGroupsRequest(**fields), CALL)


async def group_names(broker: StoreBroker, **fields: Any) -> list[str]:
    return [one.name for one in (await groups(broker, **fields)).groups]


async def three_topics(broker: StoreBroker) -> None:
    """Adds two topics beside `orders`, which differ in queues, messages, size and last message."""
    for name, kind, queues in (("Audit", "FIFO", 3), ("bills", "DELAY", 2)):
        request = pb.CreateTopicRequest(name=name, queue_count=queues, type=kind)
        await broker.admin.create_topic(request, CALL)
    for name, count, body in (("bills", 3, "x"), ("orders", 1, "x" * 5_000), ("Audit", 2, "x")):
        for _ in range(count):
            await broker.talking.send(name, body, queue_id=0)
        broker.clock.advance(1_000)
    broker.send.counts.count("orders", "normal", 60, 6_000)
    broker.send.counts.count("Audit", "fifo", 120, 6_000)
    await broker.talking.settled()


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("NAME", ["Audit", "bills", "orders"]), ("TYPE", ["bills", "Audit", "orders"]),
        ("QUEUES", ["Audit", "bills", "orders"]), ("MESSAGES", ["bills", "Audit", "orders"]),
        ("SIZE", ["orders", "bills", "Audit"]), ("RATE", ["Audit", "orders", "bills"]),
        ("LAST", ["Audit", "orders", "bills"]),
    ],
)  # fmt: skip
async def test_topics_are_listed_in_each_order_and_by_pages(
    broker: StoreBroker, order: str, wanted: list[str]
) -> None:
    await three_topics(broker)
    assert await topic_names(broker, order=order) == wanted
    pages = [await topic_names(broker, order=order, skip=at, page_size=2) for at in (0, 2, 4)]
    assert pages == [wanted[:2], wanted[2:], []]


async def test_a_part_of_a_name_is_found_in_any_case_and_counted(broker: StoreBroker) -> None:
    await three_topics(broker)
    found = await topics(broker, name_part="AU", order="MESSAGES", with_stats=True)
    assert [one.name for one in found.topics] == ["Audit"]
    assert (found.stats[0].message_count, found.found_count, found.total_count) == (2, 1, 3)
    assert await topic_names(broker, name_part="nothing") == []
    first = await topics(broker, name_part="s", page_size=1)
    assert (first.topics[0].name, first.next_page_token, first.found_count) == ("bills", "bills", 2)
    assert await topic_names(broker, name_part="s", page_token="bills") == ["orders"]


async def test_sums_are_of_all_topics(broker: StoreBroker) -> None:
    await three_topics(broker)
    sums = (await topics(broker, name_part="bills", with_sums=True)).sums
    assert (sums.topic_count, sums.message_count, sums.stored_count) == (3, 6, 6)
    assert sums.in_per_s == pytest.approx(18.0)
    assert not (await topics(broker)).HasField("sums")


async def test_an_order_that_reads_the_log_is_of_few_topics(broker: StoreBroker) -> None:
    for number in range(MEASURED_MAX):
        broker.store.tables.topics.adopt(f"many-{number}", 1)
    for order in ("SIZE", "LAST"):
        with pytest.raises(UnsupportedFeature, match="give a part of their names"):
            await topics(broker, order=order)
        assert await topic_names(broker, order=order, name_part="orders") == ["orders"]
    assert len(await topic_names(broker, order="MESSAGES", skip=MEASURED_MAX - 1)) == 2


async def test_illegal_parts_of_lists_are_refused(broker: StoreBroker) -> None:
    for fields in ({"skip": -1}, {"page_size": 1_001}, {"order": 7}):
        with pytest.raises(IllegalNumber):
            await topics(broker, **fields)
    with pytest.raises(IllegalNumber):
        await groups(broker, order=3)
    for list_, order in ((topics, TOPICS.RATE), (groups, GROUPS.LAG)):
        with pytest.raises(IllegalPageToken):
            await list_(broker, order=order, page_token="a")


async def test_groups_are_listed_by_lag_and_members_with_sums(broker: StoreBroker) -> None:
    tables = broker.store.tables
    for number in range(5):
        await broker.talking.send("orders", str(number), queue_id=0)
    await broker.talking.settled()
    for name, at in (("a", 4), ("B", 1), ("c", 3)):
        await tables.groups.ensure(name)
        await tables.offsets.commit(name, "orders", 0, at)
    for name, client in (("c", "x"), ("c", "y"), ("a", "z")):
        broker.members.saw(name, "orders", client, "10.0.0.1:1", PUSH)
    assert await group_names(broker) == ["B", "a", "c"]
    assert await group_names(broker, order="LAG") == ["B", "c", "a"]
    assert await group_names(broker, order="MEMBERS", skip=1, page_size=1) == ["a"]
    found = await groups(broker, order="LAG", name_part="b", with_sums=True, with_stats=True)
    assert [(one.lag_messages, one.member_count) for one in found.stats] == [(4, 0)]
    assert (found.found_count, found.total_count) == (1, 3)
    sums = found.sums
    assert (sums.group_count, sums.lag_messages, sums.committed_sum) == (3, 7, 8)
    assert (sums.member_count, sums.consuming_count) == (3, 2)
