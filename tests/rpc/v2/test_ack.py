"""Leases end by their handles: acknowledged, hidden for another time, given up."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import Settled, SettleStatus
from pocketmq.model.topic import PERMISSION_WRITE
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.services.consume.consume import Consume
from tests.kit.official import OfficialDesk, name

UNKNOWN = "0 1700000000000 60000 3 0 broker-a 1 17"


@pytest.fixture
async def handles(desk: OfficialDesk) -> list[str]:
    """Of two messages under leases."""
    await desk.broker.add("orders", b"a", b"b", UNIQ_KEY="1")
    got = await desk.received("g", "orders", invisible_s=60)
    return [one.system_properties.receipt_handle for one in got]


def ack(*handles: str, topic: str = "orders", group: str = "g") -> pb.AckMessageRequest:
    entries = [pb.AckMessageEntry(message_id="1", receipt_handle=handle) for handle in handles]
    return pb.AckMessageRequest(group=name(group), topic=name(topic), entries=entries)


def change(handle: str, ms: int, **fields: Any) -> pb.ChangeInvisibleDurationRequest:
    seconds, rest = divmod(ms, 1000)
    return pb.ChangeInvisibleDurationRequest(
        group=name("g"), topic=name("orders"), receipt_handle=handle,
        invisible_duration=Duration(seconds=seconds, nanos=rest * 1_000_000), **fields,
    )  # fmt: skip


def forward(handle: str) -> pb.ForwardMessageToDeadLetterQueueRequest:
    return pb.ForwardMessageToDeadLetterQueueRequest(
        group=name("g"), topic=name("orders"), receipt_handle=handle, message_id="1"
    )


async def test_what_is_acknowledged_does_not_come_back(
    desk: OfficialDesk, handles: list[str]
) -> None:
    answer = await desk.ask("AckMessage", ack(handles[0]))
    (entry,) = answer.entries
    assert (entry.message_id, entry.receipt_handle) == ("1", handles[0])
    assert entry.status.code == answer.status.code == pb.OK
    await desk.broker.pass_time(60_001)
    (back,) = await desk.received("g", "orders")
    assert back.body == b"b"


async def test_a_paused_group_acknowledges_messages_of_an_unreadable_topic(
    desk: OfficialDesk, handles: list[str]
) -> None:
    tables = desk.broker.store.tables
    await tables.groups.update("g", GroupSettings(enabled=False))
    await tables.topics.update("orders", permission=PERMISSION_WRITE)
    assert (await desk.ask("AckMessage", ack(*handles))).status.code == pb.OK


async def test_each_entry_has_a_status(desk: OfficialDesk, handles: list[str]) -> None:
    answer = await desk.ask("AckMessage", ack(handles[0], UNKNOWN))
    assert answer.status.code == pb.MULTIPLE_RESULTS
    codes = [pb.Code.Name(entry.status.code) for entry in answer.entries]
    assert codes == ["OK", "INVALID_RECEIPT_HANDLE"]


@pytest.mark.parametrize("handle", ["", "garbage", UNKNOWN])
async def test_a_handle_that_settles_nothing_is_told_so(desk: OfficialDesk, handle: str) -> None:
    assert await desk.code("AckMessage", ack(handle)) == "INVALID_RECEIPT_HANDLE"
    assert await desk.code("ChangeInvisibleDuration", change(handle, 5)) == "INVALID_RECEIPT_HANDLE"
    forwarded = await desk.code("ForwardMessageToDeadLetterQueue", forward(handle))
    assert forwarded == "INVALID_RECEIPT_HANDLE"


@pytest.mark.parametrize("which", ["old", "new"])
async def test_the_old_handle_and_the_new_one_settle(
    desk: OfficialDesk, handles: list[str], which: str
) -> None:
    answer = await desk.ask("ChangeInvisibleDuration", change(handles[0], 5_000))
    assert answer.receipt_handle not in ("", handles[0])
    handle = handles[0] if which == "old" else answer.receipt_handle
    assert await desk.code("AckMessage", ack(handle)) == "OK"
    await desk.broker.pass_time(5_001)
    assert not await desk.received("g", "orders")


@pytest.mark.parametrize(
    ("language", "client_type", "again_ms"),
    [
        ("JAVA", pb.SIMPLE_CONSUMER, 0),
        ("JAVA", pb.PUSH_CONSUMER, 1_000),
        ("HTTP", pb.SIMPLE_CONSUMER, 1_000),
    ],
)
async def test_a_push_consumer_gets_a_pause_it_did_not_ask_for(
    desk: OfficialDesk,
    handles: list[str],
    language: str,
    client_type: pb.ClientType,
    again_ms: int,
) -> None:
    client = OfficialDesk(desk.broker, language=language)
    beat = pb.HeartbeatRequest(client_type=client_type, group=name("g"))
    assert await client.code("Heartbeat", beat) == "OK"
    await desk.broker.pass_time(10)
    assert await client.code("ChangeInvisibleDuration", change(handles[0], 0)) == "OK"
    await desk.broker.pass_time(max(again_ms - 1, 0))
    assert len(await client.received("g", "orders")) == (0 if again_ms else 1)
    await desk.broker.pass_time(1)
    assert len(await client.received("g", "orders")) == (1 if again_ms else 0)


@pytest.mark.parametrize("ms", [-1_000, 12 * 3_600_000 + 1])
async def test_a_time_out_of_bounds_is_refused(
    desk: OfficialDesk, handles: list[str], ms: int
) -> None:
    code = await desk.code("ChangeInvisibleDuration", change(handles[0], ms))
    assert code == "ILLEGAL_INVISIBLE_TIME"


async def test_what_is_given_up_is_a_dead_letter_once(
    desk: OfficialDesk, handles: list[str]
) -> None:
    for _ in range(2):
        assert await desk.code("ForwardMessageToDeadLetterQueue", forward(handles[0])) == "OK"
    await desk.broker.talking.settled()
    (letter,) = await desk.received("g", "%DLQ%g")
    assert (letter.body, letter.topic.name) == (b"a", "%DLQ%g")
    dead = letter.system_properties.dead_letter_queue
    assert dead.topic == "orders"
    assert dead.message_id


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ack(), "BAD_REQUEST"),
        (ack("x", topic="missing"), "TOPIC_NOT_FOUND"),
        (ack("x", group="nobody"), "CONSUMER_GROUP_NOT_FOUND"),
        (ack("x", group="bad group!"), "ILLEGAL_CONSUMER_GROUP"),
        (ack("x", topic="%RETRY%other"), "ILLEGAL_TOPIC"),
    ],
)
async def test_an_ack_that_makes_no_sense_is_refused(
    desk: OfficialDesk, request_: pb.AckMessageRequest, code: str
) -> None:
    assert await desk.code("AckMessage", request_) == code


async def test_who_settles_is_alive(desk: OfficialDesk) -> None:
    """A consumer at work on many messages may neither receive nor beat for long."""
    broker, other = desk.broker, OfficialDesk(desk.broker, "other")
    await broker.add("orders", b"a", UNIQ_KEY="1")
    await desk.received("g", "orders", auto_renew=True, invisible_s=None)
    for _ in range(6):
        await broker.pass_time(50_000)
        assert await desk.code("AckMessage", ack(UNKNOWN)) == "INVALID_RECEIPT_HANDLE"
        assert not await other.received("g", "orders")
    for _ in range(4):
        await broker.pass_time(50_000)
    assert len(await other.received("g", "orders")) == 1


async def test_an_ack_has_1024_entries_at_most(desk: OfficialDesk) -> None:
    codes = [await desk.code("AckMessage", ack(*["x"] * count)) for count in (1_024, 1_025)]
    assert codes == ["INVALID_RECEIPT_HANDLE", "BAD_REQUEST"]


async def test_a_lease_is_changed_to_twelve_hours_at_most(
    desk: OfficialDesk, handles: list[str]
) -> None:
    answer = await desk.ask("ChangeInvisibleDuration", change(handles[0], 43_200_000))
    assert answer.status.code == pb.OK


async def test_of_what_was_given_up_the_last_ten_thousand_are_remembered(
    desk: OfficialDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def forwarded(_: Consume, group: str, topic: str, handles: list[str]) -> list[Settled]:
        asked.extend(handles)
        return [Settled(SettleStatus.OK, handle) for handle in handles]

    monkeypatch.setattr(Consume, "forward_to_dead_letters", forwarded)
    call, handler = desk.call(), desk.methods["ForwardMessageToDeadLetterQueue"].handler
    for number in range(10_001):
        await handler(forward(str(number)), call)
    assert len(asked) == 10_001
    await handler(forward("1"), call)
    assert len(asked) == 10_001, "it is known"
    await handler(forward("0"), call)
    assert asked[10_001:] == ["0"], "it was forgotten"


async def test_a_consumer_that_suspends_a_message_has_it_again_at_the_same_attempt(
    desk: OfficialDesk, handles: list[str]
) -> None:
    answer = await desk.ask("ChangeInvisibleDuration", change(handles[0], 10_000, suspend=True))
    assert answer.status.code == pb.OK
    await desk.ask("ChangeInvisibleDuration", change(handles[1], 10_000))
    await desk.broker.pass_time(11_000)
    await desk.broker.pass_time(1_000)
    back = await desk.received("g", "orders")
    found = {one.body: one.system_properties.delivery_attempt for one in back}
    assert found == {b"a": 1, b"b": 2}
