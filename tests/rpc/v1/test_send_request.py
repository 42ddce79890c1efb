"""Requests of very many tiny parts are refused before they are parsed; all others are parsed."""

from time import thread_time
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from broker.format.hosts import host_from_text
from broker.model.errors import (
    BrokerError,
    IllegalMessageGroup,
    IllegalNumber,
    IllegalProperty,
    IllegalTag,
    PropertiesTooLarge,
    TooManyMessages,
    TooManyProperties,
    UnsupportedFeature,
)
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.service import SMALL_REQUEST_MAX, MalformedRequest
from broker.rpc.v1.send_request import FIELDS_MAX, KEY_COUNT_MAX, drafts_of, parse_send_request
from broker.services.send import ABSENT_QUEUE, MESSAGES_MAX

TRIES = 5
"""What processor time it takes is the least that it ever took."""


def request(count: int, **fields: object) -> bytes:
    message = pb.Message(topic="orders", body=bytes(1_000), **fields)  # type: ignore[arg-type]
    return pb.SendMessageRequest(messages=[message] * count).SerializeToString()


def test_what_clients_send_is_parsed() -> None:
    largest = request(MESSAGES_MAX, keys=["k"] * 9, properties={f"n{n}": "v" for n in range(9)})
    assert len(largest) > SMALL_REQUEST_MAX
    for raw in (b"", request(1), request(100), largest):
        assert parse_send_request(raw) == pb.SendMessageRequest.FromString(raw)


@pytest.mark.parametrize("piece", [b"\n\0", b"\n\x02\x0a\0", b"\x8a\0\0", b"\n\x03abc"])
def test_too_many_messages_are_not_parsed(piece: bytes) -> None:
    raw = piece * (4 * 1024 * 1024 // len(piece))
    begun = thread_time()
    with pytest.raises(TooManyMessages):
        parse_send_request(raw)
    assert thread_time() - begun < 0.05


@pytest.mark.parametrize("piece", [b'"\0', b"Z\0", b"z\0", b"\x10\0", b"z\x01x", b"\x1d\0\0\0\0"])
def test_messages_of_too_many_fields_are_not_parsed(piece: bytes) -> None:
    inner = piece * (4 * 1024 * 1024 // len(piece))
    size = len(inner)
    length = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80])
    raw = b"\n" + length + bytes([size >> 21]) + inner
    assert len(pb.SendMessageRequest.FromString(b"\n\0").messages) == 1
    taken = []
    for _ in range(TRIES):
        begun = thread_time()
        with pytest.raises(MalformedRequest, match=f"more than {FIELDS_MAX} fields"):
            parse_send_request(raw)
        taken.append(thread_time() - begun)
    assert min(taken) < 0.2


@given(st.binary(max_size=64), st.integers(1, 4))
def test_whatever_the_bytes_are_the_walk_ends(raw: bytes, factor: int) -> None:
    long = (raw or b"\xff") * (SMALL_REQUEST_MAX * factor // max(len(raw), 1) + 1)
    try:
        parse_send_request(long)
    except (BrokerError, DecodeError):
        return
    assert pb.SendMessageRequest.FromString(long) is not None


PEER = host_from_text("10.0.0.9:80")


def draft_of(message: pb.Message) -> tuple[object, ...]:
    """What the service is asked for; what stands beside it in the request changes nothing."""
    plain = pb.Message(topic="orders", body=b"y", tag="B", keys=["k"], message_id="plain")
    alone = drafts_of(pb.SendMessageRequest(messages=[message]), PEER)
    beside = drafts_of(pb.SendMessageRequest(messages=[plain, message, plain]), PEER)
    assert [column[0] for column in alone] == [column[1] for column in beside]
    assert [column[0] for column in beside] == [column[2] for column in beside]
    return tuple(column[0] for column in alone)


def test_what_is_absent_stays_absent() -> None:
    message = pb.Message(topic="orders", body=b"x")
    assert draft_of(message) == ("orders", b"x", "", [], "", ABSENT_QUEUE, "", 0, PEER, 0, {})


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
    given = ("orders", b"x", "A", ["k1", "k2"], "id", 0, "g", 5, host, -3, {"a": "1"})
    assert draft_of(message) == given


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"delay_level": 3}, UnsupportedFeature),
        ({"delay_level": -1}, UnsupportedFeature),
        ({"deliver_at_ms": 1}, UnsupportedFeature),
        ({"transactional": True}, UnsupportedFeature),
        ({"priority": 0}, UnsupportedFeature),
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


def test_zeros_that_mean_nothing_pass() -> None:
    message = pb.Message(topic="orders", delay_level=0, deliver_at_ms=0, born_timestamp_ms=0)
    assert draft_of(message)[7] == 0


def test_a_request_without_messages_has_empty_columns() -> None:
    assert all(column == [] for column in drafts_of(pb.SendMessageRequest(), PEER))
