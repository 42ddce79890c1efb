"""Fields found in the bytes of a plain request, at the limits of every number."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pocketmq.format.send_request import FIELDS_MAX, SendRequest
from pocketmq.rpc.codec.v1_send_request import V1SendRequest
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.v1.send_reply import varint


def request(**fields: object) -> bytes:
    message = pb.Message(topic="orders", body=b"x", **fields)  # type: ignore[arg-type]
    return pb.SendMessageRequest(messages=[message]).SerializeToString()


@pytest.mark.parametrize("size", [1, 127, 128, 129, 16_383, 16_384, 16_385, 2_097_151, 2_097_153])
def test_bodies_of_every_width_of_length_are_found(size: int) -> None:
    message = pb.Message(topic="orders", body=bytes(size - 1) + b"!", flag=7)
    raw = pb.SendMessageRequest(messages=[message] * 2).SerializeToString()
    reader = V1SendRequest(SendRequest())
    assert reader.read(raw)
    found = reader.request
    assert found.bodies_size == 2 * size
    for span in found.spans[:2]:
        assert raw[span.body_begin + span.body_size - 1] == ord("!")
        assert (span.body_size, span.flag) == (size, 7)


def test_a_request_cut_anywhere_is_not_plain() -> None:
    raw = request(tag="A", keys=["k"], message_id="id", queue_id=3, properties={"a": "b"}, flag=1)
    reader = V1SendRequest(SendRequest())
    assert reader.read(raw)
    assert not any(reader.read(raw[:end]) for end in range(len(raw)))


def test_one_request_leaves_nothing_to_the_next() -> None:
    reader = V1SendRequest(SendRequest())
    rich = request(tag="A", keys=["k"] * 3, properties={"a": "b"}, queue_id=1, born_timestamp_ms=5)
    assert reader.read(rich + b"\x10\x02")
    found = reader.request
    assert (found.waits, found.queue_id, found.unnamed_count) == (False, 1, 1)
    assert reader.read(request(message_id="id"))
    span = found.spans[0]
    assert (found.waits, found.queue_id, found.unnamed_count) == (True, -1, 0)
    assert (span.key_count, span.property_count, span.tag_size, span.born_ms) == (0, 0, 0, 0)
    assert len(found.keys) == len(found.properties) == 0


def test_fields_in_another_order_or_twice_are_left_to_the_parser() -> None:
    body, tag, topic = b"\x12\x01x", b"\x1a\x01A", b"\x0a\x01t"
    reader = V1SendRequest(SendRequest())
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
        assert reader.read(b"\x0a" + varint(len(inner)) + inner) == is_plain, inner


def test_very_many_fields_are_left_to_the_parser() -> None:
    reader = V1SendRequest(SendRequest())
    assert reader.read(request(keys=["k"] * (FIELDS_MAX - 2)))
    assert not reader.read(request(keys=["k"] * (FIELDS_MAX - 1)))


@given(some.binary(max_size=200))
def test_whatever_the_bytes_are_the_walk_ends(raw: bytes) -> None:
    reader = V1SendRequest(SendRequest())
    for start in (b"", request()[:9], b"\x0a\xff\xff\xff\x7f", b"\x0a" + b"\x80" * 9 + b"\x01"):
        if reader.read(start + raw):
            assert (
                len(pb.SendMessageRequest.FromString(start + raw).messages) == reader.request.count
            )
