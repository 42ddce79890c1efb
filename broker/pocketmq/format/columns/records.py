"""Computes the columns that views need of many records (`written_at` does so for one record)."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Heads, Numbers
from pocketmq.format.columns.properties import PropertySpans, Spans, find_properties, split_keys
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.columns.texts import hash_texts
from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.index_layout import STYLE_5_5, StyleSpans
from pocketmq.format.multi_dispatch import further_places
from pocketmq.format.properties import decode_properties
from pocketmq.model.message import (
    FLAG_TRANSACTION_MASK,
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_ROLLBACK,
)
from pocketmq.model.store_shape import DelayLevels


# -- further columns ---------------------------------------------------------------------------
class Further(NamedTuple):
    """Units in further queues: record number (ascending), queue number and queue offset of each."""

    record: Numbers
    queue: Numbers
    queue_offset: Numbers


_NONE: Final = Further(*(np.zeros(0, dtype=np.int64),) * 3)


def further_units(
    buffer: bytearray, heads: Heads, queue: Numbers, queues: QueueTable, spans: Spans
) -> Further:
    """Returns the further units of many records.

    If a queue was deleted and created again, units before its new first message are left out.
    Shape    queue: the records' own queue numbers; spans: the properties that name further units
    Cost     some 10 µs for each record with further units
    """
    found: list[tuple[int, int, int]] = []
    for record in spans.record.tolist():
        begin, place = int(heads.block_begin[record]), int(heads.physical_offset[record])
        block = buffer[begin : begin + int(heads.block_size[record])]
        own = queues.keys[int(queue[record])]
        for (topic, queue_id), queue_offset in further_places(*own, decode_properties(block)):
            if place >= queues.first_place(topic, queue_id):
                number = queues.number_of(topic.encode(), queue_id)
                found.append((record, number, queue_offset))
    return Further(*np.array(found, dtype=np.int64).reshape(-1, 3).T) if found else _NONE


# -- columns of records ------------------------------------------------------------------------
ENTRY_TYPE: Final = np.dtype([("hash", "<i4"), ("physical_offset", "<i8"), ("time_ms", "<i8")])
"""An index entry, packed in 20 bytes, in this processor's byte order."""


class Entries(NamedTuple):
    """Index entries in log order: record number and key hash of each."""

    record: Numbers
    hash: NDArray[np.int32]


class Decoded(NamedTuple):
    """Records with the columns that views need.

    queue       queue numbers in the table that was passed to `decode`
    is_queued   whether the record has a unit: it is neither prepared, nor a rollback, nor of a
                deleted topic
    further     units in other queues
    """

    heads: Heads
    queue: Numbers
    tags_code: Numbers
    is_queued: NDArray[np.bool_]
    entries: Entries
    further: Further


class UnitRows(NamedTuple):
    """Units in log order: record number (ascending), queue number, queue offset, unit of each."""

    record: Numbers
    queue: Numbers
    queue_offset: Numbers
    units: NDArray[np.void]


def decode(
    buffer: bytearray, heads: Heads, queues: QueueTable, *, style: str, levels: DelayLevels,
    older_styles: StyleSpans = (),
) -> Decoded:  # fmt: skip
    """Returns the records' queues, tags codes and index entries.

    older_styles   styles that replace `style` for records below some offsets
    Shape    heads are of valid records of this buffer (see `sound_count`)
    Cost     about 1 µs a record with three entries
    """
    queue = queues.number(buffer, heads)
    spans = find_properties(buffer, heads)
    transaction = heads.system_flag & FLAG_TRANSACTION_MASK
    is_queued = (transaction == TRANSACTION_NONE) | (transaction == TRANSACTION_COMMIT)
    further = further_units(buffer, heads, queue, queues, spans.multi_queue_offset)
    if len(further.record):
        further = _chosen(further, is_queued[further.record])
    are_left = queues.are_left_over(queue, heads.physical_offset)
    if are_left is not None:
        is_queued &= ~are_left
    if queues.lowest is not None:
        is_queued &= heads.queue_offset >= queues.lowest[queue]
        further = _chosen(further, further.queue_offset >= queues.lowest[further.queue])
    is_indexed = transaction != TRANSACTION_ROLLBACK
    is_tagged = is_indexed & _has_tag_entries(heads, style, older_styles)
    return Decoded(
        heads,
        queue,
        _tags_codes(buffer, heads, queue, queues, spans, levels),
        is_queued,
        _entries(buffer, queue, queues, spans, is_indexed, is_tagged),
        further,
    )


def _chosen(further: Further, is_chosen: NDArray[np.bool_]) -> Further:
    return Further(*(column[is_chosen] for column in further))


def _has_tag_entries(heads: Heads, style: str, older: StyleSpans) -> NDArray[np.bool_]:
    has_entries = np.full(len(heads), style == STYLE_5_5)
    for end, older_style in reversed(older):
        has_entries[heads.physical_offset < end] = older_style == STYLE_5_5
    return has_entries


def _tags_codes(
    buffer: bytearray, heads: Heads, queue: Numbers, queues: QueueTable, spans: PropertySpans,
    levels: DelayLevels,
) -> Numbers:  # fmt: skip
    codes = np.zeros(len(heads), dtype=np.int64)
    hashes = hash_texts(buffer, spans.tags.begin, spans.tags.length)
    codes[spans.tags.record] = hashes.view(np.int32)
    if len(spans.delay.record):
        _schedule(buffer, heads, queue, queues, spans.delay, levels, codes)
    return codes


def _schedule(
    buffer: bytearray, heads: Heads, queue: Numbers, queues: QueueTable, delay: Spans,
    levels: DelayLevels, codes: Numbers,
) -> None:  # fmt: skip
    waiting = [number for number, key in enumerate(queues.keys) if levels.apply_to(key[0])]
    for at in np.flatnonzero(np.isin(queue[delay.record], waiting)).tolist():
        record, begin = int(delay.record[at]), int(delay.begin[at])
        text = buffer[begin : begin + int(delay.length[at])].decode("utf-8", "replace")
        due_ms = levels.due_ms(text, int(heads.store_timestamp_ms[record]))
        if due_ms is not None:
            codes[record] = due_ms


def _entries(
    buffer: bytearray, queue: Numbers, queues: QueueTable, spans: PropertySpans,
    is_indexed: NDArray[np.bool_], is_tagged: NDArray[np.bool_],
) -> Entries:  # fmt: skip
    """Returns the index entries; those of a record are ordered unique key, keys, tag."""
    unique, tags = spans.unique_key, spans.tags
    pieces, ordinals = split_keys(buffer, spans.keys)
    if not is_indexed.all():
        unique = _indexed(unique, is_indexed)
        kept = is_indexed[pieces.record]
        pieces, ordinals = _indexed(pieces, is_indexed), ordinals[kept]
    if not is_tagged.all():
        tags = _indexed(tags, is_tagged)
    has_unique = np.zeros(len(queue), dtype=np.int64)
    has_unique[unique.record] = 1
    key_counts = np.bincount(pieces.record, minlength=len(queue))
    counts = has_unique + key_counts
    counts[tags.record] += 1
    ends = np.cumsum(counts)
    begins = ends - counts
    total = int(ends[-1]) if len(ends) else 0
    hashes = np.empty(total, dtype=np.uint32)
    hashes[begins[unique.record]] = _hashed(buffer, unique, queues.prefixes, queue)
    key_places = begins[pieces.record] + has_unique[pieces.record] + ordinals
    hashes[key_places] = _hashed(buffer, pieces, queues.prefixes, queue)
    hashes[ends[tags.record] - 1] = _hashed(buffer, tags, queues.tag_prefixes, queue)
    signed = hashes.view(np.int32)
    absolute = np.abs(signed)  # -2**31 has no positive counterpart and stays negative.
    absolute[absolute < 0] = 0
    return Entries(np.repeat(np.arange(len(queue), dtype=np.int64), counts), absolute)


def _hashed(
    buffer: bytearray, spans: Spans, prefixes: NDArray[np.uint32], queue: Numbers
) -> NDArray[np.uint32]:
    return hash_texts(buffer, spans.begin, spans.length, prefixes[queue[spans.record]])


def _indexed(spans: Spans, is_indexed: NDArray[np.bool_]) -> Spans:
    kept = is_indexed[spans.record]
    return Spans(*(column[kept] for column in spans))


def units_of(decoded: Decoded) -> NDArray[np.void]:
    """Returns the consume unit of every record, as stored on disk."""
    heads = decoded.heads
    units = np.empty(len(heads), dtype=UNIT_TYPE)
    units["physical_offset"] = heads.physical_offset
    units["size"] = heads.size
    units["tags_code"] = decoded.tags_code
    return units


def unit_rows(decoded: Decoded) -> UnitRows:
    """Returns all units of the records, in their own queues and in further ones."""
    record = np.flatnonzero(decoded.is_queued)
    queue, queue_offset = decoded.queue[record], decoded.heads.queue_offset[record]
    further = decoded.further
    if len(further.record):
        record = np.concatenate((record, further.record))
        order = np.argsort(record, kind="stable")
        queue = np.concatenate((queue, further.queue))[order]
        queue_offset = np.concatenate((queue_offset, further.queue_offset))[order]
        record = record[order]
    return UnitRows(record, queue, queue_offset, units_of(decoded)[record])


def spooled(decoded: Decoded) -> NDArray[np.void]:
    """Returns the index entries with offset and store time of their records, for an index file."""
    heads, entries = decoded.heads, decoded.entries
    rows = np.empty(len(entries.record), dtype=ENTRY_TYPE)
    rows["hash"] = entries.hash
    rows["physical_offset"] = heads.physical_offset[entries.record]
    rows["time_ms"] = heads.store_timestamp_ms[entries.record]
    return rows
