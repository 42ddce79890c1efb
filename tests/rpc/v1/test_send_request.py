"""Requests of very many tiny parts are refused before they are parsed; all others are parsed."""

from time import thread_time

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.model.errors import BrokerError, TooManyMessages
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.service import SMALL_REQUEST_MAX, MalformedRequest
from broker.rpc.v1.send_request import FIELDS_MAX, parse_send_request
from broker.services.send import MESSAGES_MAX

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
@settings(deadline=None)
def test_whatever_the_bytes_are_the_walk_ends(raw: bytes, factor: int) -> None:
    long = (raw or b"\xff") * (SMALL_REQUEST_MAX * factor // max(len(raw), 1) + 1)
    try:
        parse_send_request(long)
    except (BrokerError, DecodeError):
        return
    assert pb.SendMessageRequest.FromString(long) is not None
