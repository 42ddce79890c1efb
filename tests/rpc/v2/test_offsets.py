"""Queues by their numbers, for programs of a user's own."""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from pocketmq.model.administration import GroupSettings
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.services.admin.purge import purge_topic
from tests.kit.official import OfficialDesk, name


def queue(queue_id: int = 0, topic: str = "orders") -> pb.MessageQueue:
    return pb.MessageQueue(topic=name(topic), id=queue_id)


async def pulled(desk: OfficialDesk, **fields: Any) -> tuple[str, list[bytes], int]:
    given = {"group": name("g"), "message_queue": queue(), "batch_size": 32, **fields}
    first, *messages, last = await desk.all("PullMessage", pb.PullMessageRequest(**given))
    bodies = [answer.message.body for answer in messages]
    return pb.Code.Name(first.status.code), bodies, last.next_offset


async def test_a_queue_is_read_on_from_where_a_pull_ended(desk: OfficialDesk) -> None:
    await desk.broker.add("orders", b"a", b"b", b"c", TAGS="A", UNIQ_KEY="1")
    assert await pulled(desk, batch_size=2) == ("OK", [b"a", b"b"], 2)
    assert await pulled(desk, offset=2) == ("OK", [b"c"], 3)
    assert await pulled(desk, offset=3) == ("MESSAGE_NOT_FOUND", [], 3)
    assert await pulled(desk, offset=9) == ("ILLEGAL_OFFSET", [], 3)
    unwanted = pb.FilterExpression(type=pb.TAG, expression="B")
    assert await pulled(desk, filter_expression=unwanted) == ("MESSAGE_NOT_FOUND", [], 3)


@pytest.mark.parametrize(
    ("asked", "count"), [(-1, 1), (0, 1), (1, 1), (1_024, 1_024), (1_025, 1_024)]
)
async def test_a_pull_gets_one_message_at_least_and_1024_at_most(
    desk: OfficialDesk, asked: int, count: int
) -> None:
    await desk.broker.add("orders", *[b""] * 1_030, UNIQ_KEY="1")
    _, bodies, following = await pulled(desk, batch_size=asked)
    assert (len(bodies), following) == (count, count)


async def test_a_pull_takes_4_mib_of_records_at_most(desk: OfficialDesk) -> None:
    await desk.broker.add("orders", b"a", UNIQ_KEY="1")
    call = desk.call()
    request = pb.PullMessageRequest(group=name("g"), message_queue=queue(), batch_size=32)
    await desk.all("PullMessage", request, call)
    assert call.rooms[0] == 4_194_304


async def test_a_negative_place_is_none(desk: OfficialDesk) -> None:
    request = pb.PullMessageRequest(group=name("g"), message_queue=queue(), offset=-1)
    assert await desk.code("PullMessage", request) == "BAD_REQUEST"
    update = pb.UpdateOffsetRequest(group=name("g"), message_queue=queue(), offset=-1)
    assert await desk.code("UpdateOffset", update) == "BAD_REQUEST"


async def test_purged_messages_are_below_the_queues_minimum(desk: OfficialDesk) -> None:
    await desk.broker.add("orders", b"a", b"b", UNIQ_KEY="1")
    await purge_topic(desk.broker.store, "orders")
    await desk.broker.add("orders", b"c", UNIQ_KEY="2")
    assert await pulled(desk, offset=1) == ("ILLEGAL_OFFSET", [], 2)
    assert await pulled(desk, offset=2) == ("OK", [b"c"], 3)
    least = pb.QueryOffsetRequest(
        message_queue=queue(), query_offset_policy=pb.QueryOffsetPolicy.BEGINNING
    )
    assert (await desk.ask("QueryOffset", least)).offset == 2


async def test_ends_of_a_queue_and_times_are_told(desk: OfficialDesk) -> None:
    await desk.broker.add("orders", b"a")
    desk.broker.clock.advance(5_000)
    later_ms = desk.broker.clock.wall
    await desk.broker.add("orders", b"b")

    async def asked(policy: pb.QueryOffsetPolicy, **fields: Any) -> int:
        request = pb.QueryOffsetRequest(message_queue=queue(), query_offset_policy=policy, **fields)
        return int((await desk.ask("QueryOffset", request)).offset)

    assert await asked(pb.BEGINNING) == 0
    assert await asked(pb.END) == 2
    moment = Timestamp(seconds=later_ms // 1000)
    assert await asked(pb.TIMESTAMP, timestamp=moment) == 1
    assert await asked(pb.TIMESTAMP, timestamp=Timestamp(seconds=-1)) == 0


async def test_where_a_group_stands_is_remembered(desk: OfficialDesk) -> None:
    await desk.broker.add("orders", b"a", b"b")
    where = pb.GetOffsetRequest(group=name("g"), message_queue=queue())
    assert await desk.code("GetOffset", where) == "OFFSET_NOT_FOUND"
    update = pb.UpdateOffsetRequest(group=name("g"), message_queue=queue(), offset=1)
    assert await desk.code("UpdateOffset", update) == "OK"
    assert (await desk.ask("GetOffset", where)).offset == 1
    update.offset = 3
    assert await desk.code("UpdateOffset", update) == "ILLEGAL_OFFSET"


async def test_a_first_update_begins_at_the_end_of_the_other_queues(desk: OfficialDesk) -> None:
    tables = desk.broker.store.tables
    await tables.groups.update("g", GroupSettings(begin="max"))
    await desk.broker.add("orders", b"a", b"b")
    await desk.broker.add("orders", b"c", queue_id=1)
    update = pb.UpdateOffsetRequest(group=name("g"), message_queue=queue(), offset=1)
    assert await desk.code("UpdateOffset", update) == "OK"
    assert [tables.offsets.find("g", "orders", queue_id) for queue_id in (0, 1)] == [1, 1]


@pytest.mark.parametrize(
    ("where", "code"),
    [
        (queue(7), "BAD_REQUEST"),
        (queue(-1), "BAD_REQUEST"),
        (queue(topic="missing"), "TOPIC_NOT_FOUND"),
        (queue(topic="SCHEDULE_TOPIC_XXXX"), "ILLEGAL_TOPIC"),
    ],
)
async def test_a_queue_that_is_none_is_refused(
    desk: OfficialDesk, where: pb.MessageQueue, code: str
) -> None:
    group = name("g")
    assert (
        await desk.code("GetOffset", pb.GetOffsetRequest(group=group, message_queue=where)) == code
    )
    assert await desk.code("QueryOffset", pb.QueryOffsetRequest(message_queue=where)) == code
    pull = pb.PullMessageRequest(group=group, message_queue=where)
    assert await desk.code("PullMessage", pull) == code


async def test_lite_topics_are_not_served(desk: OfficialDesk) -> None:
    request = pb.SyncLiteSubscriptionRequest(topic=name("orders"), group=name("g"))
    assert await desk.code("SyncLiteSubscription", request) == "UNSUPPORTED"
