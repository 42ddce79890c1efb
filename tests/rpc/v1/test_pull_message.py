"""PullMessage without a transport: checks, defaults, both shapes, waiting and committing."""

import asyncio
import zlib
from typing import Any

import pytest
import zstandard

from pocketmq.format.body_codec import SHOWN_SIZE_MAX
from pocketmq.format.record import decode_record
from pocketmq.model.administration import GroupSettings
from pocketmq.model.errors import (
    BrokerError,
    IllegalBegin,
    IllegalFilter,
    IllegalGroup,
    IllegalNumber,
    IllegalTopic,
    OffsetOutOfRange,
    SystemTopic,
    TooManyRequests,
    TopicNotFound,
)
from pocketmq.model.message import FLAG_COMPRESSED
from pocketmq.model.reading import PullResult, PullStatus
from pocketmq.rpc.codec.stored_messages import MessageWriter
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.topic_access import check_client_reads, check_operator_reads
from pocketmq.rpc.v1.pull_message import (
    MAX_BYTES_MAX,
    PullMessage,
    encode,
    request_from_message,
)
from pocketmq.rpc.v1.stored_reply import proto_message
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import turns

MIB = 1 << 20


class Desk:
    """A store with topic `orders`, and the method for clients and for operators."""

    def __init__(self, broker: StoreBroker) -> None:
        self.broker, self.pull = broker, broker.pull
        for topic in ("SCHEDULE_TOPIC_XXXX", "%DLQ%g"):
            broker.store.tables.topics.adopt(topic, 1)
        self.clients, self.operators = (
            PullMessage(broker.store, broker.pull, check=check)
            for check in (check_client_reads, check_operator_reads)
        )

    async def ask(
        self, method: PullMessage | None = None, *, left_ms: int | None = None, **fields: Any
    ) -> pb.PullMessageResponse:
        request = pb.PullMessageRequest(**{"topic": "orders", **fields})
        answer = (method or self.clients)(request, FakeCall(time_left_ms=left_ms))
        raw = answer if isinstance(answer, bytes) else await answer
        return pb.PullMessageResponse.FromString(raw)


@pytest.fixture
def desk(broker: StoreBroker) -> Desk:
    return Desk(broker)


async def test_a_first_pull_of_a_group_begins_where_it_states(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", b"b")
    at_end = await desk.ask(group="g", begin="max", offset=1)
    assert (at_end.status, at_end.next_begin_offset) == (pb.OFFSET_OVERFLOW_ONE, 2)
    assert desk.broker.store.tables.offsets.find("g", "orders", 0) == 2
    await desk.broker.add("orders", b"c")
    again = await desk.ask(group="g", begin="min")
    assert [message.body for message in again.messages] == [b"c"]
    fresh = await desk.ask(group="other", begin="min")
    assert [message.body for message in fresh.messages] == [b"a", b"b", b"c"]


async def test_a_first_commit_of_a_pull_begins_at_the_end_of_the_other_queues(desk: Desk) -> None:
    tables = desk.broker.store.tables
    await tables.groups.create("g", GroupSettings(begin="max"))
    await desk.broker.add("orders", b"a", b"b")
    await desk.broker.add("orders", b"c", queue_id=1)
    await desk.ask(group="g", offset=1, commit_offset=1)
    assert [tables.offsets.find("g", "orders", queue_id) for queue_id in (0, 1)] == [1, 1]


async def test_a_group_of_pulls_begins_at_the_first_message_of_an_added_queue(desk: Desk) -> None:
    broker = desk.broker
    topics = broker.store.tables.topics
    await broker.add("orders", b"a")
    await topics.update("orders", read_queue_count=2, write_queue_count=2)
    await desk.ask(group="g", begin="max")
    assert broker.store.tables.offsets.find("g", "orders", 1) == 0
    await topics.update("orders", read_queue_count=3, write_queue_count=3)
    for queue_id in (1, 2):
        await broker.add("orders", b"b", queue_id=queue_id)
        found = await desk.ask(group="g", begin="max", queue_id=queue_id)
        assert [message.body for message in found.messages] == [b"b"]


async def test_a_pull_that_begins_needs_a_group_and_a_begin(desk: Desk) -> None:
    with pytest.raises(IllegalGroup):
        await desk.ask(begin="min")
    with pytest.raises(IllegalBegin):
        await desk.ask(group="g", begin="soon")
    assert desk.broker.store.tables.groups.names() == []


async def test_messages_come_in_order_with_where_to_go_on(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", b"b", b"c", TAGS="A")
    found = await desk.ask(offset=1)
    assert (found.status, found.next_begin_offset) == (pb.FOUND, 3)
    assert (found.min_offset, found.max_offset) == (0, 3)
    assert [(m.queue_offset, m.body, m.tag) for m in found.messages] == [
        (1, b"b", "A"),
        (2, b"c", "A"),
    ]
    assert found.records == b""


async def test_a_pull_reads_as_much_as_there_is_room_for(desk: Desk) -> None:
    await desk.broker.add("orders", *[bytes(3_000)] * 4)
    call = FakeCall(room=7_000)
    raw = desk.clients(pb.PullMessageRequest(topic="orders"), call)
    assert isinstance(raw, bytes)
    assert len(pb.PullMessageResponse.FromString(raw).messages) == 2
    assert call.rooms[0] == 7_000
    assert 6_000 < call.rooms[1] < 7_000


async def test_a_record_for_which_there_is_no_room_is_not_read(desk: Desk) -> None:
    await desk.broker.add("orders", bytes(3_000))
    request = pb.PullMessageRequest(topic="orders")
    refused, served = FakeCall(room=1_000, kept=2_000), FakeCall(room=1_000, kept=4_000)
    with pytest.raises(TooManyRequests):
        desk.clients(request, refused)
    assert refused.rooms == [1_000], "nothing was read"
    assert desk.clients(request, served)
    assert len(served.rooms) == 2


async def test_a_pull_that_waited_is_refused_what_there_is_no_room_for(desk: Desk) -> None:
    request = pb.PullMessageRequest(topic="orders", wait_ms=60_000)
    raw = desk.clients(request, FakeCall(room=1_000, kept=2_000))
    assert not isinstance(raw, bytes)
    waiting = asyncio.ensure_future(raw)
    await desk.broker.add("orders", bytes(3_000))
    with pytest.raises(TooManyRequests):
        await waiting


async def test_a_pull_that_waits_keeps_no_room(desk: Desk) -> None:
    call = FakeCall()
    raw = desk.clients(pb.PullMessageRequest(topic="orders", wait_ms=60_000), call)
    assert not isinstance(raw, bytes)
    waiting = asyncio.ensure_future(raw)
    await turns()
    assert (call.rooms[-1], waiting.done()) == (0, False)
    await desk.broker.add("orders", b"x")
    await waiting
    assert call.rooms[-1] > 0


async def test_records_come_as_they_were_stored(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", b"b")
    found = await desk.ask(shape=pb.RECORDS)
    assert found.records == b"".join(desk.broker.records())
    assert (found.status, found.next_begin_offset, len(found.messages)) == (pb.FOUND, 2, 0)


async def test_filtered_records_are_joined_too(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", TAGS="A")
    await desk.broker.add("orders", b"b", TAGS="B")
    await desk.broker.add("orders", b"c", TAGS="A")
    found = await desk.ask(shape=pb.RECORDS, filter=pb.Filter(expression="A"))
    first = decode_record(found.records)
    second = decode_record(found.records, first.store_size)
    assert (first.body, second.body) == (b"a", b"c")


def test_an_encoded_response_is_what_the_encoder_would_make() -> None:
    for size in (1, 127, 128, 300, 70_000, 5 * MIB):
        result = PullResult(PullStatus.FOUND, 3, 1, 2**40, [b"x" * size], 1)
        expected = pb.PullMessageResponse(
            status=pb.FOUND,
            next_begin_offset=3,
            min_offset=1,
            max_offset=2**40,
            records=b"x" * size,
        )
        assert encode(result, MessageWriter(), joined=True) == expected.SerializeToString()


async def test_encoded_messages_are_what_the_encoder_would_make(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b" * 300, TAGS="A")
    records = broker.records()
    result = PullResult(PullStatus.FOUND, 2, 0, 2, records, 2)
    expected = pb.PullMessageResponse(
        status=pb.FOUND,
        next_begin_offset=2,
        max_offset=2,
        messages=[proto_message(decode_record(record)) for record in records],
    )
    assert (
        pb.PullMessageResponse.FromString(encode(result, MessageWriter(), joined=False)) == expected
    )


@pytest.mark.parametrize("status", list(PullStatus))
def test_every_status_has_its_twin_in_the_proto(status: PullStatus) -> None:
    raw = encode(PullResult(status, 0, 0, 0, [], 0), MessageWriter(), joined=True)
    assert pb.PullMessageResponse.FromString(raw).status == status.value


@pytest.mark.parametrize("queue_id", [-1, 2, 2**31 - 1])
async def test_a_queue_that_is_not_there_is_a_status(desk: Desk, queue_id: int) -> None:
    found = await desk.ask(queue_id=queue_id, wait_ms=30_000)
    assert found == pb.PullMessageResponse(status=pb.NO_SUCH_QUEUE)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"topic": ""}, IllegalTopic),
        ({"topic": "../x"}, IllegalTopic),
        ({"topic": "unknown"}, TopicNotFound),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, SystemTopic),
        ({"topic": "%DLQ%g"}, SystemTopic),
        ({"topic": "%RETRY%g", "group": "other"}, SystemTopic),
        ({"group": "a b"}, IllegalGroup),
        ({"commit_offset": 0}, IllegalGroup),
        ({"group": "g", "commit_offset": -1}, IllegalNumber),
        ({"group": "g", "commit_offset": 1}, OffsetOutOfRange),
        ({"offset": -1}, IllegalNumber),
        ({"max_messages": -1}, IllegalNumber),
        ({"max_messages": 1025}, IllegalNumber),
        ({"max_bytes": -1}, IllegalNumber),
        ({"wait_ms": -1}, IllegalNumber),
        ({"shape": 2}, IllegalNumber),
        ({"filter": pb.Filter(kind=2)}, IllegalNumber),  # type: ignore[arg-type]
        ({"filter": pb.Filter(kind=pb.Filter.SQL, expression="a >")}, IllegalFilter),
        ({"filter": pb.Filter(expression="||")}, IllegalFilter),
    ],
)
async def test_bad_requests_are_refused(
    desk: Desk, fields: dict[str, Any], error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        await desk.ask(**fields)


@pytest.mark.parametrize("shape", [pb.MESSAGES, pb.RECORDS])
async def test_sql_chooses_by_properties(desk: Desk, shape: pb.PullShape) -> None:
    for number in range(4):
        await desk.broker.add("orders", b"%d" % number, price=str(10 * number), TAGS="A")
    wanted = pb.Filter(kind=pb.Filter.SQL, expression="price BETWEEN 10 AND 20 AND TAGS = 'A'")
    found = await desk.ask(filter=wanted, shape=shape)
    bodies = [message.body for message in found.messages]
    assert bodies == ([b"1", b"2"] if shape == pb.MESSAGES else [])
    assert bool(found.records) == (shape == pb.RECORDS)
    assert found.next_begin_offset == 4


async def test_operators_read_system_topics_and_groups_their_own(desk: Desk) -> None:
    await desk.broker.add("SCHEDULE_TOPIC_XXXX", b"a")
    await desk.broker.add("%DLQ%g", b"b")
    seen = await desk.ask(desk.operators, topic="SCHEDULE_TOPIC_XXXX")
    assert seen.messages[0].body == b"a"
    seen = await desk.ask(topic="%DLQ%g", group="g")
    assert seen.messages[0].body == b"b"


def test_numbers_that_are_not_given_have_defaults() -> None:
    request = request_from_message(pb.PullMessageRequest(topic="orders"), FakeCall())
    assert (request.range.max_messages, request.range.max_bytes, request.wait_ms) == (
        32,
        4 * MIB,
        0,
    )
    assert request.wanted.is_everything


@pytest.mark.parametrize(
    ("asked_ms", "left_ms", "wait_ms"),
    [
        (5_000, None, 5_000),
        (2**63 - 1, None, 30_000),
        (5_000, 2_000, 1_800),
        (60_000, 100_000, 30_000),
        (5_000, 100, 0),
        (0, None, 0),
    ],
)
def test_a_wait_ends_before_the_clients_deadline(
    asked_ms: int, left_ms: int | None, wait_ms: int
) -> None:
    message = pb.PullMessageRequest(topic="orders", wait_ms=asked_ms, max_bytes=2**31 - 1)
    request = request_from_message(message, FakeCall(time_left_ms=left_ms))
    assert request.wait_ms == wait_ms
    assert request.range.max_bytes == MAX_BYTES_MAX


async def test_a_wait_is_woken_by_an_arrival(desk: Desk) -> None:
    task = asyncio.create_task(desk.ask(wait_ms=30_000))
    await turns()
    assert desk.pull.waiter_count == 1
    await desk.broker.add("orders", b"a")
    assert (await task).messages[0].body == b"a"


async def test_a_wait_that_ends_is_an_answer(desk: Desk) -> None:
    found = await desk.ask(wait_ms=30_000, left_ms=201)
    assert (found.status, found.next_begin_offset) == (pb.NO_NEW_MESSAGE, 0)


async def test_committing_comes_before_pulling(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", b"b")
    found = await desk.ask(group="g", offset=1, commit_offset=1)
    assert [message.body for message in found.messages] == [b"b"]
    assert desk.broker.store.tables.offsets.find("g", "orders", 0) == 1
    task = asyncio.create_task(desk.ask(group="g", offset=2, commit_offset=2, wait_ms=30_000))
    await turns()
    assert desk.broker.store.tables.offsets.find("g", "orders", 0) == 2
    desk.pull.drain()
    assert (await task).status == pb.OFFSET_OVERFLOW_ONE


async def test_as_many_messages_as_fit_a_reply(desk: Desk) -> None:
    folded = zlib.compress(bytes(5 * MIB))
    await desk.broker.add("orders", *[folded] * 4, system_flag=FLAG_COMPRESSED)
    found = await desk.ask()
    assert (len(found.messages), found.next_begin_offset) == (3, 3)
    found = await desk.ask(offset=3)
    assert (len(found.messages), found.next_begin_offset) == (1, 4)


async def test_bodies_that_no_reply_holds_decompressed_block_no_reader(broker: StoreBroker) -> None:
    bomb = zstandard.compress(bytes(SHOWN_SIZE_MAX + 1))
    half = zstandard.compress(bytes(SHOWN_SIZE_MAX // 2))
    for body in (bomb, half, half, half):
        await broker.add("orders", body, system_flag=0x201)
    place, pages = 0, []
    while place < 4:
        request = pb.PullMessageRequest(topic="orders", queue_id=0, offset=place)
        answer = await broker.answer("PullMessage", request)
        place = answer.next_begin_offset
        pages.append([(len(one.body), one.body_codec) for one in answer.messages])
    shown = (SHOWN_SIZE_MAX // 2, "")
    assert pages == [[(len(bomb), "zstd")], [shown, shown], [shown]]
