"""The CRCs of many records: `check_record` by column."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker.format.checksum import CRC_MASK, crc32
from broker.format.columns.heads import Heads, Numbers, words_of
from broker.format.record import PROPERTY_CRC_SIZE, property_crc_field
from broker.model.message import PROPERTY_CRC

_MARK_WORD: Final = np.uint64(int.from_bytes(PROPERTY_CRC.encode(), "little"))


def unsound_by_crc(buffer: bytearray, heads: Heads, *, property_crc: bool) -> int:
    """Return which record is the first whose CRC does not hold, their count when all do.

    Checks   the body's CRC, the property CRC where the record carries one; with `property_crc` also
             that the properties do not end in zeros
    Cost     0.2 µs a record of 1 KiB with zlib-ng, 0.6 µs with zlib
    """
    return min(
        _first_bad_body(buffer, heads),
        _first_bad_property_crc(buffer, heads),
        _first_zero_end(buffer, heads) if property_crc else len(heads),
    )


def _first_bad_body(buffer: bytearray, heads: Heads) -> int:
    view = memoryview(buffer)
    begins = heads.body_begin.tolist()
    ends = (heads.body_begin + heads.body_size).tolist()
    found = [crc32(view[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    bad = (np.array(found, dtype=np.int64) & CRC_MASK) != heads.body_crc
    bad &= heads.body_size > 0
    return int(bad.argmax()) if bad.any() else len(heads)


def _first_bad_property_crc(buffer: bytearray, heads: Heads) -> int:
    begins = heads.block_begin + heads.block_size - PROPERTY_CRC_SIZE
    has_room = heads.block_size >= PROPERTY_CRC_SIZE
    marked = np.flatnonzero(has_room & is_marked(buffer, begins))
    view = memoryview(buffer)
    for record in marked.tolist():
        begin = int(begins[record])
        field = property_crc_field(view[int(heads.begin[record]) : begin])
        if view[begin : begin + PROPERTY_CRC_SIZE] != field:
            return record
    return len(heads)


def is_marked(buffer: bytearray, begins: Numbers) -> NDArray[np.bool_]:
    """Return whether a property CRC's name and separator stand at each position."""
    octets = np.frombuffer(buffer, dtype=np.uint8)
    named: NDArray[np.bool_] = words_of(buffer)[begins] == _MARK_WORD
    separated: NDArray[np.bool_] = octets[begins + len(PROPERTY_CRC)] == 1
    return named & separated


def _first_zero_end(buffer: bytearray, heads: Heads) -> int:
    octets = np.frombuffer(buffer, dtype=np.uint8)
    bad = (heads.block_size > 0) & (octets[heads.block_begin + heads.block_size - 1] == 0)
    return int(bad.argmax()) if bad.any() else len(heads)
