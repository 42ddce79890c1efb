"""Encodes the SendMessageResponse of RocketMQ's protocol for a successful send on the fast path.

    0A status │ 12 size entry: 0A status │ 12 id │ 1A transaction id = id │ 20 queue offset

The bytes equal those of the generated classes: varints have their shortest form, and zeros are
omitted.
"""

from typing import Final

from pocketmq.format.send_records import SendRecords
from pocketmq.native.machine import BytesWriter, i64
from pocketmq.rpc.codec.protobuf_write import (
    number_size,
    text_size,
    write_head,
    write_number,
    write_text,
)

OK: Final = b"\x0a\x08\x08\xa0\x9c\x01\x12\x02OK"
"""Field 1 of a reply, and of each of its entries: a Status with 08 code 20000, 12 text."""
ENTRY: Final = 2
"""Field of an entry in the reply to a send or an ack."""
_ID: Final = 2
_TRANSACTION_ID: Final = 3
_QUEUE_OFFSET: Final = 4


def encode_official_reply(records: SendRecords, out: BytesWriter) -> bytes:
    """Returns the reply to a request whose records were all stored.

    out      buffer, overwritten
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
        size = len(OK) + 2 * text_size(len(identity))
        if queue_offset:
            size += number_size(queue_offset)
        write_head(out, ENTRY, size)
        out.write(OK)
        write_text(out, _ID, identity)
        write_text(out, _TRANSACTION_ID, identity)
        if queue_offset:
            write_number(out, _QUEUE_OFFSET, queue_offset)
        queue_offset += 1
        number += 1
    return out.getvalue()
