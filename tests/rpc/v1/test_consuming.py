"""Receiving and settling as a client sees it, by bytes; what the service does: services/consume."""

import asyncio
from typing import Any

import pytest
import zstandard

from pocketmq.format.body_codec import SHOWN_SIZE_MAX
from pocketmq.model.administration import GroupSettings
from pocketmq.model.errors import (
    BrokerError,
    GroupDisabled,
    GroupNotFound,
    IllegalBegin,
    IllegalFilter,
    IllegalGroup,
    IllegalNumber,
    SystemTopic,
    TopicNotFound,
    TopicNotReadable,
)
from pocketmq.model.topic import PERMISSION_WRITE, TYPE_ATTRIBUTE
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import MalformedRequest
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker

SETTLED, INVALID = pb.SETTLED, pb.INVALID_RECEIPT_HANDLE


@pytest.fixture(autouse=True)
async def group(broker: StoreBroker) -> None:
    """Group g is there."""
    await broker.store.tables.groups.ensure("g")


async def receive(broker: StoreBroker, **fields: Any) -> pb.ReceiveResponse:
    request = pb.ReceiveRequest(**{"group": "g", "topic": "orders", **fields})
    answer: pb.ReceiveResponse = await broker.answer("Receive", request)
    return answer


async def settled(broker: StoreBroker, method: str, **fields: Any) -> list[tuple[int, str]]:
    kind = broker.methods[method].request
    answer = await broker.answer(method, kind(**{"group": "g", "topic": "orders", **fields}))
    return [(row.status, row.receipt_handle) for row in answer.results]


def bodies(answer: pb.ReceiveResponse) -> list[bytes]:
    return [message.body for message in answer.messages]


async def test_messages_come_with_what_settles_them(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b", TAGS="A")
    await broker.add("orders", b"c", queue_id=1, TAGS="B")
    answer = await receive(broker, invisible_ms=60_000)
    assert sorted(bodies(answer)) == [b"a", b"b", b"c"]
    assert list(answer.attempts) == [1, 1, 1]
    assert len(set(answer.receipt_handles)) == 3
    assert answer.invisible_until_ms == answer.popped_at_ms + 60_000
    assert answer.popped_at_ms == broker.clock.wall
    assert (await receive(broker)).messages == []


async def test_a_first_receive_begins_where_it_states(broker: StoreBroker) -> None:
    await broker.add("orders", b"a")
    assert bodies(await receive(broker, begin="max")) == []
    await broker.add("orders", b"b")
    assert bodies(await receive(broker, begin="min")) == [b"b"]
    with pytest.raises(IllegalBegin, match="cannot begin at 'soon'"):
        await receive(broker, begin="soon")


async def test_numbers_left_out_have_defaults(broker: StoreBroker) -> None:
    await broker.add("orders", *[b"%d" % n for n in range(40)])
    answer = await receive(broker)
    assert len(answer.messages) == 32
    assert answer.invisible_until_ms - answer.popped_at_ms == 30_000
    assert len((await receive(broker, max_messages=3)).messages) == 3


async def test_only_what_is_wanted_comes(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", TAGS="A", price="5")
    await broker.add("orders", b"b", TAGS="B", price="9")
    sql = pb.Filter(kind=pb.Filter.SQL, expression="price > 7")
    assert bodies(await receive(broker, filter=sql)) == [b"b"]
    assert bodies(await receive(broker, filter=pb.Filter(expression="A"))) == []


@pytest.mark.parametrize("way", ["leased", "ordered", "broadcast"])
async def test_a_receive_reads_as_much_as_there_is_room_for(broker: StoreBroker, way: str) -> None:
    if way == "ordered":
        await broker.store.tables.groups.update("g", GroupSettings(fifo=True))
    fields: dict[str, Any] = {"client_id": "c", "broadcast": True} if way == "broadcast" else {}
    await broker.add("orders", *[bytes(3_000)] * 4)
    call = FakeCall(room=7_000)
    request = pb.ReceiveRequest(group="g", topic="orders", **fields)
    raw = broker.messaging.consuming.receive(request, call)
    answer = pb.ReceiveResponse.FromString(raw if isinstance(raw, bytes) else await raw)
    assert len(answer.messages) == 2
    assert call.rooms[0] == 7_000
    assert 6_000 < call.rooms[-1] < 7_000


async def test_higher_priorities_come_first(broker: StoreBroker) -> None:
    kind = {TYPE_ATTRIBUTE: "PRIORITY"}
    await broker.store.tables.topics.create("ranked", queue_count=3, attributes=kind)
    for priority in (0, 2, 1, 9, 0, 1):
        message = pb.Message(topic="ranked", body=b"%d" % priority, priority=priority)
        await broker.answer("SendMessage", pb.SendMessageRequest(messages=[message]))
    await broker.talking.settled()
    found = []
    for _ in range(6):
        request = pb.ReceiveRequest(group="g", topic="ranked", max_messages=1)
        found += (await broker.answer("Receive", request)).messages
    assert bodies(pb.ReceiveResponse(messages=found)) == [b"2", b"9", b"1", b"1", b"0", b"0"]


async def test_handles_are_settled_one_by_one(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b")
    handles = list((await receive(broker)).receipt_handles)
    done = await settled(broker, "Ack", receipt_handles=[*handles, "nonsense"])
    assert done == [(SETTLED, ""), (SETTLED, ""), (INVALID, "")]
    assert await settled(broker, "Ack", receipt_handles=handles) == [(INVALID, "")] * 2


async def test_a_change_of_time_gives_new_handles(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b")
    first, second = (await receive(broker)).receipt_handles
    entries = [
        {"receipt_handle": first, "invisible_ms": 90_000},
        {"receipt_handle": second, "invisible_ms": 13 * 3_600_000},
        {"receipt_handle": "x"},
    ]
    changed, late, unknown = await settled(broker, "ChangeInvisible", entries=entries)
    assert changed[0] == SETTLED
    assert changed[1] not in ("", first)
    assert (late, unknown) == ((pb.ILLEGAL_INVISIBLE_TIME, ""), (INVALID, ""))
    assert await settled(broker, "Ack", receipt_handles=[changed[1]]) == [(SETTLED, "")]


async def test_messages_are_given_up_and_sent_back(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b")
    first, second = (await receive(broker)).receipt_handles
    given_up = await settled(broker, "ForwardToDeadLetters", receipt_handles=[first])
    assert given_up == [(SETTLED, "")]
    back = await settled(broker, "SendBack", entries=[{"receipt_handle": second, "delay_level": 2}])
    assert back == [(SETTLED, "")]
    await broker.pass_time(0)
    assert broker.store.reading.queue_range("%DLQ%g", 0) == (0, 1)
    assert broker.store.reading.queue_range("SCHEDULE_TOPIC_XXXX", 1) == (0, 1)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group": ""}, IllegalGroup),
        ({"group": "nobody"}, GroupNotFound),
        ({"topic": "missing"}, TopicNotFound),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, SystemTopic),
        ({"topic": "%RETRY%others"}, SystemTopic),
        ({"max_messages": 33}, IllegalNumber),
        ({"max_messages": -1}, IllegalNumber),
        ({"invisible_ms": 999}, IllegalNumber),
        ({"invisible_ms": 43_200_001}, IllegalNumber),
        ({"wait_ms": -1}, IllegalNumber),
        ({"filter": pb.Filter(expression="*||a")}, IllegalFilter),
        ({"client_id": "x" * 256}, MalformedRequest),
        ({"client_id": "a\nb"}, MalformedRequest),
        ({"attempt_id": "a"}, MalformedRequest),
        ({"auto_renew": True}, MalformedRequest),
    ],
)
async def test_a_receive_that_asks_for_too_much_is_refused(
    broker: StoreBroker, fields: dict[str, Any], error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        await receive(broker, **fields)


@pytest.mark.parametrize(
    ("method", "most"),
    [("Ack", 1_024), ("ForwardToDeadLetters", 32), ("ChangeInvisible", 1_024), ("SendBack", 32)],
)
async def test_settling_has_limits(broker: StoreBroker, method: str, most: int) -> None:
    field = "entries" if method in ("ChangeInvisible", "SendBack") else "receipt_handles"

    def some(count: int) -> dict[str, Any]:
        handles: list[Any] = [f"x{n}" for n in range(count)]
        if field == "entries":
            handles = [{"receipt_handle": one} for one in handles]
        return {field: handles}

    assert await settled(broker, method, **some(most)) == [(INVALID, "")] * most
    for fields, error in (
        (some(0), IllegalNumber),
        (some(most + 1), IllegalNumber),
        ({**some(1), "group": "nobody"}, GroupNotFound),
        ({**some(1), "topic": "missing"}, TopicNotFound),
    ):
        with pytest.raises(error):
            await settled(broker, method, **fields)


async def test_a_group_that_is_off_receives_nothing(broker: StoreBroker) -> None:
    await broker.store.tables.groups.update("g", GroupSettings(enabled=False))
    with pytest.raises(GroupDisabled):
        await receive(broker)


async def test_messages_of_a_topic_that_became_unreadable_are_settled(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b")
    handles = (await receive(broker)).receipt_handles
    await broker.store.tables.topics.update("orders", permission=PERMISSION_WRITE)
    found = await settled(broker, "Ack", receipt_handles=handles[:1])
    found += await settled(broker, "ForwardToDeadLetters", receipt_handles=handles[1:])
    assert [status for status, _ in found] == [pb.SETTLED, pb.SETTLED]
    with pytest.raises(TopicNotReadable):
        await receive(broker)


async def test_who_receives_is_known(broker: StoreBroker) -> None:
    await receive(broker, client_id="worker-1")
    await broker.answer("PullMessage", pb.PullMessageRequest(group="g", topic="orders"))
    found = [(member.client_id, member.mode) for member in broker.members.of_group("g")]
    assert sorted(found) == [("", "pull"), ("worker-1", "receive")]


async def test_what_is_delivered_again_is_counted_apart(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b")
    handles = (await receive(broker)).receipt_handles
    entries = [{"receipt_handle": handles[0]}]
    await settled(broker, "ChangeInvisible", entries=entries)
    await broker.pass_time(1)
    await broker.add("orders", b"c")
    assert sorted((await receive(broker)).attempts) == [1, 2]
    values = broker.pull.delivered.messages_out.values
    assert values == {("orders", "g", "false", "false"): 3, ("orders", "g", "false", "true"): 1}


async def test_an_answer_that_does_not_leave_gives_its_messages_back(broker: StoreBroker) -> None:
    await broker.add("orders", b"a")
    call = FakeCall()
    request = pb.ReceiveRequest(group="g", topic="orders", invisible_ms=3_600_000)
    found = broker.messaging.consuming.receive(request, call)
    assert not isinstance(found, bytes)
    await found
    (undo,) = call.undone
    undo()
    await broker.pass_time(1_000)
    assert list((await receive(broker)).attempts) == [2]


@pytest.mark.parametrize("is_handed_over", [False, True])
@pytest.mark.parametrize("has_looked", [False, True])
async def test_a_call_that_ends_as_its_messages_come_gives_them_back(
    broker: StoreBroker, is_handed_over: bool, has_looked: bool
) -> None:
    if has_looked:
        await broker.add("orders", b"x", TAGS="B")
    wanted = pb.Filter(expression="A")
    request = pb.ReceiveRequest(group="g", topic="orders", wait_ms=20_000, filter=wanted)
    found = broker.messaging.consuming.receive(request, FakeCall())
    assert not isinstance(found, bytes)
    task: Any = asyncio.ensure_future(found)
    for _ in range(3):
        await asyncio.sleep(0)
    assert broker.consume.waiter_count == 1
    parked = task._fut_waiter
    add = asyncio.ensure_future(broker.add("orders", b"a", TAGS="A"))
    while not (parked.done() if is_handed_over else broker.consume.in_flight()):  # noqa: ASYNC110
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task, add])
    assert task.cancelled()
    await broker.pass_time(0)
    await broker.pass_time(1_000)
    assert bodies(await receive(broker)) == [b"a"]


async def test_what_does_not_fit_an_answer_comes_back_soon(
    broker: StoreBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.rpc.v1.consuming.REPLY_SIZE_MAX", 1_500)
    await broker.add("orders", *[b"x" * 1_000] * 3)
    answer = await receive(broker)
    assert (len(answer.messages), len(answer.receipt_handles), len(answer.attempts)) == (1, 1, 1)
    await broker.pass_time(0)
    await broker.pass_time(1_000)
    assert list((await receive(broker)).attempts) == [2]


BOMB = zstandard.compress(bytes(SHOWN_SIZE_MAX + 1))
LARGE = zstandard.compress(bytes(SHOWN_SIZE_MAX // 2))


async def test_a_body_too_large_for_any_answer_is_given_as_it_is_stored(
    broker: StoreBroker,
) -> None:
    await broker.add("orders", BOMB, system_flag=0x201)
    await broker.add("orders", b"behind it")
    answer = await receive(broker)
    found = [(message.body, message.body_codec) for message in answer.messages]
    assert found == [(BOMB, "zstd"), (b"behind it", "")]


async def test_what_one_answer_does_not_hold_decompressed_comes_with_the_next(
    broker: StoreBroker,
) -> None:
    for body in (LARGE, LARGE, BOMB, LARGE):
        await broker.add("orders", body, system_flag=0x201)
    pages: list[list[int]] = []
    while sum(len(page) for page in pages) < 4:
        answer = await receive(broker)
        if answer.receipt_handles:
            handles = list(answer.receipt_handles)
            result = await settled(broker, "Ack", receipt_handles=handles)
            assert result == [(SETTLED, "")] * len(handles)
            pages.append([len(message.body) for message in answer.messages])
        await broker.pass_time(1_100)
    half = SHOWN_SIZE_MAX // 2
    assert sorted(sorted(page) for page in pages) == [[len(BOMB)], [half], [half, half]]
