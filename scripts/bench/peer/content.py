"""The same messages for both brokers, as pocketmq.v1 and as apache.rocketmq.v2."""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from pocketmq.rpc.pb import broker_pb2 as pb

TOPIC: Final = "bench"
GROUP: Final = "readers"
UNARY_BYTES: Final = 1024
MIXED_BYTES: Final = (64, 256, 512, 1024, 2048, 3072)
_NORMAL: Final = 1
_IDENTITY: Final = 1


class Content(NamedTuple):
    """One message, independent of the protocol."""

    body: bytes
    tag: str
    keys: tuple[str, ...]
    message_id: str


def unary_content(number: int = 0) -> Content:
    """Returns a message of 1 KiB with a tag, a key and an id."""
    chance = random.Random(number + 1)
    return Content(chance.randbytes(UNARY_BYTES), "TagA", (f"key-{number}",), _id(chance))


def equal_contents(count: int) -> list[Content]:
    """Returns messages that differ in body, key and id but not in size."""
    return [unary_content(number) for number in range(count)]


def mixed_contents(count: int) -> list[Content]:
    """Returns messages of six sizes, 1.1 KiB on average, five tags and none to three keys."""
    chance = random.Random(3)
    return [
        Content(
            chance.randbytes(chance.choice(MIXED_BYTES)),
            f"Tag{chance.choice('ABCDE')}",
            tuple(f"order-{chance.randrange(10**6)}" for _ in range(chance.randrange(4))),
            _id(chance),
        )
        for _ in range(count)
    ]


def _id(chance: random.Random) -> str:
    return chance.randbytes(17).hex().upper()


def v1_request(contents: Sequence[Content]) -> bytes:
    """Returns a pocketmq.v1 SendMessageRequest."""
    messages = [
        pb.Message(
            topic=TOPIC, body=one.body, tag=one.tag, keys=one.keys, message_id=one.message_id
        )
        for one in contents
    ]
    return pb.SendMessageRequest(messages=messages).SerializeToString()


def v2_request(contents: Sequence[Content]) -> bytes:
    """Returns an apache.rocketmq.v2 SendMessageRequest, with the fields that clients always set."""
    return b"".join(_field(1, _v2_message(one)) for one in contents)


def _v2_message(one: Content) -> bytes:
    properties = _field(1, one.tag.encode())
    properties += b"".join(_field(2, key.encode()) for key in one.keys)
    properties += _field(3, one.message_id.encode())
    properties += _number(5, _IDENTITY) + _number(6, _NORMAL)
    properties += _field(7, _number(1, 1_790_000_000)) + _field(8, b"127.0.0.1")
    topic = _field(2, TOPIC.encode())
    return _field(1, topic) + _field(3, properties) + _field(4, one.body)


def _number(tag: int, value: int) -> bytes:
    return _varint(tag << 3) + _varint(value)


def _field(tag: int, content: bytes) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
