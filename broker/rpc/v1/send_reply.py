"""The reply to a send, written as bytes.

Within a request only id, offset id, queue offset and physical offset change from result to result;
the rest is written once. Offsets are written as varints of one width, which any reader takes, so
that all results of equally long ids have one length.
"""

from typing import Final

from broker.format.message_id import offset_message_id
from broker.model.results import PutStatus
from broker.rpc.pb import broker_pb2 as pb
from broker.services.send import Sent

SEND_STATUSES: Final = {
    PutStatus.OK: pb.SEND_OK,
    PutStatus.FLUSH_DISK_TIMEOUT: pb.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_REPLICA_TIMEOUT: pb.FLUSH_REPLICA_TIMEOUT,
    PutStatus.REPLICA_NOT_AVAILABLE: pb.REPLICA_NOT_AVAILABLE,
}
PAIR_BITS: Final = 14
_PAIR_MASK: Final = (1 << PAIR_BITS) - 1
_PAIRS: Final = [bytes((value & 0x7F | 0x80, value >> 7 | 0x80)) for value in range(1 << PAIR_BITS)]
"""The two bytes of 14 bits that more bytes follow."""
_LAST: Final = [bytes((value,)) for value in range(0x80)]


def varint(value: int) -> bytes:
    """Return a number that is not negative as protobuf writes it."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def wide_varint(value: int) -> bytes:
    """Return a number below 2**35 as a varint of five bytes."""
    pairs, mask = _PAIRS, _PAIR_MASK
    return pairs[value & mask] + pairs[value >> PAIR_BITS & mask] + _LAST[value >> 2 * PAIR_BITS]


def wider_varint(value: int) -> bytes:
    """Return a number below 2**49 as a varint of seven bytes."""
    pairs, mask, bits = _PAIRS, _PAIR_MASK, PAIR_BITS
    low = pairs[value & mask] + pairs[value >> bits & mask]
    return low + pairs[value >> 2 * bits & mask] + _LAST[value >> 3 * bits]


def encode_sent(sent: Sent) -> bytes:
    """Hot: return the SendMessageResponse of a request.

    Cost     about half of what the generated classes take
    """
    topic, queue_id, queue_offset, time_ms, store_host, status, message_ids, places = sent
    is_small = places[-1] < 1 << 35 and queue_offset + len(places) < 1 << 35
    number = wide_varint if is_small else varint
    head = b"\x0a" + _text(topic)
    tail = b"\x20" + varint(queue_id) + b"\x38" + varint(time_ms)
    tail += b"\x40" + varint(SEND_STATUSES[status])
    parts: list[bytes] = []
    known_sizes, start, where_size = (-1, -1), b"", b""
    for message_id, place in zip(message_ids, places, strict=True):
        identity = message_id.encode()
        where = offset_message_id(store_host, place).encode()
        offsets = b"\x28" + number(queue_offset) + b"\x30" + number(place)
        sizes = (len(identity), len(offsets))
        if sizes != known_sizes:
            known_sizes = sizes
            id_size, where_size = varint(len(identity)), varint(len(where))
            size = sum(map(len, (head, id_size, identity, where_size, where, offsets, tail))) + 2
            start = b"\x0a" + varint(size) + head + b"\x12" + id_size
        parts += (start, identity, b"\x1a", where_size, where, offsets, tail)
        queue_offset += 1
    return b"".join(parts)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return varint(len(encoded)) + encoded
