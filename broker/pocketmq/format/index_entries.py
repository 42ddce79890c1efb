"""Index entries of many records: the hashes of their keys, chained by slot.

Source: IndexService.buildIndex, IndexFile.putKey.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Numbers
from pocketmq.format.index_layout import (
    SECOND_DIFFERENCE_MAX,
    STYLE_5_5,
    TAG_TYPE,
    entry_keys,
    index_key,
    key_hash,
)
from pocketmq.format.java_hash import PIECE_MAX, WRAP, java_hash, java_hash_behind, java_hashes
from pocketmq.model.batch import Written
from pocketmq.model.message import KEY_SEPARATOR

ENTRY_TYPE: Final = np.dtype(
    [("hash", ">i4"), ("physical", ">i8"), ("second", ">i4"), ("previous", ">i4")]
)
PACKED_TYPE: Final = np.dtype([("hash", ">i4"), ("physical", ">i8"), ("time", ">i8")])
PACKED: Final = Struct(">iqq")
LINKED_MAX: Final = 1 << 20
_NUMBER_BITS: Final = np.int64(20)
FEW_RECORDS: Final = 6
"""Number of records up to which plain Python is faster than numpy."""


def searched_hash(topic: str, key: str, index_type: str = "") -> int:
    """Returns the hash that entries of a key contain."""
    return key_hash(java_hash(index_key(topic, key, index_type)))


def packed(hashes: Numbers, physical_offsets: Numbers, times_ms: Numbers) -> bytes:
    """Packs columns of entries in log order into the form of `Written.entries`."""
    rows = np.empty(len(hashes), dtype=PACKED_TYPE)
    rows["hash"], rows["physical"], rows["time"] = hashes, physical_offsets, times_ms
    return rows.tobytes()


def unpacked(entries: bytes) -> tuple[Numbers, Numbers, Numbers]:
    """Returns columns of entries: key hash, physical offset, store time."""
    rows = np.frombuffer(entries, dtype=PACKED_TYPE)
    return (
        rows["hash"].astype(np.int64),
        rows["physical"].astype(np.int64),
        rows["time"].astype(np.int64),
    )


def index_entries(written: Sequence[Written], style: str) -> bytes:
    """Hot: returns the index entries of records in log order, in the form of `Written.entries`.

    Cost     about 3 µs a record up to FEW_RECORDS, 0.7 µs from some hundred on; 0.1 µs for a run
             that has `entries`
    """
    made: list[bytes] = []
    texts: list[Written] = []
    for run in written:
        if run.entries is None:
            texts.append(run)
            continue
        if texts:
            made.append(_of_texts(texts, style))
            texts = []
        made.append(run.entries)
    if texts:
        made.append(_of_texts(texts, style))
    return made[0] if len(made) == 1 else b"".join(made)


def _of_texts(written: Sequence[Written], style: str) -> bytes:
    if sum(map(len, written)) <= FEW_RECORDS:
        return _few(written, style)
    if any(KEY_SEPARATOR in "".join(run.keys) for run in written):
        return _many_of_several_keys(written, style)
    return _many(written, style)


def _few(written: Sequence[Written], style: str) -> bytes:
    made: list[bytes] = []
    for run in written:
        topic, prefix = run.destination.topic, _topic_hash(run.destination.topic)
        time_ms = run.store_time_ms
        columns = zip(run.physical_offsets, run.unique_keys, run.keys, run.tags, strict=True)
        for place, unique_key, keys, tag in columns:
            hashes: list[int] = []
            if unique_key:
                hashes.append(java_hash_behind(prefix, unique_key))
            names = keys.split(KEY_SEPARATOR) if KEY_SEPARATOR in keys else (keys,)
            hashes += [java_hash_behind(prefix, name) for name in names if name]
            if tag and style == STYLE_5_5:
                hashes.append(_tag_hash(topic, tag))
            made += [PACKED.pack(key_hash(hashed), place, time_ms) for hashed in hashes]
    return b"".join(made)


def _many(written: Sequence[Written], style: str) -> bytes:
    columns = [
        [text for run in written for text in run.unique_keys],
        [text for run in written for text in run.keys],
    ]
    record_count = len(columns[0])
    hashed = java_hashes(columns[0] + columns[1], _prefixes(written, 2))
    rows = np.empty((record_count, 3 if style == STYLE_5_5 else 2), dtype=np.uint32)
    rows[:, 0] = hashed[:record_count]
    rows[:, 1] = hashed[record_count:]
    if style == STYLE_5_5:
        columns.append([tag for run in written for tag in run.tags])
        rows[:, 2] = [_tag_hash(run.destination.topic, tag) for run in written for tag in run.tags]
    places, times = _places_and_times(written)
    width = len(columns)
    found = _key_hashes(rows.ravel()), places.repeat(width), times.repeat(width)
    if not any("" in column for column in columns):
        return packed(*found)
    is_present = np.array(columns, dtype=object).T.astype(np.bool_).ravel()
    return packed(*(column[is_present] for column in found))


def _many_of_several_keys(written: Sequence[Written], style: str) -> bytes:
    texts: list[str] = []
    counts: list[int] = []
    for run in written:
        for unique_key, keys, tag in zip(run.unique_keys, run.keys, run.tags, strict=True):
            found = entry_keys(unique_key, keys, tag, style)
            counts.append(len(found))
            texts += found
    topics = _prefixes(written, 1)
    hashed = java_hashes(texts, topics if isinstance(topics, int) else topics.repeat(counts))
    places, times = _places_and_times(written)
    return packed(_key_hashes(hashed), places.repeat(counts), times.repeat(counts))


def _places_and_times(written: Sequence[Written]) -> tuple[Numbers, Numbers]:
    places = [place for run in written for place in run.physical_offsets]
    times = np.array([run.store_time_ms for run in written], dtype=np.int64)
    return np.array(places, dtype=np.int64), times.repeat([len(run) for run in written])


def _prefixes(written: Sequence[Written], times: int) -> int | NDArray[np.uint32]:
    topics = {run.destination.topic for run in written}
    if len(topics) == 1:
        return _topic_hash(topics.pop())
    hashes = np.array([_topic_hash(run.destination.topic) for run in written], dtype=np.uint32)
    return np.tile(hashes.repeat([len(run) for run in written]), times)


def _key_hashes(unsigned: NDArray[np.uint32]) -> Numbers:
    hashes: Numbers = np.abs(unsigned.view(np.int32).astype(np.int64))
    hashes[hashes == 2**31] = 0
    return hashes


@lru_cache(maxsize=4096)
def _topic_hash(topic: str) -> int:
    return java_hash(index_key(topic, "")) & WRAP


@lru_cache(maxsize=4096)
def _known_tag_hash(topic: str, tag: str) -> int:
    return java_hash(index_key(topic, tag, TAG_TYPE)) & WRAP


def _tag_hash(topic: str, tag: str) -> int:
    if len(tag) <= PIECE_MAX:
        return _known_tag_hash(topic, tag)
    return _known_tag_hash.__wrapped__(topic, tag)


def link_entries(
    hashes: NDArray[Any], slots: NDArray[Any], number: int
) -> tuple[NDArray[np.int64], int]:
    """Hot: links entries into a table of slots, which then name the newest of each chain.

    Shape    hashes: at most LINKED_MAX, not negative; number: entry number of the first hash;
             slots: entry numbers, any other value counts as empty
    Returns  (number of the previous entry in each chain or 0, count of formerly empty slots)
    Cost     0.1 µs an entry in blocks of some ten thousand
    Source   IndexFile.putKey
    """
    count = len(hashes)
    packed = hashes.astype(np.int64) % len(slots) << _NUMBER_BITS
    packed |= np.arange(count, dtype=np.int64)
    packed.sort()
    place = packed & (LINKED_MAX - 1)
    slot = packed >> _NUMBER_BITS
    is_first = np.empty(count, dtype=np.bool_)
    is_first[:1] = True
    np.not_equal(slot[1:], slot[:-1], out=is_first[1:])
    before = np.empty(count, dtype=np.int64)
    before[1:] = place[:-1]
    before[1:] += number
    heads = slots[slot[is_first]].astype(np.int64)
    heads[(heads <= 0) | (heads > number)] = 0
    before[is_first] = heads
    previous = np.empty(count, dtype=np.int64)
    previous[place] = before
    is_last = np.ones(count, dtype=np.bool_)
    is_last[:-1] = is_first[1:]
    slots[slot[is_last]] = place[is_last] + number
    return previous, int(np.count_nonzero(heads == 0))


def second_differences(times_ms: NDArray[np.int64], begin_timestamp_ms: int) -> NDArray[np.int64]:
    """Returns `second_difference` for many store times."""
    if begin_timestamp_ms <= 0:
        return np.zeros(len(times_ms), dtype=np.int64)
    seconds: NDArray[np.int64] = np.maximum(times_ms - begin_timestamp_ms, 0) // 1000
    return np.minimum(seconds, SECOND_DIFFERENCE_MAX)
