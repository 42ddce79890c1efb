"""Finds some properties of many records: positions of the values of UNIQ_KEY, KEYS, TAGS, ….

The rules are those of `decode_properties`: empty values are dropped; of duplicate names the last
one wins. Each block is copied into a row that ends in a pair separator, so that no pair extends
beyond its row.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import ROWS_SIZE_MAX, Heads, Numbers, Words, rows_at
from pocketmq.format.properties import decode_properties
from pocketmq.model.message import DELAY, KEYS, MULTI_QUEUE_OFFSET, TAGS, UNIQUE_KEY

_NAME_SEPARATOR: Final = 1
_PAIR_SEPARATOR: Final = 2
_NAMES: Final = (UNIQUE_KEY, KEYS, TAGS, DELAY, MULTI_QUEUE_OFFSET)
# The first eight bytes of each name with its separator.
_WORD: Final = 8
_BEGINS: Final = [f"{name}\x01".encode()[:_WORD] for name in _NAMES]
_NAME_MASKS: Final = [np.uint64((1 << 8 * len(begin)) - 1) for begin in _BEGINS]
_NAME_WORDS: Final = [np.uint64(int.from_bytes(begin, "little")) for begin in _BEGINS]


class Spans(NamedTuple):
    """Values in a buffer, at most one per record: record number (ascending), begin, length."""

    record: Numbers
    begin: Numbers
    length: Numbers


class PropertySpans(NamedTuple):
    """Values of some properties; `multi_queue_offset`: offsets in further queues."""

    unique_key: Spans
    keys: Spans
    tags: Spans
    delay: Spans
    multi_queue_offset: Spans


def find_properties(buffer: bytearray, heads: Heads) -> PropertySpans:
    """Returns the positions of the values.

    Cost     about 0.5 µs a record with seven properties
    """
    found: list[list[Spans]] = [[] for _ in _NAMES]
    for records, width in _classes(heads.block_size):
        spans = _find_in_rows(buffer, heads, records, width)
        for one_name, parts in zip(spans, found, strict=True):
            parts.append(one_name)
    return PropertySpans(*(_joined(parts) for parts in found))


def _classes(sizes: Numbers) -> Iterator[tuple[Numbers, int]]:
    longest = int(sizes.max()) if len(sizes) else 0
    if longest * len(sizes) <= ROWS_SIZE_MAX:
        if longest:
            yield np.arange(len(sizes)), longest + 1
        return
    classes = np.ceil(np.log2(np.maximum(sizes, 64))).astype(np.int64)
    classes[sizes == 0] = -1
    for number in np.unique(classes[classes >= 0]).tolist():
        members = np.flatnonzero(classes == number)
        width = int(sizes[members].max()) + 1
        step = max(ROWS_SIZE_MAX // width, 1)
        for begin in range(0, len(members), step):
            yield members[begin : begin + step], width


def _find_in_rows(buffer: bytearray, heads: Heads, records: Numbers, width: int) -> list[Spans]:
    begin, size = heads.block_begin[records], heads.block_size[records]
    # An additional last row, so that whole words can be loaded from the row before it.
    cells = rows_at(buffer, np.append(begin, begin[-1:]), width).view(np.uint8)
    row_begin = np.arange(len(records), dtype=np.int64) * width
    cells[row_begin + size] = _PAIR_SEPARATOR
    cells[width - 1 :: width] = _PAIR_SEPARATOR
    separators = np.flatnonzero((cells[: len(records) * width] - 1) < _PAIR_SEPARATOR)
    is_name_end = cells[separators] == _NAME_SEPARATOR
    opens = is_name_end.copy()
    opens[1:] &= ~is_name_end[:-1]
    pairs = np.flatnonzero(opens)
    name_begin = separators[pairs - 1] + 1
    name_begin[: int(len(pairs) > 0 and pairs[0] == 0)] = 0
    words = _words_at(cells, name_begin, width)
    found = []
    for name, mask, word in zip(_NAMES, _NAME_MASKS, _NAME_WORDS, strict=True):
        hits = np.flatnonzero((words & mask) == word)
        places, pair = name_begin[hits], pairs[hits]
        row = places // width
        row_place = row_begin[row]
        value_begin = places + (len(name) + 1)
        value_end = _value_ends(separators, is_name_end, pair)
        kept = (value_end > value_begin) & (places - row_place < size[row])
        kept &= separators[pair] == value_begin - 1
        if len(name) > _WORD:
            kept[kept] = _are_named(cells, places[kept], name.encode())
        if not kept.all():
            row, row_place = row[kept], row_place[kept]
            value_begin, value_end = value_begin[kept], value_end[kept]
        found.append(
            _last_of_each(
                records[row], begin[row] + (value_begin - row_place), value_end - value_begin
            )
        )
    return found


def _are_named(cells: NDArray[np.uint8], places: Numbers, name: bytes) -> list[bool]:
    return [cells[place : place + len(name)].tobytes() == name for place in places.tolist()]


def _words_at(cells: NDArray[np.uint8], positions: Numbers, padding: int) -> Words:
    """Returns the eight bytes at each position; `padding` bytes follow the last position."""
    if padding < 8:
        cells = np.append(cells, np.zeros(8, dtype=np.uint8))
    every: Words = np.ndarray(len(cells) - 7, dtype="<u8", buffer=cells, strides=(1,))
    return every[positions]


def _value_ends(separators: Numbers, is_name_end: NDArray[np.bool_], pairs: Numbers) -> Numbers:
    following = pairs + 1
    if not is_name_end[following].any():
        return separators[following]
    pair_separators = np.flatnonzero(~is_name_end)
    return separators[pair_separators[np.searchsorted(pair_separators, pairs)]]


def _last_of_each(record: Numbers, begin: Numbers, length: Numbers) -> Spans:
    if len(record) > 1:
        is_last = np.ones(len(record), dtype=np.bool_)
        np.not_equal(record[1:], record[:-1], out=is_last[:-1])
        if not is_last.all():
            return Spans(record[is_last], begin[is_last], length[is_last])
    return Spans(record, begin, length)


def _joined(parts: list[Spans]) -> Spans:
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return Spans(none, none, none)
    if len(parts) == 1:
        return parts[0]
    record, begin, length = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(record, kind="stable")
    return Spans(record[order], begin[order], length[order])


def split_keys(buffer: bytearray, keys: Spans) -> tuple[Spans, Numbers]:
    """Splits KEYS values; returns the pieces, and the ordinal of each in its record, from 0.

    Single spaces separate pieces; empty pieces are dropped. `record` of the result ascends, with
    repetitions.
    """
    if not len(keys.record):
        return keys, keys.record
    parts = []
    for chosen, width in _classes(keys.length):
        parts.append(_split_rows(buffer, Spans(*(column[chosen] for column in keys)), width))
    pieces = _joined(parts)
    return pieces, _ordinals(pieces.record)


def _split_rows(buffer: bytearray, keys: Spans, width: int) -> Spans:
    cells = rows_at(buffer, keys.begin, width).view(np.uint8)
    row_begin = np.arange(len(keys.record), dtype=np.int64) * width
    cells[row_begin + keys.length] = ord(" ")
    cells[width - 1 :: width] = ord(" ")
    ends = np.flatnonzero(cells == ord(" "))
    begins = np.empty(len(ends), dtype=np.int64)
    begins[0] = 0
    begins[1:] = ends[:-1] + 1
    row = begins // width
    column = begins - row * width
    kept = np.flatnonzero((ends > begins) & (column < keys.length[row]))
    row = row[kept]
    return Spans(keys.record[row], keys.begin[row] + column[kept], (ends - begins)[kept])


def _ordinals(record: Numbers) -> Numbers:
    """Returns the ordinal of each element among equal elements of an ascending column."""
    numbers = np.arange(len(record), dtype=np.int64)
    is_first = np.ones(len(record), dtype=np.bool_)
    np.not_equal(record[1:], record[:-1], out=is_first[1:])
    first: Numbers = np.maximum.accumulate(np.where(is_first, numbers, 0))
    return numbers - first


def decoded(blocks: Iterable[memoryview]) -> list[dict[str, str]]:
    """Returns all properties of blocks that cannot be decoded by column, one by one."""
    return list(map(decode_properties, blocks))
