"""Filler records that replace damage, so that the log is a chain of valid records again.

    valid record │ damaged bytes         │ valid record
    valid record │ filler records        │ valid record
    valid record │ fillers …      │BLANK │               up to a file's end

A filler is a record of the quarantine topic with transaction type rollback: brokers make neither
unit nor index entry for it. It shows dispatch that messages are missing (log/consume_queue.py).
"""

from collections.abc import Iterator
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

from pocketmq.format.addresses import IPV4_HOST_SIZE
from pocketmq.format.record import BLANK_SIZE, encode_blank, encode_records, record_sizes
from pocketmq.model.batch import Batch, Destination, batch_of
from pocketmq.model.message import TRANSACTION_ROLLBACK
from pocketmq.model.topic import QUARANTINE_TOPIC

SIZE_MAX: Final = 4 * 1024 * 1024
"""Largest filler: RocketMQ's default message limit. Several fillers replace longer damage."""
_NO_HOST: Final = bytes(IPV4_HOST_SIZE)


class Style(NamedTuple):
    """Properties of fillers, taken from adjacent records.

    property_crc   whether fillers end with a CRC of the whole record
    """

    time_ms: int
    property_crc: bool


def size_min(style: Style) -> int:
    """Returns the size of the shortest filler, whose topic is one letter."""
    return _encoded_size(QUARANTINE_TOPIC[:1], style)


def stand_in(begin: int, end: int, style: Style) -> Iterator[bytes]:
    """Yields records that fill [begin, end) of the log exactly.

    Shape    end - begin >= size_min(style)
    """
    size = end - begin
    assert size >= size_min(style)
    count = ceil(size / SIZE_MAX)
    borders = [begin + size * number // count for number in range(count + 1)]
    for lower, upper in pairwise(borders):
        yield _record(lower, upper - lower, style)


def stand_in_to_file_end(
    begin: int, end: int, style: Style, *, holds_records: bool
) -> Iterator[bytes]:
    """Yields fillers for [begin, end), where `end` is the end of a file that further files follow.

    holds_records   False: only the BLANK itself is damaged
    Shape           end - begin >= BLANK_SIZE
    """
    room = end - begin - BLANK_SIZE
    if not holds_records or room < size_min(style):
        yield encode_blank(end - begin)
    else:
        yield from stand_in(begin, end - BLANK_SIZE, style)
        yield encode_blank(BLANK_SIZE)


def _record(physical_offset: int, size: int, style: Style) -> bytes:
    spare = size - _encoded_size("", style)
    topic = QUARANTINE_TOPIC[:spare]
    record = encode_records(
        _destination(topic), _batch(bytes(spare - len(topic)), style), [size], queue_offset=0,
        physical_offset=physical_offset, store_timestamp_ms=style.time_ms,
        property_crc=style.property_crc,
    )  # fmt: skip
    assert len(record) == size
    return record


def _encoded_size(topic: str, style: Style) -> int:
    batch = _batch(b"", style)
    return record_sizes(_destination(topic), batch, property_crc=style.property_crc)[0]


def _batch(body: bytes, style: Style) -> Batch:
    return batch_of(body, born_ms=style.time_ms, born_host=_NO_HOST)


def _destination(topic: str) -> Destination:
    return Destination(topic, 0, _NO_HOST, TRANSACTION_ROLLBACK)
