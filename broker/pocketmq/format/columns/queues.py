"""Numbers the queues of many records.

Topics are byte strings of any length. A record's topic and queue id are hashed to 64 bits. The hash
leads to a queue met before, with which the record is compared byte by byte. Of other records those
with the same hash share a representative, and are compared with it. So two topics with the same
hash are still distinct.
"""

import json
from dataclasses import dataclass
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
_BUCKETS: Final = np.uint64((1 << BUCKET_BITS) - 1)
_SHIFTS: Final = (_SHIFT, np.uint64(64 - 2 * BUCKET_BITS))
_FACTORS: Final = np.array([pow(int(_MIX), 2 * n + 1, 1 << 64) for n in range(1, 34)], "<u8")
"""Odd numbers; a word of zeros adds nothing, so a topic's hash is that of any number of words."""
_LOW_BYTES: Final = np.array([(1 << 8 * count) - 1 for count in range(8)] + [2**64 - 1], "<u8")


class QueueTable:
    """The queues of the records so far; a queue's number is its index in `keys`.

    removed    JSON: for deleted topics, by queue id or EVERY_QUEUE, the queue offset below which
               messages have no unit
    left_over  bounds of the records that no longer belong to a queue
    """

    __slots__ = (
        "_buckets", "_floors", "_known", "_left_over", "_lowest", "_numbers", "_prefixes",
        "_removed", "_tag_prefixes", "keys", "met",
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
        self._known = _KnownQueues()

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

        Cost     about 0.1 µs a record, 3 µs a new queue
        """
        if not len(heads):
            return np.zeros(0, dtype=np.int64)
        if int(heads.topic_size.max()) > TOPIC_SIZE_MAX:
            representatives, places = _alike_one_by_one(buffer, heads)
            return self._added(buffer, heads, representatives)[places]
        texts = _texts(buffer, heads)
        numbers = self._known.find(texts)
        unknown = np.flatnonzero(numbers < 0)
        if len(unknown):
            heads, texts = heads.take(unknown), texts.take(unknown)
            representatives, places = self._alike(buffer, heads, texts)
            added = self._added(buffer, heads, representatives)
            self._known.add(added, texts.take(representatives))
            numbers[unknown] = added[places]
        return numbers

    def _added(self, buffer: bytearray, heads: Heads, rows: Numbers) -> Numbers:
        """Returns the queue numbers of some records; new queues get the next numbers."""
        begins, sizes, queue_ids = (
            column[rows].tolist()
            for column in (heads.topic_begin, heads.topic_size, heads.queue_id)
        )
        found = [
            (bytes(buffer[begin : begin + size]), queue_id)
            for begin, size, queue_id in zip(begins, sizes, queue_ids, strict=True)
        ]
        known = [
            self.add(*key) if number is None else number
            for key, number in zip(found, map(self._numbers.get, found), strict=True)
        ]
        return np.array(known, dtype=np.int64)

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

    def _alike(self, buffer: bytearray, heads: Heads, texts: "_Texts") -> tuple[Numbers, Numbers]:
        """Returns (a representative record of each queue, for each record its queue's index)."""
        found = self._by_bucket(texts.folded)
        representatives, places = found if found is not None else _by_sorting(texts.folded)
        if not texts.are_equal(texts.take(representatives), places).all():
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


@dataclass(slots=True)
class _Texts:
    """Topics and queue ids by record or queue.

    folded   a hash of both
    words    the topics' words of eight bytes, zero-padded; columns of zeros may be absent
    """

    folded: Words
    queue_id: Numbers
    size: Numbers
    words: list[Words]

    def take(self, chosen: Numbers) -> "_Texts":
        words = [word[chosen] for word in self.words]
        return _Texts(self.folded[chosen], self.queue_id[chosen], self.size[chosen], words)

    def are_equal(self, others: "_Texts", places: Numbers) -> NDArray[np.bool_]:
        """Returns whether each has the text of the one at its place in others."""
        same: NDArray[np.bool_] = others.folded[places] == self.folded
        same &= others.queue_id[places] == self.queue_id
        same &= others.size[places] == self.size  # So the words that only one side has are zeros.
        for word, other in zip(self.words, others.words, strict=False):
            same &= other[places] == word
        return same


def _texts(buffer: bytearray, heads: Heads) -> _Texts:
    every = words_of(buffer)
    folded: Words = (heads.queue_id.astype(np.uint64) + np.uint64(1)) * _FACTORS[0]
    words: list[Words] = []
    for begin in range(0, int(heads.topic_size.max()), 8):
        left = np.clip(heads.topic_size - begin, 0, 8)
        word = every[heads.topic_begin + begin] & _LOW_BYTES[left]
        words.append(word)
        folded += word * _FACTORS[len(words)]
    folded ^= folded >> _FOLD
    return _Texts(folded * _MIX, heads.queue_id, heads.topic_size, words)


class _KnownQueues:
    """Finds the numbers of queues that were met before, by two places in tables of their hashes."""

    __slots__ = ("_slots", "_texts")

    def __init__(self) -> None:
        self._slots = [np.zeros(1 << BUCKET_BITS, dtype=np.int32) for _ in _SHIFTS]
        """Numbers + 1 of queues, by a part of their hash; 0: none."""
        nothing = np.zeros(1, dtype=np.int64)
        self._texts = _Texts(nothing.astype(np.uint64), nothing, nothing - 1, [])
        assert len(self._texts.folded), "an index of a place without a queue is valid"

    def find(self, texts: _Texts) -> Numbers:
        """Returns the queue's number of each text; -1 if it was not added."""
        first, second = (
            slots[(texts.folded >> shift) & _BUCKETS].astype(np.int64) - 1
            for slots, shift in zip(self._slots, _SHIFTS, strict=True)
        )
        is_first = self._texts.folded[first] == texts.folded
        numbers: Numbers = np.where(is_first, first, second)
        numbers[~texts.are_equal(self._texts, numbers)] = -1
        return numbers

    def add(self, numbers: Numbers, texts: _Texts) -> None:
        """Adds queues; those whose two places others take are not found."""
        self._make_room(int(numbers.max()) + 1, len(texts.words))
        known = self._texts
        known.folded[numbers] = texts.folded
        known.queue_id[numbers], known.size[numbers] = texts.queue_id, texts.size
        for place, word in enumerate(texts.words):
            known.words[place][numbers] = word
        for slots, shift in zip(self._slots, _SHIFTS, strict=True):
            places = (texts.folded >> shift) & _BUCKETS
            is_free = slots[places] == 0
            slots[places[is_free]] = numbers[is_free] + 1
            is_left = slots[places] != numbers + 1
            numbers, texts = numbers[is_left], texts.take(np.flatnonzero(is_left))

    def _make_room(self, count: int, word_count: int) -> None:
        """Makes room for `count` queues, and one more: the index -1 must be that of no queue."""
        known = self._texts
        missing = count + 1 - len(known.folded)
        if missing > 0:
            more = max(missing, len(known.folded))
            for name in ("folded", "queue_id", "size"):
                column = getattr(known, name)
                setattr(known, name, np.append(column, np.full(more, -1).astype(column.dtype)))
            known.words = [np.append(word, np.zeros(more, np.uint64)) for word in known.words]
        while len(known.words) < word_count:
            known.words.append(np.zeros(len(known.folded), dtype=np.uint64))


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
