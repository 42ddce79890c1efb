"""Fields found in the bytes of a plain request, at the limits of every number."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pocketmq.format.java_hash import WRAP, java_hash
from pocketmq.format.protobuf_scan import is_printable, number_at, short_size, text_hash
from pocketmq.format.send_request import FIELDS_MAX, SendRequest
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.v1.send_reply import varint

EDGES = sorted({(1 << bit) + near for bit in range(1, 64) for near in (-1, 0, 1)})


def request(**fields: object) -> bytes:
    message = pb.Message(topic="orders", body=b"x", **fields)  # type: ignore[arg-type]
    return pb.SendMessageRequest(messages=[message]).SerializeToString()


@pytest.mark.parametrize("value", EDGES)
def test_a_number_with_the_sign_bit_is_none(value: int) -> None:
    raw = varint(value) + b"\x01"
    found = number_at(raw, 0, len(raw))
    assert found == ((value, len(raw) - 1) if value < 1 << 63 else (-1, len(raw)))


@pytest.mark.parametrize("value", EDGES)
def test_a_length_of_more_than_four_bytes_is_none(value: int) -> None:
    raw = varint(value) + b"\x01"
    found = short_size(raw, 0, len(raw))
    assert found == ((value, len(raw) - 1) if value < 1 << 28 else (-1, len(raw)))


@pytest.mark.parametrize("read", [number_at, short_size])
def test_a_number_that_does_not_end_is_none(read: object) -> None:
    for size in range(1, 12):
        assert read(b"\xff" * size, 0, size) == (-1, size)  # type: ignore[operator]


@pytest.mark.parametrize("size", [1, 127, 128, 129, 16_383, 16_384, 16_385, 2_097_151, 2_097_153])
def test_bodies_of_every_width_of_length_are_found(size: int) -> None:
    message = pb.Message(topic="orders", body=bytes(size - 1) + b"!", flag=7)
    raw = pb.SendMessageRequest(messages=[message] * 2).SerializeToString()
    found = SendRequest()
    assert found.read(raw)
    assert found.bodies_size == 2 * size
    for span in found.spans[:2]:
        assert raw[span.body_begin + span.body_size - 1] == ord("!")
        assert (span.body_size, span.flag) == (size, 7)


def test_a_request_cut_anywhere_is_not_plain() -> None:
    raw = request(tag="A", keys=["k"], message_id="id", queue_id=3, properties={"a": "b"}, flag=1)
    found = SendRequest()
    assert found.read(raw)
    assert not any(found.read(raw[:end]) for end in range(len(raw)))


def test_one_request_leaves_nothing_to_the_next() -> None:
    found = SendRequest()
    rich = request(tag="A", keys=["k"] * 3, properties={"a": "b"}, queue_id=1, born_timestamp_ms=5)
    assert found.read(rich + b"\x10\x02")
    assert (found.waits, found.queue_id, found.unnamed_count) == (False, 1, 1)
    assert found.read(request(message_id="id"))
    span = found.spans[0]
    assert (found.waits, found.queue_id, found.unnamed_count) == (True, -1, 0)
    assert (span.key_count, span.property_count, span.tag_size, span.born_ms) == (0, 0, 0, 0)
    assert len(found.keys) == len(found.properties) == 0


def test_fields_in_another_order_or_twice_are_left_to_the_parser() -> None:
    body, tag, topic = b"\x12\x01x", b"\x1a\x01A", b"\x0a\x01t"
    found = SendRequest()
    for inner, is_plain in (
        (topic + body + tag, True),
        (body + topic + tag, False),
        (topic + body + tag + tag, False),
        (topic + body + body, False),
        (topic + tag, False),
        (body + tag, False),
        (topic + body + b"\x7a\x00", False),
        (topic + body + b"\x80\x01\x00", False),
    ):
        assert found.read(b"\x0a" + varint(len(inner)) + inner) == is_plain, inner


def test_very_many_fields_are_left_to_the_parser() -> None:
    found = SendRequest()
    waits = b"\x10\x01"
    assert found.read(request() + waits * (FIELDS_MAX - 2))
    assert not found.read(request() + waits * (FIELDS_MAX - 1))


@given(some.text(some.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=80))
def test_hashes_are_those_of_java(text: str) -> None:
    raw = f"<{text}>".encode()
    assert text_hash(raw, 1, len(raw) - 1, 0) == java_hash(text) & WRAP


@given(some.binary(max_size=20))
def test_texts_are_printable_ascii(raw: bytes) -> None:
    shown = raw.decode("latin-1")
    is_ascii = shown.isascii() and shown.isprintable()
    assert is_printable(raw, 0, len(raw)) == is_ascii
    assert (text_hash(raw, 0, len(raw), 0x7C) >= 0) == (
        is_ascii and " " not in shown and "|" not in shown
    )


@given(some.binary(max_size=200))
def test_whatever_the_bytes_are_the_walk_ends(raw: bytes) -> None:
    found = SendRequest()
    for start in (b"", request()[:9], b"\x0a\xff\xff\xff\x7f", b"\x0a" + b"\x80" * 9 + b"\x01"):
        if found.read(start + raw):
            assert len(pb.SendMessageRequest.FromString(start + raw).messages) == found.count
