"""The commit-log record: one message as it is stored in the log.

    head (88 bytes; 12 more for each IPv6 host) · body · topic length · topic
    · properties length (2 bytes) · properties

The topic length has 1 byte in V1, 2 in V2.
Every field of the head: docs/reference/formats/commit-log.md.
A file ends with a BLANK (total_size = bytes left, magic) or at its last byte.

With property CRC on, the last 20 property bytes are `__CRC32#`, 0x01, ten digits least significant
first, 0x02: the CRC-32 & 0x7FFFFFFF of the record without these 20 bytes.
`record_scan.py` walks many records. Source: CommitLog, MessageExtEncoder, MessageDecoder.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from pocketmq.format.addresses import (
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    offset_message_id,
    text_from_host,
)
from pocketmq.format.body_codec import BodyBudget, plain_body
from pocketmq.format.layout import CRC_MASK, Buffer, Layout, crc32
from pocketmq.format.properties import decode_properties
from pocketmq.model.batch import Batch, Destination
from pocketmq.model.decimal import signed_number_of
from pocketmq.model.message import (
    DELAY,
    DELIVER_AT,
    FLAG_BORN_HOST_V6,
    FLAG_STORE_HOST_V6,
    INT32_MAX,
    OFFSET_MAX,
    PROPERTY_CRC,
    SHARDING_KEY,
    StoredMessage,
    has_queue_offset,
)

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
TOPIC_LENGTH_MAX_V1: Final = 127
"""Upper limit of a topic's characters in a V1 record; longer topics need V2."""
BLANK_SIZE: Final = 8
"""Bytes that a record must leave free in its file, so that a BLANK always fits."""
PROPERTY_CRC_SIZE: Final = 20
STORE_TIMESTAMP_FIELD: Final = 10
"""Index of the store time among the fields of a head."""
_CRC_MARK: Final = f"{PROPERTY_CRC}\x01".encode()
HOSTS_V6_MASK: Final = FLAG_BORN_HOST_V6 | FLAG_STORE_HOST_V6


def record_head(born_host_size: int, store_host_size: int) -> Layout:
    """Returns the layout up to the body for hosts of 8 or 20 bytes."""
    return Layout(
        ("total_size", "i", "bytes of this record, itself included"),
        ("magic", "I", "V1, V2 (topic length takes two bytes) or BLANK"),
        ("body_crc", "i", "CRC-32 of the body & 0x7FFFFFFF, 0 for an empty one"),
        ("queue_id", "i", "queue of the topic"),
        ("flag", "i", "message flags, set by the user"),
        ("queue_offset", "q", "ordinal in the queue; 0 for prepared and rollback"),
        ("physical_offset", "q", "position of this record in the log"),
        ("system_flag", "i", "bit set, see model/message.py"),
        ("born_timestamp", "q", "client's clock, ms"),
        ("born_host", f"{born_host_size}s", "address and port; 20 bytes with bit 4 of system_flag"),
        ("store_timestamp", "q", "taken under the put-lock, ms"),
        (
            "store_host",
            f"{store_host_size}s",
            "address and port; 20 bytes with bit 5 of system_flag",
        ),
        ("reconsume_times", "i", "how often it was retried"),
        ("prepared_offset", "q", "the half message of a commit, else 0"),
        ("body_length", "i", "bytes of the body that follows"),
    )


RECORD_HEAD: Final = record_head(IPV4_HOST_SIZE, IPV4_HOST_SIZE)
HEADS: Final = {
    0: RECORD_HEAD.struct,
    FLAG_BORN_HOST_V6: record_head(IPV6_HOST_SIZE, IPV4_HOST_SIZE).struct,
    FLAG_STORE_HOST_V6: record_head(IPV4_HOST_SIZE, IPV6_HOST_SIZE).struct,
    HOSTS_V6_MASK: record_head(IPV6_HOST_SIZE, IPV6_HOST_SIZE).struct,
}
"""The compiled heads by the host bits of the system flag."""
SYSTEM_FLAG_POSITION: Final = RECORD_HEAD.positions["system_flag"]
RECORD_SIZE_MIN: Final = RECORD_HEAD.size + 1 + 2
"""Size of a V1 record with IPv4 hosts, and without body, topic and properties."""

SIZE_AND_MAGIC: Final = struct.Struct(">iI")
SYSTEM_FLAG: Final = struct.Struct(">i")
_U8: Final = struct.Struct(">B")
_I16: Final = struct.Struct(">h")


class BadRecord(ValueError):
    """The bytes at a position are not a valid record; the text is the reason."""


def body_crc(body: Buffer) -> int:
    """Returns the CRC that a record contains of its body."""
    return crc32(body) & CRC_MASK


@lru_cache(maxsize=4096)
def topic_field(topic: str) -> bytes:
    """Returns topic length and topic as a record contains them: V2 above 127 characters."""
    encoded = topic.encode()
    if len(topic) > TOPIC_LENGTH_MAX_V1:
        return _I16.pack(len(encoded)) + encoded
    return _U8.pack(len(encoded)) + encoded


def host_flags(born_host: bytes, store_host: bytes) -> int:
    """Returns the system flag bits for the widths of these packed hosts."""
    flags = FLAG_BORN_HOST_V6 if len(born_host) == IPV6_HOST_SIZE else 0
    return flags | (FLAG_STORE_HOST_V6 if len(store_host) == IPV6_HOST_SIZE else 0)


def record_sizes(
    destination: Destination, batch: Batch, *, property_crc: bool = False
) -> list[int]:
    """Returns the size of each message's record in the log."""
    fixed = RECORD_HEAD.size - 2 * IPV4_HOST_SIZE + len(destination.store_host)
    fixed += len(topic_field(destination.topic)) + 2
    hosts, bodies, blocks = batch.born_hosts, batch.bodies, batch.property_blocks
    if property_crc:
        fixed += PROPERTY_CRC_SIZE
        blocks = [_separated(block) for block in blocks]
    return [
        fixed + len(host) + len(body) + len(block)
        for host, body, block in zip(hosts, bodies, blocks, strict=True)
    ]


def encode_records(
    destination: Destination,
    batch: Batch,
    sizes: list[int],
    *,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
    property_crc: bool = False,
) -> bytes:
    """Hot: returns messages as contiguous records.

    Shape    sizes: from `record_sizes`; queue_offset: of the first message
    Cost     about 0.7 µs a record and the CRC of its body
    Source   MessageExtEncoder.encode, DefaultAppendMessageCallback.doAppend
    """
    assert len(sizes) == len(batch)
    topic, queue_id, store_host, system_flag, prepared_offset = destination
    topic_part = topic_field(topic)
    magic = MAGIC_V2 if len(topic) > TOPIC_LENGTH_MAX_V1 else MAGIC_V1
    step = 1 if has_queue_offset(system_flag) else 0
    system_flag &= ~HOSTS_V6_MASK
    blocks, spare = batch.property_blocks, 0
    if property_crc:
        blocks, spare = [_separated(block) for block in blocks], PROPERTY_CRC_SIZE
    parts: list[bytes] = []
    flags, head, last_host = 0, RECORD_HEAD.struct.pack, b""
    for size, body, block, flag, born_ms, born_host, reconsume_times in zip(
        sizes, batch.bodies, blocks, batch.flags, batch.born_ms, batch.born_hosts,
        batch.reconsume_times, strict=True,
    ):  # fmt: skip
        if born_host is not last_host:
            last_host = born_host
            flags = system_flag | host_flags(born_host, store_host)
            head = HEADS[flags & HOSTS_V6_MASK].pack
        parts += (
            head(
                size, magic, crc32(body) & CRC_MASK, queue_id, flag, queue_offset,
                physical_offset, flags, born_ms, born_host, store_timestamp_ms, store_host,
                reconsume_times, prepared_offset, len(body),
            ),
            body,
            topic_part,
            _I16.pack(len(block) + spare),
            block,
        )  # fmt: skip
        physical_offset += size
        queue_offset += step
    return b"".join(_with_property_crc(parts) if property_crc else parts)


def _with_property_crc(parts: list[bytes]) -> Iterator[bytes]:
    for begin in range(0, len(parts), 5):
        record = b"".join(parts[begin : begin + 5])
        yield record
        yield property_crc_field(record)


def property_crc_field(record_before: Buffer) -> bytes:
    """Returns the 20 bytes at the end of a record, computed from all bytes before them."""
    digits = f"{crc32(record_before) & CRC_MASK:010d}"[::-1]
    return _CRC_MARK + digits.encode() + b"\x02"


def encode_blank(size_left: int) -> bytes:
    """Returns the 8 bytes that end a file in which `size_left` bytes are left."""
    return SIZE_AND_MAGIC.pack(size_left, MAGIC_BLANK)


def _separated(block: bytes) -> bytes:
    return block if not block or block.endswith(b"\x02") else block + b"\x02"


def ends_with_crc(buffer: Buffer, end: int) -> bool:
    """Returns whether the record that ends at a position has a property CRC at its end."""
    begin = end - PROPERTY_CRC_SIZE
    return begin >= 0 and bytes(buffer[begin : begin + len(_CRC_MARK)]) == _CRC_MARK


def split_record(buffer: Buffer, position: int) -> tuple[tuple, int, int, int, int, int]:  # type: ignore[type-arg]
    """Returns a record's head and the positions of its parts.

    Returns  (head fields, body begin, topic begin, topic end, properties begin, properties end)
    Errors   BadRecord: the lengths do not add up to the total size or exceed the buffer
    """
    try:
        (system_flag,) = SYSTEM_FLAG.unpack_from(buffer, position + SYSTEM_FLAG_POSITION)
        head_struct = HEADS[system_flag & HOSTS_V6_MASK]
        head = head_struct.unpack_from(buffer, position)
        body_begin = position + head_struct.size
        topic_begin = body_begin + head[14]
        if head[14] < 0:
            raise BadRecord("negative body length")
        if head[1] == MAGIC_V2:
            (topic_size,) = _I16.unpack_from(buffer, topic_begin)
            topic_begin += 2
        else:
            (topic_size,) = _U8.unpack_from(buffer, topic_begin)
            topic_begin += 1
        topic_end = topic_begin + topic_size
        (block_size,) = _I16.unpack_from(buffer, topic_end)
    except struct.error as error:
        raise BadRecord("it extends beyond its file") from error
    block_begin = topic_end + 2
    block_end = block_begin + block_size
    if topic_size < 0 or block_size < 0 or block_end - position != head[0]:
        raise BadRecord("its lengths disagree with its size")
    if block_end > len(buffer):
        raise BadRecord("it extends beyond its file")
    return head, body_begin, topic_begin, topic_end, block_begin, block_end


def decode_record(buffer: Buffer, position: int = 0, *, decompress: bool = True) -> StoredMessage:
    """Parses the record at a position, without checking its CRC and offset (see `check_record`).

    decompress   whether to decompress the body
    Errors       BadRecord
    """
    head, body_begin, topic_begin, topic_end, block_begin, block_end = split_record(
        buffer, position
    )
    body = bytes(buffer[body_begin : body_begin + head[14]])
    return StoredMessage(
        topic=bytes(buffer[topic_begin:topic_end]).decode("utf-8", "replace"),
        queue_id=head[3],
        queue_offset=head[5],
        physical_offset=head[6],
        store_size=head[0],
        body=plain_body(body, head[7]) if decompress else body,
        body_crc=head[2],
        properties=decode_properties(buffer[block_begin:block_end]),
        system_flag=head[7],
        flag=head[4],
        reconsume_times=head[12],
        born_timestamp_ms=head[8],
        born_host=head[9],
        store_timestamp_ms=head[10],
        store_host=head[11],
        prepared_transaction_offset=head[13],
    )


def is_shown(message: StoredMessage, budget: BodyBudget, *, always: bool = False) -> bool:
    """Decompresses a message's body; returns False if the body exceeds the rest of the budget.

    always   if the body exceeds the budget, leaves it as stored, sets its codec, and returns True
    """
    found = (budget.plain_or_stored if always else budget.plain)(message.body, message.system_flag)
    if found is None:
        return False
    message.body, message.body_codec = found
    return True


def check_record(
    buffer: Buffer,
    position: int,
    physical_offset: int,
    *,
    crc: bool = True,
    property_crc: bool = False,
) -> int:
    """Returns the size of the valid record at a position; 0 for a BLANK.

    Checks   size, magic, lengths, own offset; with `crc` the CRC of the body, and the property CRC
             if the record has one; with `crc` and `property_crc` (records of this store have one)
             also that the properties do not end in zeros, as they do if their page was lost
    Errors   BadRecord
    Source   CommitLog.checkMessageAndReturnSize
    """
    size, magic = SIZE_AND_MAGIC.unpack_from(buffer, position)
    if magic == MAGIC_BLANK:
        return 0
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise BadRecord(f"magic 0x{magic:08X} is not that of a record")
    if size < RECORD_SIZE_MIN or position + size > len(buffer):
        raise BadRecord(f"size {size} is too small or extends beyond its file")
    head, body_begin, _, _, block_begin, block_end = split_record(buffer, position)
    if head[6] != physical_offset:
        raise BadRecord(f"its own physical offset is {head[6]}")
    if crc:
        body = memoryview(buffer)[body_begin : body_begin + head[14]]
        if head[14] and body_crc(body) != head[2]:
            raise BadRecord("the CRC of its body is wrong")
        if block_end - block_begin >= PROPERTY_CRC_SIZE:
            _check_property_crc(buffer, position, block_end)
        if property_crc and block_end > block_begin and not buffer[block_end - 1]:
            raise BadRecord("its properties end in zeros")
    return int(size)


def _check_property_crc(buffer: Buffer, position: int, block_end: int) -> None:
    field_begin = block_end - PROPERTY_CRC_SIZE
    found = bytes(buffer[field_begin:block_end])
    if not found.startswith(_CRC_MARK):
        return
    if found != property_crc_field(memoryview(buffer)[position:field_begin]):
        raise BadRecord("the CRC over its properties is wrong")


def message_fields(message: StoredMessage) -> dict[str, Any]:
    """Returns a message as replies and commands show it, fields as in pocketmq.v1.StoredMessage.

    Shape    ids and hosts are texts; None for a value that the message does not have. The id of a
             message without unique key is the offset message id
    Source   MessageClientExt.getMsgId
    """
    properties = message.properties
    offset_id = offset_message_id(message.store_host, message.physical_offset)
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "store_size": message.store_size,
        "message_id": message.unique_key or offset_id,
        "offset_message_id": offset_id,
        "tag": message.tag,
        "keys": message.keys,
        "message_group": properties.get(SHARDING_KEY),
        "properties": properties,
        "body": message.body,
        "body_crc": message.body_crc,
        "system_flag": message.system_flag,
        "flag": message.flag,
        "reconsume_times": message.reconsume_times,
        "born_timestamp_ms": message.born_timestamp_ms,
        "born_host": text_from_host(message.born_host),
        "store_timestamp_ms": message.store_timestamp_ms,
        "store_host": text_from_host(message.store_host),
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "delay_level": property_number(properties.get(DELAY), INT32_MAX),
        "deliver_at_ms": property_number(properties.get(DELIVER_AT), OFFSET_MAX),
    }


def property_number(text: str | None, largest: int) -> int | None:
    """Returns a property's number; None if the property is absent or the number out of range."""
    return None if text is None else signed_number_of(text, largest)
