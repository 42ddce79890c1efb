"""Numbers the queues of many records.

Topics are byte strings of any length. Each is hashed to one 64-bit number, records with the same
hash share a representative, and every record is then compared with its representative byte by byte.
So two topics with the same hash are still distinct.
"""

import json
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Heads, Numbers, Words, words_of
from pocketmq.format.deleted_topics import NOTHING_LEFT_OVER, LeftOver
from pocketmq.format.index_layout import TAG_TYPE, index_key
from pocketmq.format.java_hash import WRAP, java_hash
from pocketmq.model.message import QueueKey

EVERY_QUEUE: Final = "*"
BUCKET_BITS: Final = 20
TOPIC_SIZE_MAX: Final = 256
"""Longest topic that is compared by column; longer ones, which no broker accepts, one by one."""
TOPICS_KEPT: Final = 10_000
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(64 - BUCKET_BITS)
_FOLD: Final = np.uint64(29)
_LOW_BYTES: Final = np.array([(1 << 8 * count) - 1 for count in range(8)] + [2**64 - 1], "<u8")


class QueueTable:
    """The queues of the records so far; a queue's number is its index in `keys`.

    removed    JSON: for deleted topics, by queue id or EVERY_QUEUE, the queue offset below which
               messages have no unit
    left_over  bounds of the records that no longer belong to a queue
    """

    __slots__ = (
        "_buckets", "_floors", "_left_over", "_lowest", "_numbers", "_prefixes", "_removed",
        "_tag_prefixes", "keys", "met",
    )  # fmt: skip

    def __init__(self, removed: str = "", left_over: LeftOver = NOTHING_LEFT_OVER) -> None:
        self._removed: dict[str, dict[str, int]] = json.loads(removed or "{}")
        self._lowest = np.zeros(64, dtype=np.int64)
        self._left_over = left_over
        self._floors = np.zeros(64, dtype=np.int64)
        self.keys: list[QueueKey] = []
        self.met: set[int] = set()
        """Numbers of queues that had left-over records."""
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._prefixes = np.zeros(64, dtype=np.uint32)
        self._tag_prefixes = np.zeros(64, dtype=np.uint32)
        self._buckets = np.empty(1 << BUCKET_BITS, dtype=np.int32)

    @property
    def prefixes(self) -> NDArray[np.uint32]:
        """Hash of `topic#`, the prefix of every key, by queue number."""
        return self._prefixes

    @property
    def lowest(self) -> Numbers | None:
        """Queue offset below which messages have no unit, by queue number; None: all have units."""
        return self._lowest if self._removed else None

    def are_left_over(self, queue: Numbers, physical_offset: Numbers) -> NDArray[np.bool_] | None:
        """Returns for each record whether it is left over; None: no record is."""
        if self._left_over is NOTHING_LEFT_OVER:
            return None
        are_left: NDArray[np.bool_] = physical_offset < self._floors[queue]
        self.met.update(np.unique(queue[are_left]).tolist())
        return are_left

    def first_place(self, topic: str, queue_id: int) -> int:
        """Returns the physical offset of a queue's first message; 0 if it is unknown."""
        return self._left_over.places.get((topic, queue_id), 0)

    @property
    def left_over(self) -> LeftOver:
        """Bounds of left-over records, completed from the records so far."""
        return self._left_over.with_empty([self.keys[number] for number in self.met], self.keys)

    @property
    def tag_prefixes(self) -> NDArray[np.uint32]:
        """Hash of `topic#T#`, the prefix of every tag, by queue number."""
        return self._tag_prefixes

    def number(self, buffer: bytearray, heads: Heads) -> Numbers:
        """Returns the queue number of every record; new queues get the next numbers.

        Cost     about 0.1 µs a record, 0.3 µs with more than some thousand queues at once
        """
        if not len(heads):
            return np.zeros(0, dtype=np.int64)
        representatives, places = self._alike(buffer, heads)
        begins = heads.topic_begin[representatives].tolist()
        sizes = heads.topic_size[representatives].tolist()
        queue_ids = heads.queue_id[representatives].tolist()
        found = [
            (bytes(buffer[begin : begin + size]), queue_id)
            for begin, size, queue_id in zip(begins, sizes, queue_ids, strict=True)
        ]
        known = [
            self.add(*key) if number is None else number
            for key, number in zip(found, map(self._numbers.get, found), strict=True)
        ]
        numbers: Numbers = np.array(known, dtype=np.int64)[places]
        return numbers

    def number_of(self, topic: bytes, queue_id: int) -> int:
        """Returns the number of one queue; a new queue gets the next number."""
        number = self._numbers.get((topic, queue_id))
        return self.add(topic, queue_id) if number is None else number

    def add(self, topic: bytes, queue_id: int) -> int:
        """Adds a new queue; returns its number."""
        assert (topic, queue_id) not in self._numbers
        text, prefix, tag_prefix = _topic_of(topic)
        number = len(self.keys)
        self.keys.append((text, queue_id))
        self._numbers[topic, queue_id] = number
        if number >= len(self._prefixes):
            self._lowest, self._floors = _doubled(self._lowest), _doubled(self._floors)
            self._prefixes = _doubled(self._prefixes)
            self._tag_prefixes = _doubled(self._tag_prefixes)
        if self._removed:
            places = self._removed.get(text, {})
            self._lowest[number] = places.get(str(queue_id), places.get(EVERY_QUEUE, 0))
        if self._left_over is not NOTHING_LEFT_OVER:
            self._floors[number] = self._left_over.floor_of(text, queue_id)
        self._prefixes[number] = prefix
        self._tag_prefixes[number] = tag_prefix
        return number

    def _alike(self, buffer: bytearray, heads: Heads) -> tuple[Numbers, Numbers]:
        """Returns (a representative record of each queue, for each record its queue's index)."""
        if int(heads.topic_size.max()) > TOPIC_SIZE_MAX:
            return _alike_one_by_one(buffer, heads)
        folded, words = _fold(buffer, heads)
        found = self._by_bucket(folded)
        representatives, places = found if found is not None else _by_sorting(folded)
        same = heads.queue_id[representatives][places] == heads.queue_id
        same &= heads.topic_size[representatives][places] == heads.topic_size
        for word in words:
            same &= word[representatives][places] == word
        if not same.all():
            return _alike_one_by_one(buffer, heads)
        return representatives, places

    def _by_bucket(self, folded: Words) -> tuple[Numbers, Numbers] | None:
        """Groups equal hashes by a table of buckets; None if two hashes share a bucket."""
        buckets = folded >> _SHIFT
        order = np.arange(len(folded), dtype=np.int32)
        self._buckets[buckets] = order
        chosen = self._buckets[buckets]
        if not np.array_equal(folded[chosen], folded):
            return None
        representatives = np.flatnonzero(chosen == order)
        places = np.empty(len(folded), dtype=np.int64)
        places[representatives] = np.arange(len(representatives))
        return representatives, places[chosen]


@lru_cache(maxsize=TOPICS_KEPT)
def _topic_of(topic: bytes) -> tuple[str, int, int]:
    """Returns the topic's name, and the hashes of `topic#` and `topic#T#`."""
    text = topic.decode("utf-8", "replace")
    hashes = (java_hash(index_key(text, "", kind)) & WRAP for kind in ("", TAG_TYPE))
    return text, next(hashes), next(hashes)


def _doubled(column: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([column, np.zeros_like(column)])


def _by_sorting(folded: Words) -> tuple[Numbers, Numbers]:
    _, representatives, places = np.unique(folded, return_index=True, return_inverse=True)
    return representatives, places


def _fold(buffer: bytearray, heads: Heads) -> tuple[Words, list[Words]]:
    """Returns (hash of queue id and topic of each record, the topics' words, zero-padded)."""
    every = words_of(buffer)
    folded: Words = heads.queue_id.astype(np.uint64) + np.uint64(1)
    words: list[Words] = []
    for begin in range(0, int(heads.topic_size.max()), 8):
        left = np.clip(heads.topic_size - begin, 0, 8)
        word = every[heads.topic_begin + begin] & _LOW_BYTES[left]
        words.append(word)
        folded = (folded ^ word) * _MIX
        folded ^= folded >> _FOLD
    return folded * _MIX, words


def _alike_one_by_one(buffer: bytearray, heads: Heads) -> tuple[Numbers, Numbers]:
    seen: dict[tuple[bytes, int], int] = {}
    representatives: list[int] = []
    places: list[int] = []
    columns: Any = zip(
        heads.topic_begin.tolist(), heads.topic_size.tolist(), heads.queue_id.tolist(), strict=True
    )
    for number, (begin, size, queue_id) in enumerate(columns):
        key = (bytes(buffer[begin : begin + size]), queue_id)
        if key not in seen:
            seen[key] = len(representatives)
            representatives.append(number)
        places.append(seen[key])
    return np.array(representatives, dtype=np.int64), np.array(places, dtype=np.int64)
