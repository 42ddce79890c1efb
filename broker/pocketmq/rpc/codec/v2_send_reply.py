"""The reply of RocketMQ's own protocol to a plain send, made of the put's result.

    0A status │ 12 size entry: 0A status │ 12 id │ 1A transaction id: the same │ 20 queue offset

The bytes are those the generated classes write: numbers in their shortest form, and zeros left out.
"""

from typing import Final

from pocketmq.format.send_records import SendRecords
from pocketmq.native.machine import BytesWriter, i64
from pocketmq.rpc.codec.send_reply import varint_size, write_varint

OK: Final = b"\x0a\x08\x08\xa0\x9c\x01\x12\x02OK"
"""The status in a reply, and in each of its entries: 08 code 20000, 12 text."""


def encode_official_reply(records: SendRecords, out: BytesWriter) -> bytes:
    """Returns the reply to a request that was encoded, all of which went well.

    out      is written over
    Cost     about 0.2 µs a message when compiled
    """
    request = records.request
    count: i64 = request.count
    assert count > 0
    queue_offset = records.queue_offset
    out.truncate(0)
    out.write(OK)
    number: i64 = 0
    while number < count:
        identity = request.spans[number].identity
        id_size: i64 = len(identity)
        size = len(OK) + 2 * (1 + varint_size(id_size) + id_size)
        if queue_offset:
            size += 1 + varint_size(queue_offset)
        out.append(0x12)
        write_varint(out, size)
        out.write(OK)
        out.append(0x12)
        write_varint(out, id_size)
        out.write(identity)
        out.append(0x1A)
        write_varint(out, id_size)
        out.write(identity)
        if queue_offset:
            out.append(0x20)
            write_varint(out, queue_offset)
        queue_offset += 1
        number += 1
    return out.getvalue()
