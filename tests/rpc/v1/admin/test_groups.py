"""Groups through Admin: made, changed, listed, described, removed."""

from typing import Any

import pytest

from pocketmq.model.errors import (
    BrokerError,
    GroupExists,
    GroupNotFound,
    IllegalGroup,
    IllegalNumber,
    IllegalPageToken,
    SystemGroup,
)
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.services.admin.members import PUSH
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker

CALL = FakeCall()
DEFAULTS = pb.GroupSettings(
    enabled=True,
    fifo=False,
    max_attempts=17,
    retry_queue_count=1,
    broadcast_enabled=True,
    begins_at_min=True,
    consume_timeout_minutes=15,
    begin="min",
)


async def create(broker: StoreBroker, name: str = "readers", **settings: Any) -> pb.Group:
    request = pb.CreateGroupRequest(name=name, settings=pb.GroupSettings(**settings))
    return (await broker.admin.create_group(request, CALL)).group


async def update(broker: StoreBroker, name: str = "readers", **settings: Any) -> pb.Group:
    request = pb.UpdateGroupRequest(name=name, settings=pb.GroupSettings(**settings))
    return (await broker.admin.update_group(request, CALL)).group


async def delete(broker: StoreBroker, **fields: Any) -> list[str]:
    request = pb.DeleteGroupRequest(**{"name": "readers", **fields})
    return list((await broker.admin.delete_group(request, CALL)).removed_topics)


async def test_a_group_is_made_with_rocketmqs_defaults(broker: StoreBroker) -> None:
    group = await create(broker)
    assert (group.name, group.settings, group.system) == ("readers", DEFAULTS, False)


async def test_attempts_count_the_first_delivery_too(broker: StoreBroker) -> None:
    await create(broker, fifo=True, max_attempts=3)
    config = broker.store.tables.groups.find("readers")
    assert config is not None
    assert (config.settings.max_attempts, config.settings.fifo) == (3, True)


async def test_the_same_group_again_is_no_error(broker: StoreBroker) -> None:
    assert await create(broker) == await create(broker, max_attempts=17)
    with pytest.raises(GroupExists, match="other settings: max_attempts is 17, not 16"):
        await create(broker, max_attempts=16)
    with pytest.raises(GroupExists, match="settings: fifo is False, not True, begin is min, not"):
        await create(broker, fifo=True, begin="max")


async def test_what_is_set_is_changed_and_the_rest_stays(broker: StoreBroker) -> None:
    await create(broker, max_attempts=3)
    group = await update(broker, enabled=False, retry_queue_count=2)
    assert (group.settings.enabled, group.settings.retry_queue_count) == (False, 2)
    assert group.settings.max_attempts == 3
    assert await update(broker) == group


@pytest.mark.parametrize(
    ("name", "settings", "error"),
    [
        ("", {}, IllegalGroup),
        ("two words", {}, IllegalGroup),
        ("CID_RMQ_SYS_TRANS", {}, SystemGroup),
        ("readers", {"max_attempts": 0}, IllegalNumber),
        ("readers", {"retry_queue_count": 0}, IllegalNumber),
        ("readers", {"consume_timeout_minutes": -1}, IllegalNumber),
    ],
)
async def test_groups_that_cannot_be(
    broker: StoreBroker, name: str, settings: dict[str, Any], error: type[BrokerError]
) -> None:
    await broker.store.tables.groups.ensure("readers")
    for verb in (create, update):
        with pytest.raises(error):
            await verb(broker, name, **settings)


async def test_a_group_nobody_made_is_not_found(broker: StoreBroker) -> None:
    with pytest.raises(GroupNotFound):
        await update(broker)
    with pytest.raises(GroupNotFound):
        await delete(broker)
    with pytest.raises(GroupNotFound):
        broker.admin.describe_group(pb.DescribeGroupRequest(name="readers"), CALL)


async def test_groups_are_listed_page_by_page(broker: StoreBroker) -> None:
    for name in ("c", "a", "b", "CID_RMQ_SYS_TRANS"):
        await broker.store.tables.groups.ensure(name)

    async def names(**fields: Any) -> tuple[list[str], str]:
        page = await broker.admin.list_groups(pb.ListGroupsRequest(**fields), CALL)
        return [group.name for group in page.groups], page.next_page_token

    assert await names() == (["a", "b", "c"], "")
    assert await names(page_size=2) == (["a", "b"], "b")
    assert await names(page_size=2, page_token="b") == (["c"], "")
    assert (await names(include_system=True))[0][0] == "CID_RMQ_SYS_TRANS"
    with pytest.raises(IllegalPageToken):
        await names(page_token="a b")


async def test_a_group_is_described_with_its_topics(broker: StoreBroker) -> None:
    await broker.store.tables.offsets.commit("readers", "orders", 0, 0)
    await broker.store.tables.offsets.commit("readers", "audit", 0, 0)
    found = broker.admin.describe_group(pb.DescribeGroupRequest(name="readers"), CALL)
    assert (found.group.name, list(found.topics)) == ("readers", ["audit", "orders"])


async def test_a_group_goes_with_its_offsets(broker: StoreBroker) -> None:
    broker.store.tables.topics.adopt("%RETRY%readers", 1)
    for group in ("readers", "others"):
        await broker.store.tables.offsets.commit(group, "orders", 0, 0)
    assert await delete(broker) == []
    assert broker.store.tables.groups.names() == ["others"]
    assert broker.store.tables.offsets.topics_by_group() == {"others": ["orders"]}
    assert "%RETRY%readers" in broker.store.tables.topics.names()


async def test_its_own_topics_go_when_asked_to(broker: StoreBroker) -> None:
    for topic in ("%RETRY%readers", "%DLQ%readers", "%DLQ%others"):
        broker.store.tables.topics.adopt(topic, 1)
    await broker.store.tables.groups.ensure("readers")
    assert await delete(broker, with_topics=True) == ["%RETRY%readers", "%DLQ%readers"]
    assert broker.store.tables.topics.names() == ["%DLQ%others", "orders"]


async def test_retry_topics_of_ended_leases_go_too_and_no_other_groups(broker: StoreBroker) -> None:
    tables = broker.store.tables
    for topic in ("%RETRY%readers_orders", "%RETRY%readers_b"):
        tables.topics.adopt(topic, 1)
        await tables.offsets.commit("readers", topic, 0, 0)
    await tables.groups.ensure("readers_b")  # Its retry topic is one that `readers` has pulled too.
    assert await delete(broker, with_topics=True) == ["%RETRY%readers_orders"]
    assert tables.topics.names() == ["%RETRY%readers_b", "orders"]


async def test_groups_of_the_broker_stay(broker: StoreBroker) -> None:
    await broker.store.tables.groups.ensure("CID_RMQ_SYS_TRANS")
    with pytest.raises(SystemGroup):
        await delete(broker, name="CID_RMQ_SYS_TRANS")


async def test_a_list_has_the_lag_and_the_members_of_each_group(broker: StoreBroker) -> None:
    tables = broker.store.tables
    for name in ("idle", "readers"):
        await tables.groups.ensure(name)
    for number in range(5):
        await broker.talking.send("orders", str(number), queue_id=number % 2)
    await broker.talking.settled()
    await tables.offsets.commit("readers", "orders", 0, 1)
    await tables.offsets.commit("readers", "orders", 1, 2)
    for client in ("a", "b"):
        broker.members.saw("readers", "orders", client, "10.0.0.1:1", PUSH)
    page = await broker.admin.list_groups(pb.ListGroupsRequest(with_stats=True), CALL)
    assert [group.name for group in page.groups] == ["idle", "readers"]
    assert [(one.lag_messages, one.member_count) for one in page.stats] == [(0, 0), (2, 2)]
    assert not (await broker.admin.list_groups(pb.ListGroupsRequest(), CALL)).stats
