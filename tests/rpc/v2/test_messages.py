"""A message on its way from an official producer to an official consumer."""

import asyncio
import gzip
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from pocketmq.format.addresses import text_from_host
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.receive_message import poll_ms
from tests.kit.call import FakeCall
from tests.kit.official import MESSAGE_ID, OfficialDesk, message, name, receive, sent
from tests.kit.store_broker import store_broker
from tests.kit.store_language import STORE_HOST, turns, until
from tests.sim.clock import at


async def delivered(desk: OfficialDesk, request: pb.SendMessageRequest) -> list[pb.Message]:
    answer = await desk.ask("SendMessage", request)
    assert answer.status.code == pb.OK, answer.status.message
    await desk.broker.talking.settled()
    return await desk.received("g", request.messages[0].topic.name)


async def test_everything_a_client_says_of_a_message_comes_with_it(desk: OfficialDesk) -> None:
    request = sent("orders", b"hello", tag="A", keys=["k1", "k2"], trace_context="00-ab")
    request.messages[0].user_properties["color"] = "blue"
    (got,) = await delivered(desk, request)
    system = got.system_properties
    assert (got.topic.name, got.body, dict(got.user_properties)) == (
        "orders", b"hello", {"color": "blue"}
    )  # fmt: skip
    assert (system.tag, list(system.keys), system.message_id) == ("A", ["k1", "k2"], MESSAGE_ID)
    assert system.body_digest == pb.Digest(type=pb.MD5, checksum="5D41402ABC4B2A76B9719D911017C592")
    assert (system.body_encoding, system.message_type) == (pb.IDENTITY, pb.NORMAL)
    assert (system.born_timestamp.seconds, system.born_host) == (1_700_000_000, "client-host")
    assert system.store_timestamp.ToMilliseconds() == desk.broker.clock.wall
    assert system.store_host == text_from_host(STORE_HOST)
    assert (system.delivery_attempt, system.queue_offset) == (1, 0)
    assert system.trace_context == "00-ab"
    assert system.receipt_handle
    assert not system.HasField("message_group")


async def test_a_record_carries_what_a_real_proxy_adds(desk: OfficialDesk) -> None:
    await desk.ask("SendMessage", sent("orders", b"x", tag="A"))
    (stored,) = await desk.broker.messages()
    properties = stored.properties
    assert list(properties) == [
        "UNIQ_KEY", "TAGS", "__BORNHOST", "BORN_TIMESTAMP", "PGROUP", "RECONSUME_TIME", "CLUSTER",
        "MSG_REGION", "TRACE_ON",
    ]  # fmt: skip
    assert properties["BORN_TIMESTAMP"] == "1700000000000"
    assert (properties["PGROUP"], properties["RECONSUME_TIME"]) == ("orders", "0")
    assert stored.born_timestamp_ms == 1_700_000_000_000
    assert stored.born_host == desk.call().peer_host


async def test_a_message_that_says_next_to_nothing_is_complete_when_it_comes(
    desk: OfficialDesk,
) -> None:
    bare = pb.Message(topic=name("orders"), body=b"x")
    bare.system_properties.message_id = "ID"
    (got,) = await delivered(desk, pb.SendMessageRequest(messages=[bare]))
    system = got.system_properties
    assert system.body_encoding == pb.IDENTITY
    assert system.born_timestamp.ToMilliseconds() == desk.broker.clock.wall
    assert system.born_host == "10.0.0.7:4711"
    assert not system.HasField("tag")


async def test_a_packed_body_stays_packed(desk: OfficialDesk) -> None:
    packed = gzip.compress(b"hello" * 100)
    (got,) = await delivered(desk, sent("orders", packed, body_encoding=pb.GZIP))
    assert (got.body, got.system_properties.body_encoding) == (packed, pb.GZIP)
    checksum = md5(packed).hexdigest().upper()
    assert got.system_properties.body_digest.checksum == checksum
    assert (await desk.broker.messages())[0].body == b"hello" * 100


async def test_a_batch_is_stored_whole_or_not_at_all(desk: OfficialDesk) -> None:
    good, bad = message("orders", b"a"), message("orders", b"b", tag="A|B")
    request = pb.SendMessageRequest(messages=[good, bad])
    answer = await desk.ask("SendMessage", request)
    assert pb.Code.Name(answer.status.code) == "ILLEGAL_MESSAGE_TAG"
    assert not answer.entries
    assert not await desk.broker.messages()
    answer = await desk.ask("SendMessage", sent("orders", b"a", b"b"))
    assert [entry.offset for entry in answer.entries] == [0, 1]
    assert {entry.message_id for entry in answer.entries} == {MESSAGE_ID}
    assert {entry.transaction_id for entry in answer.entries} == {MESSAGE_ID}
    assert {entry.status.code for entry in answer.entries} == {pb.OK}


@pytest.mark.parametrize(
    ("keys", "stored"),
    [
        (["order 7"], ["order", "7"]),
        ([" a  b ", "c"], ["a", "b", "c"]),
        ([" "], None),
        (["a\t"], None),
    ],
)
async def test_a_key_with_spaces_is_several(
    desk: OfficialDesk, keys: list[str], stored: list[str] | None
) -> None:
    """As a real broker stores them, all keys of a message in one text with spaces between."""
    request = sent("orders", b"x", keys=keys)
    if stored is None:
        assert await desk.code("SendMessage", request) == "ILLEGAL_MESSAGE_KEY"
        return
    (got,) = await delivered(desk, request)
    assert list(got.system_properties.keys) == stored


async def test_a_property_without_a_value_is_not_there(desk: OfficialDesk) -> None:
    request = sent("orders", b"x")
    request.messages[0].user_properties.update({"color": "blue", "size": ""})
    (got,) = await delivered(desk, request)
    assert dict(got.user_properties) == {"color": "blue"}
    request.messages[0].user_properties["UNIQ_KEY"] = ""
    assert await desk.code("SendMessage", request) == "ILLEGAL_MESSAGE_PROPERTY_KEY"


@pytest.mark.parametrize(
    ("kind", "checksum", "is_right"),
    [
        (pb.MD5, "5d41402abc4b2a76b9719d911017c592", True),
        (pb.SHA1, "AAF4C61DDCC5E8A2DABEDE0F3B482CD9AEA9434D", True),
        (pb.CRC32, "3610A686", True),
        (pb.CRC32, "907060870", True),
        (pb.CRC32, "3610A687", False),
        (pb.MD5, "0" * 32, False),
        (pb.SHA1, "", False),
        (pb.DIGEST_TYPE_UNSPECIFIED, "x", True),
    ],
)
async def test_a_digest_is_that_of_the_body(
    desk: OfficialDesk, kind: pb.DigestType, checksum: str, is_right: bool
) -> None:
    digest = pb.Digest(type=kind, checksum=checksum)
    code = await desk.code("SendMessage", sent("orders", b"hello", body_digest=digest))
    assert code == ("OK" if is_right else "MESSAGE_CORRUPTED")


async def test_a_batch_has_bodies_of_one_encoding(desk: OfficialDesk) -> None:
    packed = message("orders", gzip.compress(b"b"), body_encoding=pb.GZIP)
    request = pb.SendMessageRequest(messages=[message("orders", b"a"), packed])
    answer = await desk.ask("SendMessage", request)
    assert pb.Code.Name(answer.status.code) == "MESSAGE_CORRUPTED"
    assert "body encodings" in answer.status.message
    assert not await desk.broker.messages()


@pytest.mark.parametrize(
    ("system", "code"),
    [
        ({"tag": "A" * 16_384}, "OK"),
        ({"tag": "A" * 16_385}, "MESSAGE_PROPERTIES_TOO_LARGE"),
        ({"tag": "A" * 16_380, "keys": ["k", "l", "\u00e9"]}, "OK"),
        ({"tag": "A" * 16_380, "keys": ["k", "l", "\u20ac"]}, "MESSAGE_PROPERTIES_TOO_LARGE"),
        ({"tag": ""}, "ILLEGAL_MESSAGE_TAG"),
        ({"message_group": ""}, "ILLEGAL_MESSAGE_GROUP"),
        ({"message_id": ""}, "ILLEGAL_MESSAGE_ID"),
        ({"lite_topic": "x"}, "UNSUPPORTED"),
        ({"priority": -1}, "BAD_REQUEST"),
        ({"orphaned_transaction_recovery_duration": Duration(seconds=3_600)}, "OK"),
        ({"orphaned_transaction_recovery_duration": Duration(seconds=-1)}, "BAD_REQUEST"),
        (
            {"orphaned_transaction_recovery_duration": Duration(seconds=3_600, nanos=1_000_000)},
            "BAD_REQUEST",
        ),
        (
            {"born_host": "a\x00", "born_timestamp": Timestamp(seconds=1)},
            "ILLEGAL_MESSAGE_PROPERTY_KEY",
        ),
        ({"trace_context": "a\x01"}, "ILLEGAL_MESSAGE_PROPERTY_KEY"),
        ({"trace_context": "a\x02"}, "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    ],
)
async def test_what_a_message_may_say_of_itself(
    desk: OfficialDesk, system: dict[str, Any], code: str
) -> None:
    assert await desk.code("SendMessage", sent("orders", b"x", **system)) == code


@pytest.mark.parametrize(("size", "is_right"), [(16_377, True), (16_378, False)])
async def test_a_users_properties_count_with_their_names(
    desk: OfficialDesk, size: int, is_right: bool
) -> None:
    request = sent("orders", b"x", tag="A", keys=["k"])
    request.messages[0].user_properties.update({"ab": "cd", "n": "x" * (size - 1), "e": ""})
    code = await desk.code("SendMessage", request)
    assert code == ("OK" if is_right else "MESSAGE_PROPERTIES_TOO_LARGE")


@pytest.mark.parametrize(
    ("seconds", "nanos", "stored"),
    [(90, 0, "90"), (1, 999_000_000, "1"), (0, 0, None)],
)
async def test_how_long_a_producer_is_not_asked_is_stored_in_seconds(
    desk: OfficialDesk, seconds: int, nanos: int, stored: str | None
) -> None:
    wait = Duration(seconds=seconds, nanos=nanos)
    await desk.ask("SendMessage", sent("orders", b"x", orphaned_transaction_recovery_duration=wait))
    (message,) = await desk.broker.messages()
    assert message.properties.get("CHECK_IMMUNITY_TIME_IN_SECONDS") == stored


async def test_a_birth_before_all_times_is_none(desk: OfficialDesk) -> None:
    request = sent("orders", b"x")
    request.messages[0].system_properties.born_timestamp.seconds = -5
    (got,) = await delivered(desk, request)
    assert got.system_properties.born_timestamp.ToMilliseconds() == desk.broker.clock.wall


async def test_a_request_has_1024_messages_at_most_and_one_at_least() -> None:
    async with store_broker(commit_log_file_size_bytes=1 << 22) as broker:
        desk = OfficialDesk(broker)
        requests = [sent("orders", *[b"x"] * count) for count in (0, 1_024, 1_025)]
        answers = [await desk.ask("SendMessage", request) for request in requests]
        codes = [pb.Code.Name(answer.status.code) for answer in answers]
        assert codes == ["MESSAGE_CORRUPTED", "OK", "PAYLOAD_TOO_LARGE"]
        assert "1024" in answers[-1].status.message


async def test_order_is_kept_by_message_group(desk: OfficialDesk) -> None:
    await desk.broker.store.tables.topics.create(
        "f", queue_count=1, attributes={"message.type": "FIFO"}
    )
    await desk.ask("SendMessage", sent("f", b"1", b"2", message_group="m"))
    await desk.broker.talking.settled()
    got = await desk.received("g", "f", batch_size=1)
    assert [one.body for one in got] == [b"1"]
    system = got[0].system_properties
    assert (system.message_type, system.message_group) == (pb.FIFO, "m")
    assert dict(got[0].user_properties) == {}
    assert not await desk.received("g", "f")


async def test_nothing_is_told_with_the_time_behind_it(desk: OfficialDesk) -> None:
    status, time = await desk.all("ReceiveMessage", receive("g", "orders"))
    assert pb.Code.Name(status.status.code) == "MESSAGE_NOT_FOUND"
    assert time.delivery_timestamp.ToMilliseconds() == desk.broker.clock.wall


@pytest.mark.parametrize(
    ("kind", "expression", "bodies"),
    [(pb.TAG, "A || C", [b"a"]), (pb.SQL, "n > 1", [b"b"]), (pb.TAG, "", [b"a", b"b"])],
)
async def test_only_what_is_wanted_comes(
    desk: OfficialDesk, kind: pb.FilterType, expression: str, bodies: list[bytes]
) -> None:
    await desk.broker.add("orders", b"a", TAGS="A", UNIQ_KEY="1", n="1")
    await desk.broker.add("orders", b"b", TAGS="B", UNIQ_KEY="2", n="2")
    wanted = pb.FilterExpression(type=kind, expression=expression)
    got = await desk.received("g", "orders", filter_expression=wanted)
    assert [one.body for one in got] == bodies


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"invisible_s": 0}, "ILLEGAL_INVISIBLE_TIME"),
        ({"invisible_s": 1}, "MESSAGE_NOT_FOUND"),
        ({"invisible_s": 12 * 3_600}, "MESSAGE_NOT_FOUND"),
        ({"invisible_s": 12 * 3_600 + 1}, "ILLEGAL_INVISIBLE_TIME"),
        ({"filter_expression": pb.FilterExpression(expression="A")}, "MESSAGE_NOT_FOUND"),
        (
            {"filter_expression": pb.FilterExpression(type=9, expression="A")},  # type: ignore[arg-type]
            "ILLEGAL_FILTER_EXPRESSION",
        ),
    ],
)
async def test_what_a_receive_may_ask_for(
    desk: OfficialDesk, fields: dict[str, Any], code: str
) -> None:
    await desk.broker.add("orders", b"", UNIQ_KEY="1", TAGS="B")
    await desk.received("g", "orders")
    assert await desk.code("ReceiveMessage", receive("g", "orders", **fields)) == code


async def test_a_refused_receive_makes_no_member(desk: OfficialDesk) -> None:
    """Neither by an illegal request, nor where the group cannot be created."""
    broker = desk.broker
    await broker.add("orders", b"x")
    broken = pb.FilterExpression(type=pb.SQL, expression="a >")
    assert await desk.code("ReceiveMessage", receive("g", "orders", filter_expression=broken))
    assert await desk.code("ReceiveMessage", receive("g", "orders", invisible_s=0))
    broker.auto_create_groups = False
    assert await desk.code("ReceiveMessage", receive("absent", "orders")) != "OK"
    assert not broker.members.of_group("g")
    assert not broker.members.of_group("absent")


@pytest.mark.parametrize(("asked", "count"), [(-1, 1), (0, 1), (2, 2), (32, 32), (33, 32)])
async def test_a_receive_gets_one_message_at_least_and_32_at_most(
    desk: OfficialDesk, asked: int, count: int
) -> None:
    await desk.broker.add("orders", *[b""] * 40, UNIQ_KEY="1")
    assert len(await desk.received("g", "orders", batch_size=asked)) == count


async def test_a_lease_that_renews_itself_is_of_a_minute_at_a_time(desk: OfficialDesk) -> None:
    await desk.broker.add("orders", b"x", UNIQ_KEY="1")
    (got,) = await desk.received("g", "orders", auto_renew=True, invisible_s=None)
    assert got.system_properties.receipt_handle.split()[2] == "60000"


async def test_who_receives_again_and_again_is_alive(desk: OfficialDesk) -> None:
    """Some clients do not beat as long as they receive."""
    broker = desk.broker
    await broker.add("orders", b"x", UNIQ_KEY="1")
    await desk.received("g", "orders", auto_renew=True, invisible_s=None)
    for _ in range(6):
        await broker.pass_time(50_000)
        assert not await desk.received("g", "orders")
    for _ in range(4):
        await broker.pass_time(50_000)
    assert len(await OfficialDesk(broker, "other").received("g", "orders")) == 1


@pytest.mark.parametrize("receives", [True, False])
async def test_of_clients_without_a_stream_who_receives_is_not_forgotten_first(
    desk: OfficialDesk, receives: bool
) -> None:
    sessions, client_id = desk.broker.sessions, desk.metadata["x-mq-client-id"]
    sessions.heard(client_id, pb.PUSH_CONSUMER)
    for number in range(19_999):
        sessions.heard(f"c{number}")
    if receives:
        await desk.received("g", "orders")
    sessions.heard("one more")
    assert sessions.is_push_consumer(client_id) is receives


async def test_an_answer_without_messages_gives_nothing_back(desk: OfficialDesk) -> None:
    call = desk.call()
    await desk.all("ReceiveMessage", receive("g", "orders"), call)
    assert not call.undone


async def test_what_comes_back_has_its_topic_and_another_attempt(desk: OfficialDesk) -> None:
    (first,) = await delivered(desk, sent("orders", b"x"))
    assert not await desk.received("g", "orders")
    await desk.broker.pass_time(10_001)
    (again,) = await desk.received("g", "orders")
    assert again.topic.name == "orders"
    assert again.system_properties.delivery_attempt == 2
    assert again.system_properties.message_id == first.system_properties.message_id


async def test_a_lost_answer_is_given_again_by_its_attempt(desk: OfficialDesk) -> None:
    (first,) = await delivered_by_attempt(desk, "1")
    (again,) = await desk.received("g", "orders", attempt_id="1", auto_renew=True)
    assert again.system_properties.receipt_handle == first.system_properties.receipt_handle
    assert again.system_properties.delivery_attempt == 1
    assert not await desk.received("g", "orders", attempt_id="2", auto_renew=True)


@pytest.mark.parametrize(("length", "is_kept"), [(255, True), (256, False)])
async def test_an_attempt_is_known_by_an_id_of_255_characters_at_most(
    desk: OfficialDesk, length: int, is_kept: bool
) -> None:
    attempt_id = "a" * length
    assert len(await delivered_by_attempt(desk, attempt_id)) == 1
    again = await desk.received("g", "orders", attempt_id=attempt_id, auto_renew=True)
    assert len(again) == (1 if is_kept else 0)


async def delivered_by_attempt(desk: OfficialDesk, attempt_id: str) -> list[pb.Message]:
    await desk.ask("SendMessage", sent("orders", b"x"))
    await desk.broker.talking.settled()
    return await desk.received("g", "orders", attempt_id=attempt_id, auto_renew=True)


async def test_what_does_not_leave_comes_back_soon(desk: OfficialDesk) -> None:
    await desk.broker.add("orders", b"x", UNIQ_KEY="1")
    call = desk.call()
    await desk.all("ReceiveMessage", receive("g", "orders", invisible_s=600), call)
    (undo,) = call.undone
    undo()
    await desk.broker.pass_time(1_001)
    assert len(await desk.received("g", "orders")) == 1


async def test_a_receive_counts_what_it_hands_out(desk: OfficialDesk) -> None:
    await desk.broker.add("orders", b"x", b"y", UNIQ_KEY="1")
    await desk.received("g", "orders")
    counted = desk.broker.pull.delivered.messages_out.values
    assert counted == {("orders", "g", "false", "false"): 2}
    await desk.broker.add("orders", b"z", UNIQ_KEY="1")
    await desk.broker.pass_time(10_001)
    await desk.received("g", "orders")
    assert counted == {
        ("orders", "g", "false", "false"): 3, ("orders", "g", "false", "true"): 2,
    }  # fmt: skip


async def test_records_go_64_kib_at_a_time(desk: OfficialDesk) -> None:
    """So that one who reads slowly keeps no more of them in memory."""
    await desk.broker.add("orders", b"", UNIQ_KEY="1")
    own_size = len(desk.broker.records()[0])
    body = bytes(65_536 - own_size)
    await desk.broker.add("orders", body, b"small", body[1:], b"small", b"last", UNIQ_KEY="1")
    method = desk.methods["ReceiveMessage"]
    sizes = []
    async for answers in method.handler(receive("g", "orders"), desk.call()):
        read = [pb.ReceiveMessageResponse.FromString(one) for one in answers]
        sizes.append([len(one.message.body) for one in read if one.HasField("message")])
    assert sizes == [[0, len(body)], [5, len(body) - 1], [5, 4]]


async def test_who_receives_is_a_member_of_the_group(desk: OfficialDesk) -> None:
    await desk.received("g", "orders")
    (member,) = desk.broker.members.of_group("g")
    assert (member.client_id, member.mode, member.topics) == ("host@1@2@x", "receive", ["orders"])
    (connections,) = desk.broker.members.stats
    assert connections.read() == {("g", "JAVA", "5.2.0", "pop", "grpc", "false"): 1}


@pytest.mark.parametrize(
    ("asked_s", "left_ms", "waits_ms"),
    [
        (5, 8_000, 5_000),
        (20, 8_000, 7_800),
        (None, 23_000, 20_000),
        (None, 3_000, 1_500),
        (None, None, 20_000),
        (60, None, 30_000),
        (5, 100, 0),
        (0, 3_000, 0),
    ],
)
def test_a_poll_waits_as_asked_and_ends_before_its_call(
    asked_s: int | None, left_ms: int | None, waits_ms: int
) -> None:
    fields: dict[str, Any] = {}
    if asked_s is not None:
        fields["long_polling_timeout"] = Duration(seconds=asked_s)
    request = pb.ReceiveMessageRequest(**fields)
    assert poll_ms(request, FakeCall(time_left_ms=left_ms)) == waits_ms


async def test_a_birth_beyond_all_times_is_one_that_every_client_can_read(
    desk: OfficialDesk,
) -> None:
    request = sent("orders", b"x")
    request.messages[0].system_properties.born_timestamp.seconds = 2**62
    (got,) = await delivered(desk, request)
    assert got.system_properties.born_timestamp.ToDatetime().year == 9999


@pytest.mark.parametrize("kind", [pb.NORMAL, pb.TRANSACTION])
async def test_what_is_not_on_disk_in_time_is_not_said_to_be_sent(
    tmp_path: Path, kind: pb.MessageType
) -> None:
    request = sent("orders", b"x", message_type=kind)
    async with store_broker(tmp_path / "s", flush="sync") as broker:
        topics = broker.store.tables.topics
        await topics.create("orders", queue_count=1, attributes={"message.type": "MIXED"})
        desk = OfficialDesk(broker)
        assert await desk.code("SendMessage", request) == "OK"
        appended = broker.store.appended
        with broker.talking.quick_disk.held():
            sending = asyncio.ensure_future(desk.ask("SendMessage", request))
            await until(lambda: broker.store.appended > appended)
            await turns()
            broker.clock.advance(broker.store.settings.sync_flush_timeout_ms + 1)
            broker.store.writing.durability.step(at(broker.clock.monotonic))
            answer = await sending
        (entry,) = answer.entries
        assert {answer.status.code, entry.status.code} == {pb.MASTER_PERSISTENCE_TIMEOUT}
        assert entry.message_id == MESSAGE_ID


@pytest.mark.parametrize(("seconds", "deliver_ms"), [(0, 1), (-5, 1), (5, 5_000)])
async def test_a_time_long_past_is_one_and_the_message_comes_at_once(
    desk: OfficialDesk, seconds: int, deliver_ms: int
) -> None:
    moment = Timestamp(seconds=seconds)
    attributes = {"message.type": "DELAY"}
    await desk.broker.store.tables.topics.create("t", queue_count=1, attributes=attributes)
    request = sent("t", b"x", message_type=pb.DELAY, delivery_timestamp=moment)
    assert await desk.code("SendMessage", request) == "OK"
    await desk.broker.talking.settled()
    found = {message.topic: message for message in await desk.broker.messages()}
    assert [one.properties.get("TIMER_DELIVER_MS") for one in found.values()] == [str(deliver_ms)]
