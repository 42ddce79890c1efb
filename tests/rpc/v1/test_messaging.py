"""The methods of pocketmq.v1.Broker, called without a transport."""

from typing import Any

import pytest

from pocketmq.format.addresses import offset_message_id, text_from_host
from pocketmq.format.send_request import MESSAGES_MAX
from pocketmq.model.administration import GroupSettings
from pocketmq.model.errors import (
    BodyEmpty,
    BrokerError,
    IllegalGroup,
    IllegalKey,
    IllegalMessageId,
    IllegalNumber,
    IllegalPageToken,
    IllegalTopic,
    MessageNotFound,
    MixedKinds,
    NoMessages,
    OffsetOutOfRange,
    QueueOutOfRange,
    SystemTopic,
    TooManyMessages,
    TopicNotFound,
    TopicNotReadable,
)
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.v1.send_message import drafts_of
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import STORE_HOST

CALL = FakeCall(peer="ipv4:10.1.2.3:99")


def message(body: bytes = b"x", **fields: Any) -> pb.Message:
    return pb.Message(**{"topic": "orders", "body": body, **fields})


async def send(broker: StoreBroker, *messages: pb.Message, wait: int = 0) -> list[pb.SendResult]:
    request = pb.SendMessageRequest(messages=messages, wait=wait)  # type: ignore[arg-type]
    answer = await broker.messaging.send_message(drafts_of(request), CALL)
    return list(pb.SendMessageResponse.FromString(answer).results)


# --- SendMessage ---


async def test_results_come_in_the_order_of_the_messages(broker: StoreBroker) -> None:
    results = await send(
        broker, message(b"a", message_id="A", queue_id=1), message(b"b", message_id="B", queue_id=1)
    )
    assert [(r.message_id, r.queue_id, r.queue_offset) for r in results] == [
        ("A", 1, 0),
        ("B", 1, 1),
    ]
    for result in results:
        assert (result.topic, result.status) == ("orders", pb.SEND_OK)
        assert result.offset_message_id == offset_message_id(STORE_HOST, result.physical_offset)
        assert result.store_timestamp_ms == broker.clock.wall


async def test_the_peer_is_the_host_of_messages_that_name_none(broker: StoreBroker) -> None:
    await send(broker, message(queue_id=0), message(queue_id=0, born_host="[::1]:5"))
    stored = await broker.messages()
    assert [text_from_host(one.born_host) for one in stored] == ["10.1.2.3:99", "[::1]:5"]


@pytest.mark.parametrize("wait", [pb.WAIT_UNSPECIFIED, pb.DURABLE, pb.APPENDED])
async def test_waiting_is_what_is_stored(broker: StoreBroker, wait: int) -> None:
    await send(broker, message(), wait=wait)
    (stored,) = await broker.messages()
    assert stored.properties["WAIT"] == str(wait != pb.APPENDED).lower()


@pytest.mark.parametrize(
    ("messages", "wait", "error"),
    [
        ([], 0, NoMessages),
        ([message()] * (MESSAGES_MAX + 1), 0, TooManyMessages),
        ([message()], 3, IllegalNumber),
        ([message(), message(b"")], 0, BodyEmpty),
        ([message(), message(delay_level=1)], 0, MixedKinds),
        ([message(topic="SCHEDULE_TOPIC_XXXX")], 0, SystemTopic),
        ([message(topic="a.b")], 0, IllegalTopic),
        ([message(queue_id=2)], 0, QueueOutOfRange),
    ],
)
async def test_one_bad_message_refuses_all(
    broker: StoreBroker, messages: list[pb.Message], wait: int, error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        await send(broker, *messages, wait=wait)
    assert broker.store.appended == 0


# --- queries ---


async def query_by_key(broker: StoreBroker, **fields: Any) -> pb.QueryByKeyResponse:
    request = pb.QueryByKeyRequest(**{"topic": "orders", "key": "k", **fields})
    return await broker.messaging.query_messages.by_key(request, CALL)


async def query_by_id(
    broker: StoreBroker, message_id: str, topic: str = "orders"
) -> pb.StoredMessage:
    request = pb.QueryByIdRequest(topic=topic, id=message_id)
    return (await broker.messaging.query_messages.by_id(request, CALL)).message


async def test_keys_are_found_page_by_page(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b", b"c", KEYS="k")
    first = await query_by_key(broker, max=2)
    assert [m.body for m in first.messages] == [b"c", b"b"]
    assert not first.complete
    second = await query_by_key(broker, max=2, page_token=first.next_page_token)
    assert [m.body for m in second.messages] == [b"a"]
    assert (second.complete, second.next_page_token) == (True, "")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"key": ""}, IllegalKey),
        ({"max": 1025}, IllegalNumber),
        ({"begin_ms": -1}, IllegalNumber),
        ({"page_token": "nonsense"}, IllegalPageToken),
        ({"topic": "unknown"}, TopicNotFound),
        ({"topic": "%DLQ%g"}, SystemTopic),
    ],
)
async def test_bad_key_queries_are_refused(
    broker: StoreBroker, fields: dict[str, Any], error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        await query_by_key(broker, **fields)


async def test_ids_find_one_message(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", UNIQ_KEY="id")
    assert (await query_by_id(broker, "id")).body == b"a"
    assert (await query_by_id(broker, offset_message_id(STORE_HOST, 0))).message_id == "id"
    with pytest.raises(MessageNotFound):
        await query_by_id(broker, "other")
    with pytest.raises(IllegalMessageId):
        await query_by_id(broker, " ")
    with pytest.raises(SystemTopic):
        await query_by_id(broker, "id", "SCHEDULE_TOPIC_XXXX")


async def test_times_become_offsets(broker: StoreBroker) -> None:
    broker.clock.wall = 10
    await broker.add("orders", b"a", b"b")

    async def ask(**fields: Any) -> int:
        request = pb.QueryByTimeRequest(**{"topic": "orders", **fields})
        return (await broker.messaging.query_by_time(request, CALL)).queue_offset

    assert await ask(time_ms=10) == 0
    assert await ask(time_ms=11, bound=pb.LOWER) == 2
    assert await ask(time_ms=11, bound=pb.UPPER) == 1
    for fields, error in (
        ({"time_ms": -1}, IllegalNumber),
        ({"bound": 2}, IllegalNumber),
        ({"queue_id": 2}, QueueOutOfRange),
        ({"topic": "unknown"}, TopicNotFound),
    ):
        with pytest.raises(error):
            await ask(**fields)


async def test_offsets_of_a_queue(broker: StoreBroker) -> None:
    for broker.clock.wall in (10, 20):
        await broker.add("orders", b"a")

    async def ask(**fields: Any) -> pb.QueryOffsetsResponse:
        request = pb.QueryOffsetsRequest(**{"topic": "orders", **fields})
        return await broker.messaging.query_offsets(request, CALL)

    assert await ask() == pb.QueryOffsetsResponse(
        min_offset=0, max_offset=2, min_store_timestamp_ms=10, max_store_timestamp_ms=20
    )
    assert await ask(queue_id=1) == pb.QueryOffsetsResponse()
    for queue_id in (-1, 2):
        with pytest.raises(QueueOutOfRange):
            await ask(queue_id=queue_id)
    broker.store.tables.topics.adopt("%DLQ%g", 1)
    assert (await ask(topic="%DLQ%g")).max_offset == 0
    await broker.store.tables.topics.create("write_only", queue_count=1, permission=2)
    with pytest.raises(TopicNotReadable):
        await ask(topic="write_only")


# --- offsets of groups ---


async def commit(broker: StoreBroker, **fields: Any) -> None:
    request = pb.CommitOffsetRequest(**{"group": "g", "topic": "orders", **fields})
    assert await broker.messaging.commit_offset(request, CALL) == pb.CommitOffsetResponse()


def fetch(broker: StoreBroker, **fields: Any) -> pb.FetchOffsetResponse:
    request = pb.FetchOffsetRequest(**{"group": "g", "topic": "orders", **fields})
    return broker.messaging.fetch_offset(request, CALL)


async def test_an_offset_committed_is_fetched(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b")
    assert not fetch(broker).HasField("offset")
    await commit(broker, offset=0)
    assert fetch(broker).HasField("offset"), "0 is an offset too"
    await commit(broker, offset=2)
    assert fetch(broker).offset == 2
    assert not fetch(broker, group="other").HasField("offset")


async def test_a_first_commit_begins_at_the_end_of_the_other_queues(broker: StoreBroker) -> None:
    await broker.store.tables.groups.create("g", GroupSettings(begin="max"))
    await broker.store.tables.topics.update("orders", read_queue_count=3, write_queue_count=3)
    await broker.add("orders", b"a", b"b")
    await broker.add("orders", b"c", queue_id=1)
    await commit(broker, offset=1)
    find = broker.store.tables.offsets.find
    assert [find("g", "orders", queue_id) for queue_id in range(3)] == [1, 1, 0]
    await commit(broker, group="from_min", offset=1)
    assert find("from_min", "orders", 1) is None


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"offset": 3}, OffsetOutOfRange),
        ({"offset": -1}, IllegalNumber),
        ({"queue_id": 2}, QueueOutOfRange),
        ({"group": ""}, IllegalGroup),
        ({"topic": "unknown"}, TopicNotFound),
        ({"topic": "%RETRY%other"}, SystemTopic),
    ],
)
async def test_bad_commits_are_refused(
    broker: StoreBroker, fields: dict[str, Any], error: type[BrokerError]
) -> None:
    await broker.add("orders", b"a", b"b")
    with pytest.raises(error):
        await commit(broker, **fields)
    assert not broker.store.tables.offsets.topics_by_group()
    if "offset" not in fields:
        with pytest.raises(error):
            fetch(broker, **fields)


async def test_a_group_stands_in_its_own_retry_topic(broker: StoreBroker) -> None:
    broker.store.tables.topics.adopt("%RETRY%g", 1)
    await commit(broker, topic="%RETRY%g")
    assert fetch(broker, topic="%RETRY%g").offset == 0
