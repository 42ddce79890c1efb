"""Requests of very many tiny parts are refused before they are parsed; all others are parsed."""

from time import thread_time
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.addresses import host_from_text
from pocketmq.format.send_request import FIELDS_MAX, MESSAGES_MAX
from pocketmq.model.errors import (
    BrokerError,
    IllegalMessageGroup,
    IllegalNumber,
    IllegalProperty,
    IllegalTag,
    PropertiesTooLarge,
    TooManyMessages,
    TooManyProperties,
)
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import SMALL_REQUEST_MAX, MalformedRequest
from pocketmq.rpc.v1.send_message import (
    KEY_COUNT_MAX,
    drafts_of,
    parse_send_request,
)
from pocketmq.services.produce.drafts import ABSENT_QUEUE, AT_ONCE, PEER, DeliveryRequest, Drafts

TRIES = 5
"""What processor time it takes is the least that it ever took."""


def request(count: int, **fields: object) -> bytes:
    message = pb.Message(topic="orders", body=bytes(1_000), **fields)  # type: ignore[arg-type]
    return pb.SendMessageRequest(messages=[message] * count).SerializeToString()


def seconds_to_refuse(raw: bytes, error: type[BrokerError], why: str | None = None) -> float:
    """How much of the processor it takes at least until a request is refused."""
    taken = []
    for _ in range(TRIES):
        begun = thread_time()
        with pytest.raises(error, match=why):
            parse_send_request(raw)
        taken.append(thread_time() - begun)
    return min(taken)


def test_what_clients_send_is_parsed() -> None:
    largest = request(MESSAGES_MAX, keys=["k"] * 9, properties={f"n{n}": "v" for n in range(9)})
    assert len(largest) > SMALL_REQUEST_MAX
    for raw in (b"", request(1), request(100), largest):
        parsed = pb.SendMessageRequest.FromString(raw)
        assert parse_send_request(raw) == drafts_of(parsed)


@pytest.mark.parametrize("piece", [b"\n\0", b"\n\x02\x0a\0", b"\x8a\0\0", b"\n\x03abc"])
def test_too_many_messages_are_not_parsed(piece: bytes) -> None:
    raw = piece * (4 * 1024 * 1024 // len(piece))
    assert seconds_to_refuse(raw, TooManyMessages) < 0.05


@pytest.mark.parametrize("piece", [b'"\0', b"Z\0", b"z\0", b"\x10\0", b"z\x01x", b"\x1d\0\0\0\0"])
def test_messages_of_too_many_fields_are_not_parsed(piece: bytes) -> None:
    inner = piece * (4 * 1024 * 1024 // len(piece))
    size = len(inner)
    length = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80])
    raw = b"\n" + length + bytes([size >> 21]) + inner
    assert len(pb.SendMessageRequest.FromString(b"\n\0").messages) == 1
    assert seconds_to_refuse(raw, MalformedRequest, f"more than {FIELDS_MAX} fields") < 0.2


@given(st.binary(max_size=64), st.integers(1, 4))
def test_whatever_the_bytes_are_the_walk_ends(raw: bytes, factor: int) -> None:
    long = (raw or b"\xff") * (SMALL_REQUEST_MAX * factor // max(len(raw), 1) + 1)
    try:
        parse_send_request(long)
    except (BrokerError, DecodeError):
        return
    assert pb.SendMessageRequest.FromString(long) is not None


def draft_of(message: pb.Message) -> tuple[object, ...]:
    """Returns the service's draft of a message; other fields of the request do not change it."""
    plain = pb.Message(topic="orders", body=b"y", tag="B", keys=["k"], message_id="plain")
    alone = drafts_of(pb.SendMessageRequest(messages=[message]))
    beside = drafts_of(pb.SendMessageRequest(messages=[plain, message, plain]))
    first, second, third = rows_of(beside)
    assert first == third
    assert rows_of(alone) == [second]
    return second


def rows_of(drafts: Drafts) -> list[tuple[object, ...]]:
    """The messages one by one, without what all of a request share."""
    return list(zip(*drafts[1:], strict=True))


def test_what_is_absent_stays_absent() -> None:
    message = pb.Message(topic="orders", body=b"x")
    absent: tuple[object, ...] = ("", [], "", ABSENT_QUEUE, "", 0, PEER, 0, {}, AT_ONCE)
    assert draft_of(message) == ("orders", b"x", *absent)


def test_what_is_given_is_taken() -> None:
    message = pb.Message(
        topic="orders",
        body=b"x",
        tag="A",
        keys=["k1", "k2"],
        message_id="id",
        queue_id=0,
        message_group="g",
        properties={"a": "1"},
        born_timestamp_ms=5,
        born_host="[::1]:7",
        flag=-3,
    )
    host = host_from_text("[::1]:7")
    given = ("orders", b"x", "A", ["k1", "k2"], "id", 0, "g", 5, host, -3, {"a": "1"}, AT_ONCE)
    assert draft_of(message) == given


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"delay_level": -1}, IllegalNumber),
        ({"deliver_at_ms": -1}, IllegalNumber),
        ({"delay_ms": -1}, IllegalNumber),
        ({"priority": -1}, IllegalNumber),
        ({"tag": ""}, IllegalTag),
        ({"message_group": ""}, IllegalMessageGroup),
        ({"queue_id": -1}, IllegalNumber),
        ({"born_timestamp_ms": -1}, IllegalNumber),
        ({"born_host": "nowhere"}, IllegalProperty),
        ({"born_host": ""}, IllegalProperty),
        ({"keys": ["k"] * (KEY_COUNT_MAX + 1)}, PropertiesTooLarge),
        ({"properties": {f"p{number}": "v" for number in range(129)}}, TooManyProperties),
    ],
)
def test_what_cannot_be_served_is_refused(fields: dict[str, Any], error: type[BrokerError]) -> None:
    with pytest.raises(error):
        draft_of(pb.Message(topic="orders", body=b"x", **fields))


@pytest.mark.parametrize(
    ("fields", "delivery"),
    [
        ({"delay_level": 3}, DeliveryRequest(delay_level=3)),
        ({"deliver_at_ms": 1}, DeliveryRequest(deliver_at_ms=1)),
        ({"delay_ms": 1}, DeliveryRequest(delay_ms=1)),
        ({"transactional": True}, DeliveryRequest(transactional=True)),
        ({"priority": 0}, DeliveryRequest(priority=0)),
    ],
)
def test_what_is_said_of_the_delivery_is_taken(
    fields: dict[str, Any], delivery: DeliveryRequest
) -> None:
    assert draft_of(pb.Message(topic="orders", body=b"x", **fields))[-1] == delivery


def test_zeros_that_mean_nothing_pass() -> None:
    message = pb.Message(topic="orders", delay_level=0, deliver_at_ms=0, born_timestamp_ms=0)
    assert draft_of(message)[7] == 0


def test_a_request_without_messages_has_empty_columns() -> None:
    assert rows_of(drafts_of(pb.SendMessageRequest())) == []


def test_a_request_of_waits_alone_ends_at_the_limit_of_fields() -> None:
    raw = b"\x10\0" * (1024 * 1024)
    assert parse_send_request(raw[: 2 * FIELDS_MAX]) == drafts_of(pb.SendMessageRequest())
    with pytest.raises(MalformedRequest, match=f"more than {FIELDS_MAX} fields"):
        parse_send_request(raw)
