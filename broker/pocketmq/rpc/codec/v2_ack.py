"""Codec of a plain AckMessageRequest of RocketMQ's own protocol, and its reply if all is settled.

    0A group │ 12 topic │ 1A size entry: 0A message id │ 12 handle       …
    0A status │ 12 size entry: 0A message id │ 12 handle │ 1A status     …

An entry of a request is the start of that of its reply, byte for byte. A plain request has these
fields in the order of their numbers, none empty, all of ASCII. All others are left to the generated
classes, which read and write the same.
"""

from typing import Final, final

from pocketmq.format.protobuf_scan import short_size
from pocketmq.native.machine import BytesWriter, i64
from pocketmq.rpc.codec.send_reply import write_varint
from pocketmq.rpc.codec.v2_send_reply import OK

_GROUP: Final = 0x0A
_TOPIC: Final = 0x12
_ENTRY: Final = 0x1A
_ID: Final = 0x0A
_HANDLE: Final = 0x12
_STATUS: Final = b"\x1a" + OK[1:]
"""The status of an entry: that of a reply under another number."""


@final
class PlainAck:
    """Parsed fields of a plain request.

    group, topic   Resources, encoded
    entries        …, handles: of each message, as it is encoded, and its lease's
    """

    __slots__ = ("entries", "group", "handles", "topic")

    def __init__(self) -> None:
        self.group = b""
        self.topic = b""
        self.entries: list[bytes] = []
        self.handles: list[str] = []

    def all_settled(self) -> bytes:
        """Returns the encoded reply with that status for every entry."""
        assert len(self.entries) == len(self.handles)
        out = BytesWriter()
        out.write(OK)
        more: i64 = len(_STATUS)
        for entry in self.entries:
            out.append(0x12)
            write_varint(out, len(entry) + more)
            out.write(entry)
            out.write(_STATUS)
        return out.getvalue()


def read_ack(raw: bytes) -> PlainAck | None:
    """Parses a request, None where it is not plain.

    Cost     about 0.2 µs an entry when compiled
    """
    ack = PlainAck()
    end: i64 = len(raw)
    position: i64 = 0
    last: i64 = 0
    while position < end:
        mark: i64 = raw[position]
        if mark < last or (mark == last and mark != _ENTRY):
            return None
        last = mark
        size, begin = short_size(raw, position + 1, end)
        if size <= 0 or size > end - begin:
            return None
        position = begin + size
        if mark == _GROUP:
            ack.group = raw[begin:position]
        elif mark == _TOPIC:
            ack.topic = raw[begin:position]
        elif mark != _ENTRY or not _take_entry(ack, raw, begin, position):
            return None
    return ack if ack.group and ack.topic and ack.entries else None


def _take_entry(ack: PlainAck, raw: bytes, position: i64, end: i64) -> bool:
    """Takes one entry more; returns whether it is plain."""
    entry = raw[position:end]
    if raw[position] == _ID:
        size, begin = short_size(raw, position + 1, end)
        if size <= 0 or size >= end - begin or not raw[begin : begin + size].isascii():
            return False
        position = begin + size
    if raw[position] != _HANDLE:
        return False
    size, begin = short_size(raw, position + 1, end)
    if size <= 0 or size != end - begin:
        return False
    handle = raw[begin:end]
    if not handle.isascii():
        return False
    ack.entries.append(entry)
    ack.handles.append(handle.decode())
    return True
