"""Fields found in the bytes of a plain request, at the limits of every number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pocketmq.format.send_request import (
    FIELDS_MAX,
    KEY_WIDTH,
    PROPERTY_WIDTH,
    SendRequest,
)
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
    assert reader.read(request(keys=["k"] * FIELDS_MAX))
    assert not reader.read(request(keys=["k"] * (FIELDS_MAX + 1)))


@given(some.binary(max_size=200))
def test_whatever_the_bytes_are_the_walk_ends(raw: bytes) -> None:
    reader = V1SendRequest(SendRequest())
    for start in (b"", request()[:9], b"\x0a\xff\xff\xff\x7f", b"\x0a" + b"\x80" * 9 + b"\x01"):
        if reader.read(start + raw):
            assert (
                len(pb.SendMessageRequest.FromString(start + raw).messages) == reader.request.count
            )


TEXT = some.text(some.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20)
ODD = TEXT | some.sampled_from(("", " ", "a|b", "\u20ac", "x" * 256))
MESSAGES = some.builds(
    pb.Message,
    topic=some.sampled_from(("orders", "orders", "o")),
    body=some.binary(max_size=20) | some.integers(100, 40_000).map(bytes),
    tag=some.none() | ODD,
    keys=some.lists(ODD, max_size=3),
    message_id=TEXT,
    queue_id=some.none() | some.integers(0, 1),
    properties=some.dictionaries(ODD, ODD, max_size=2),
    born_timestamp_ms=some.integers(0, 2**63 - 1),
    flag=some.integers(-1, 1),
)
REQUESTS = some.builds(
    pb.SendMessageRequest, messages=some.lists(MESSAGES, max_size=3), wait=some.integers(0, 2)
)
CHANGES = some.lists(some.tuples(some.integers(0, 10_000), some.integers(0, 255)), max_size=3)


def read_back(request: SendRequest) -> pb.SendMessageRequest:
    """Returns what was found in a request as the generated classes hold it."""
    found = pb.SendMessageRequest(wait=pb.DURABLE if request.waits else pb.APPENDED)
    raw = request.raw

    def text(begin: int, size: int) -> str:
        return raw[begin : begin + size].decode()

    for span in request.spans[: request.count]:
        message = found.messages.add(
            topic=request.topic.decode(),
            body=raw[span.body_begin : span.body_begin + span.body_size],
            message_id=span.identity.decode(),
            born_timestamp_ms=span.born_ms,
            flag=span.flag,
        )
        if span.tag_size:
            message.tag = text(span.tag_begin, span.tag_size)
        if request.queue_id >= 0:
            message.queue_id = request.queue_id
        for key in range(span.first_key, span.first_key + KEY_WIDTH * span.key_count, KEY_WIDTH):
            message.keys.append(text(request.keys[key], request.keys[key + 1]))
        end = span.first_property + PROPERTY_WIDTH * span.property_count
        for place in range(span.first_property, end, PROPERTY_WIDTH):
            name, size, value, value_size = (request.properties[place + one] for one in range(4))
            message.properties[text(name, size)] = text(value, value_size)
    return found


@given(REQUESTS, CHANGES)
@settings(max_examples=300)
def test_what_is_read_is_what_the_generated_classes_read(
    request: pb.SendMessageRequest, changes: list[tuple[int, int]]
) -> None:
    raw = bytearray(request.SerializeToString())
    for position, octet in changes if raw else ():
        raw[position % len(raw)] = octet
    reader = V1SendRequest(SendRequest())
    if reader.read(bytes(raw)):
        parsed = pb.SendMessageRequest.FromString(bytes(raw))
        for message in parsed.messages:
            for field in ("transactional", "producer_group", "born_host"):
                message.ClearField(field)
        parsed.wait = pb.APPENDED if parsed.wait == pb.APPENDED else pb.DURABLE
        assert read_back(reader.request) == parsed
