"""Prints what compiled modules make of lengths that would wrap; run as a program, in either form.

python -m tests.native.lengths       a line of JSON: which form ran, and every outcome
"""

import json
from collections.abc import Iterator
from typing import Final

from pocketmq import native
from pocketmq.format.send_request import SendRequest
from pocketmq.rpc.codec.protobuf_scan import NUMBER_BITS, SIZE_BITS, FieldScan, bits, varint_at
from pocketmq.rpc.codec.v1_send_request import V1SendRequest
from pocketmq.wire.connection import Connection
from pocketmq.wire.flow import Limits
from pocketmq.wire.frames import PREFACE, ConnectionFault
from pocketmq.wire.hpack import integer

NUMBERS: Final = sorted(
    {0, 2**64 - 1}
    | {
        near
        for bits in (7, 8, 14, 16, 21, 28, 31, 32, 35, 42, 49, 56, 62, 63, 64, 69)
        for near in (2**bits - 1, 2**bits, 2**bits + 1)
    }
)
BEHIND: Final = b"\x01rest of the message"


def varint(number: int, *, padding: int = 0) -> bytes:
    """Returns a number as protobuf writes it, with needless groups behind."""
    groups = bytearray()
    while number > 0x7F or padding > 0:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
        padding -= not number
    return bytes([*groups, number & 0x7F])


def numbers() -> Iterator[bytes]:
    """Yields all numbers as varints, as short and as long as may be, and one without an end."""
    for number in NUMBERS:
        yield varint(number)
        yield varint(number, padding=12)
    yield b"\xff" * 40


def requests() -> Iterator[bytes]:
    """Yields SendMessage requests with each number as the length of each kind of part."""
    topic = b"\x0a\x06orders"
    for number in numbers():
        yield b"\x0a" + number + topic + b"\x12\x01x"
        for tag in (0x0A, 0x12, 0x1A, 0x22, 0x2A, 0x5A, 0x6A):
            message = topic + bytes([tag]) + number + BEHIND
            yield b"\x0a" + varint(len(message)) + message
            message = bytes([tag]) + number + BEHIND
            yield b"\x0a" + varint(len(message)) + message
        for tag in (0x30, 0x60, 0x70):
            message = topic + b"\x12\x01x" + bytes([tag]) + number
            yield b"\x0a" + varint(len(message)) + message


def connections() -> Iterator[bytes]:
    """Yields what comes of a connection whose frames have each number in some field of 32 bits."""
    headers = bytes.fromhex("83 86 44 03") + b"/ab" + b"\x5f\x10application/grpc"
    for number in NUMBERS:
        word = (number & 0xFFFFFFFF).to_bytes(4)
        yield head(len(headers), 1, 4, 1) + headers + head(9, 0, 1, 1) + b"\0" + word + b"abcd"
        yield head(4, 8, 0, 0) + word
        yield head(4, 8, 0, 1) + word
        yield head(6, 4, 0, 0) + b"\0\4" + word
        yield head(6, 4, 0, 0) + b"\0\1" + word
        yield word[1:] + b"\0\0" + word
        yield head(len(headers) + 2, 1, 4, 1) + headers + b"\x3f" + varint(number)[:1]


def head(size: int, kind: int, flags: int, stream_id: int) -> bytes:
    """Returns a frame's head."""
    return size.to_bytes(3) + bytes([kind, flags]) + stream_id.to_bytes(4)


def stepped(raw: bytes) -> tuple[int, ...]:
    """Returns what a scan finds in a first field, a text 1 or a number 2."""
    scan = FieldScan(bits(1), bits(2), empty=bits(1))
    scan.enter(0, len(raw))
    return scan.step(raw), scan.begin, scan.size, scan.end, scan.value


def outcomes() -> Iterator[object]:
    """Yields what each function returns of each number."""
    for raw in numbers():
        yield varint_at(raw + BEHIND, 0, len(raw), SIZE_BITS)
        yield varint_at(raw + BEHIND, 0, len(raw), NUMBER_BITS)
        yield stepped(b"\x0a" + raw + BEHIND)
        yield stepped(b"\x10" + raw + BEHIND)
        try:
            yield integer(b"\x7f" + raw + BEHIND, 0, 127)
        except ConnectionFault as fault:
            yield fault.code
    for raw in requests():
        yield V1SendRequest(SendRequest()).read(raw)
    for raw in connections():
        connection = Connection(Limits(), clock=lambda: 0.0)
        streams = connection.receive(PREFACE + head(0, 4, 0, 0) + raw)
        yield [stream.messages for stream in streams] != [], connection.closing
        yield connection.take().hex()


if __name__ == "__main__":
    print(json.dumps({"form": native.form(), "outcomes": [*outcomes()]}))
