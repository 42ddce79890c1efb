"""Decodes all fields of many messages, column by column (`decode_record` decodes one record).

Columns are numpy arrays and joined bytes in Arrow's layout; Arrow itself is not needed here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.addresses import (
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    offset_message_id,
    text_from_host,
)
from pocketmq.format.body_codec import plain_body
from pocketmq.format.columns.heads import Heads, Numbers, words_of
from pocketmq.format.columns.properties import (
    PropertySpans,
    Spans,
    decoded,
    find_properties,
    split_keys,
)
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.columns.texts import hash_texts
from pocketmq.format.record import RECORD_HEAD
from pocketmq.model.message import FLAG_BORN_HOST_V6, FLAG_COMPRESSED, FLAG_STORE_HOST_V6

Flags = NDArray[np.bool_]
Bounds = NDArray[np.int32]

UNFOLDED_MAX: Final = 64 * 1024 * 1024
"""Upper limit of decompressed bytes in one slice: joined bodies must stay far below 2 GiB."""
_FRONT: Final = 8
"""Padding before the joined texts: an 8-byte load that ends in the first text stays in the buffer.
"""
_PAIR_SEPARATOR: Final = b"\x02"
_HEX: Final = np.array([f"{octet:02X}".encode() for octet in range(256)], "S2").view("<u2")
_FLAG_AT: Final = RECORD_HEAD.positions["flag"]
_BORN_HOST_AT: Final = RECORD_HEAD.positions["born_host"]
# Fields between store host and body, by their distance from the body.
_RECONSUME_TIMES_BACK: Final = RECORD_HEAD.size - RECORD_HEAD.positions["reconsume_times"]
_PREPARED_OFFSET_BACK: Final = RECORD_HEAD.size - RECORD_HEAD.positions["prepared_offset"]


class Integers(NamedTuple):
    """Integers; if `is_missing` is None, no number is missing."""

    values: Numbers
    is_missing: Flags | None = None


class Texts(NamedTuple):
    """Concatenated strings or bodies: number n is content[bounds[n] : bounds[n + 1]].

    Strings are valid UTF-8.
    """

    bounds: Bounds
    content: bytes
    is_missing: Flags | None = None

    def each(self) -> list[bytes]:
        """Returns the texts as a list; missing texts are empty."""
        ends = self.bounds.tolist()
        return [self.content[begin:end] for begin, end in pairwise(ends)]


class Ranges(NamedTuple):
    """Bodies that are still in the buffer: number n is buffer[begins[n] : begins[n] + sizes[n]].

    They are valid until the buffer is reused.
    """

    buffer: bytearray
    begins: Numbers
    sizes: Numbers

    def joined(self) -> Texts:
        """Returns copies of the bodies."""
        return Texts(_bounds(self.sizes), b"".join(_slices(*self)))


class Picks(NamedTuple):
    """Dictionary-encoded strings: number n is values[places[n]]."""

    values: list[str]
    places: Numbers


class TextLists(NamedTuple):
    """Lists of strings: list n has the texts bounds[n] to bounds[n + 1]."""

    bounds: Bounds
    texts: Texts


class TextMaps(NamedTuple):
    """Maps of strings: map n has the pairs bounds[n] to bounds[n + 1]."""

    bounds: Bounds
    names: Texts
    values: Texts


Column = Integers | Texts | Ranges | Picks | TextLists | TextMaps

Gather = Callable[[bytearray, Numbers, Numbers], bytes]
"""Joins the bytes of a buffer that begins and sizes name."""


def joined_pieces(buffer: bytearray, begins: Numbers, sizes: Numbers) -> bytes:
    """Returns short texts, joined."""
    # Views of them would cost three times as much: Python's garbage collector counts views.
    pairs = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
    return b"".join([buffer[begin:end] for begin, end in pairs])


class MessageColumns:
    """The columns of some records of a buffer; shared intermediate results are computed once.

    queue          the records' queue numbers in the table
    decompressed   the bodies to return; None: bodies as stored
    gather         joins short texts
    """

    def __init__(
        self,
        buffer: bytearray,
        heads: Heads,
        queue: Numbers,
        queues: QueueTable,
        decompressed: list[bytes] | None = None,
        gather: Gather = joined_pieces,
    ) -> None:
        self._buffer = buffer
        self._heads = heads
        self._queue = queue
        self._queues = queues
        self._decompressed = decompressed
        self._gather = gather

    @cached_property
    def _spans(self) -> PropertySpans:
        return find_properties(self._buffer, self._heads)

    def head(self, name: str) -> Integers:
        """Returns a column of the heads."""
        return Integers(getattr(self._heads, name))

    def topics(self) -> Picks:
        """Returns the topics."""
        found, places = np.unique(self._queue, return_inverse=True)
        return Picks([self._queues.keys[number][0] for number in found.tolist()], places)

    def flags(self) -> Integers:
        """Returns the message flags (RocketMQ's Message.flag)."""
        return Integers(_loaded(self._buffer, self._heads.begin + _FLAG_AT, 4))

    def reconsume_times(self) -> Integers:
        """Returns the numbers of retries."""
        return Integers(_loaded(self._buffer, self._heads.body_begin - _RECONSUME_TIMES_BACK, 4))

    def prepared_offsets(self) -> Integers:
        """Returns the prepared transaction offsets: physical offsets of half messages."""
        return Integers(_loaded(self._buffer, self._heads.body_begin - _PREPARED_OFFSET_BACK, 8))

    def born_hosts(self) -> Picks:
        """Returns the hosts of the producers."""
        return self._hosts(self._heads.begin + _BORN_HOST_AT, FLAG_BORN_HOST_V6)

    def store_hosts(self) -> Picks:
        """Returns the hosts of the brokers."""
        is_long = (self._heads.system_flag & FLAG_STORE_HOST_V6) != 0
        size = np.where(is_long, IPV6_HOST_SIZE, IPV4_HOST_SIZE)
        begins = self._heads.body_begin - _RECONSUME_TIMES_BACK - size
        return self._hosts(begins, FLAG_STORE_HOST_V6)

    def _hosts(self, begins: Numbers, flag: int) -> Picks:
        is_long = (self._heads.system_flag & flag) != 0
        if not is_long.any():
            words, places = np.unique(words_of(self._buffer)[begins], return_inverse=True)
            hosts = words.tobytes()
            packed = [hosts[at : at + 8] for at in range(0, len(hosts), 8)]
            return Picks([text_from_host(host) for host in packed], places)
        sizes = np.where(is_long, IPV6_HOST_SIZE, IPV4_HOST_SIZE)
        every = [text_from_host(bytes(host)) for host in _slices(self._buffer, begins, sizes)]
        return Picks(every, np.arange(len(every)))

    def offset_message_ids(self) -> Texts:
        """Returns the offset message ids."""
        heads = self._heads
        hosts = heads.body_begin - _RECONSUME_TIMES_BACK - IPV4_HOST_SIZE
        if (heads.system_flag & FLAG_STORE_HOST_V6).any():
            return _encoded([offset_message_id(*pair) for pair in self._packed_places()])
        packed = np.empty((len(heads), 2), dtype="<u8")
        packed[:, 0] = words_of(self._buffer)[hosts]
        packed[:, 1] = heads.physical_offset.astype(">i8").view("<u8")
        content = _HEX[packed.view(np.uint8)].tobytes()
        return Texts(np.arange(len(heads) + 1, dtype=np.int32) * 32, content)

    def _packed_places(self) -> Iterable[tuple[bytes, int]]:
        heads = self._heads
        is_long = (heads.system_flag & FLAG_STORE_HOST_V6) != 0
        sizes = np.where(is_long, IPV6_HOST_SIZE, IPV4_HOST_SIZE)
        begins = heads.body_begin - _RECONSUME_TIMES_BACK - sizes
        hosts = map(bytes, _slices(self._buffer, begins, sizes))
        return zip(hosts, heads.physical_offset.tolist(), strict=True)

    def bodies(self) -> Texts | Ranges:
        """Returns the bodies."""
        if self._decompressed is not None:
            return _joined(self._decompressed)
        return Ranges(self._buffer, self._heads.body_begin, self._heads.body_size)

    def unique_keys(self) -> Texts:
        """Returns the unique keys."""
        return self._optional(self._spans.unique_key)

    def message_ids(self) -> Texts:
        """Returns the unique keys; for records without unique key, the offset message ids."""
        keys = self.unique_keys()
        if keys.is_missing is None or not keys.is_missing.any():
            return keys
        own, places = keys.bounds.tolist(), self.offset_message_ids()
        lies = places.bounds.tolist()
        return _joined(
            [
                places.content[lies[n] : lies[n + 1]]
                if missing
                else keys.content[own[n] : own[n + 1]]
                for n, missing in enumerate(keys.is_missing.tolist())
            ]
        )

    def tags(self) -> Texts:
        """Returns the tags."""
        return self._optional(self._spans.tags)

    def _optional(self, spans: Spans) -> Texts:
        texts = self._gathered(spans.begin, spans.length)
        return _spread(texts, spans.record, len(self._heads))

    def keys(self) -> TextLists:
        """Returns the keys of each record."""
        pieces, _ = split_keys(self._buffer, self._spans.keys)
        texts = self._gathered(pieces.begin, pieces.length)
        return TextLists(_bounds_of(pieces.record, len(self._heads)), texts)

    def _gathered(self, begins: Numbers, sizes: Numbers) -> Texts:
        return _sound(Texts(_bounds(sizes), self._gather(self._buffer, begins, sizes)))

    @cached_property
    def _maps(self) -> TextMaps:
        return _find_pairs(self._buffer, self._heads)

    def properties(self) -> TextMaps:
        """Returns all properties of each record, in their stored order."""
        return self._maps

    def property_texts(self, name: str) -> Texts:
        """Returns the values of one property."""
        record, hits = self._named(name)
        content, bounds = self._maps.values.content, self._maps.values.bounds
        texts = [content[bounds[hit] : bounds[hit + 1]] for hit in hits.tolist()]
        return _spread(_joined(texts), record, len(self._heads))

    def property_integers(self, name: str, parse: Callable[[str], int | None]) -> Integers:
        """Returns one property as numbers; values that `parse` rejects are missing."""
        values = np.zeros(len(self._heads), dtype=np.int64)
        is_missing = np.ones(len(self._heads), dtype=np.bool_)
        record, hits = self._named(name)
        content, bounds = self._maps.values.content, self._maps.values.bounds
        for number, hit in zip(record.tolist(), hits.tolist(), strict=True):
            value = parse(content[bounds[hit] : bounds[hit + 1]].decode())
            if value is not None:
                values[number], is_missing[number] = value, False
        return Integers(values, is_missing)

    def _named(self, name: str) -> tuple[Numbers, Numbers]:
        """Returns (record, index of the pair) for each property that has the given name."""
        wanted = np.frombuffer(name.encode(), dtype=np.uint8)
        bounds, names = self._maps.bounds, self._maps.names
        hits = np.flatnonzero(np.diff(names.bounds) == len(wanted))
        octets = np.frombuffer(names.content, dtype=np.uint8)
        columns = names.bounds[hits][:, None] + np.arange(len(wanted))
        hits = hits[(octets[columns] == wanted).all(axis=1)]
        return np.searchsorted(bounds, hits, side="right") - 1, hits


def decompressed_bodies(
    buffer: bytearray, heads: Heads, *, bytes_max: int | None = None
) -> Iterator[tuple[slice, list[bytes] | None]]:
    """Yields (slice of the records, their decompressed bodies); None: no body is compressed.

    A slice ends with the body that brings it to `bytes_max` bytes, by default `UNFOLDED_MAX`.
    """
    limit = UNFOLDED_MAX if bytes_max is None else bytes_max
    if not (heads.system_flag & FLAG_COMPRESSED).any():
        yield slice(None), None
        return
    begin, total = 0, 0
    bodies: list[bytes] = []
    slices = _slices(buffer, heads.body_begin, heads.body_size)
    for number, flag in enumerate(heads.system_flag.tolist()):
        bodies.append(plain_body(bytes(slices[number]), flag))
        total += len(bodies[-1])
        if total >= limit or number + 1 == len(heads):
            yield slice(begin, number + 1), bodies
            begin, total, bodies = number + 1, 0, []


def _find_pairs(buffer: bytearray, heads: Heads) -> TextMaps:
    """Returns all properties of records by the rules of `decode_properties`.

    Cost     about 1 µs a record with seven properties; 8 µs if a record of the chunk has duplicate
             names or invalid UTF-8
    """
    blocks = _slices(buffer, heads.block_begin, heads.block_size)
    joined = bytearray(bytes(_FRONT) + _PAIR_SEPARATOR.join(blocks) + _PAIR_SEPARATOR)
    octets = np.frombuffer(joined, dtype=np.uint8)
    separators = _FRONT + np.flatnonzero((octets[_FRONT:] - 1) < 2)
    is_name_end = octets[separators] == 1
    pair_end = separators[~is_name_end]
    pair_begin = np.append(_FRONT, pair_end[:-1] + 1)
    # The first name separator of a pair ends its name; the value may contain further separators.
    name_ends = np.append(separators[is_name_end], len(joined))
    name_end = name_ends[np.searchsorted(name_ends, pair_begin)]
    kept = np.flatnonzero((name_end > pair_begin) & (name_end + 1 < pair_end))
    pair_begin, name_end, pair_end = pair_begin[kept], name_end[kept], pair_end[kept]
    block_ends = _FRONT - 1 + np.cumsum(heads.block_size + 1)
    record = np.searchsorted(block_ends, pair_end)
    names = _between(octets, pair_begin, name_end)
    values = _between(octets, name_end + 1, pair_end)
    hashes = hash_texts(joined, pair_begin, name_end - pair_begin)
    if _has_equals(record << 32 | hashes) or not (_is_sound(names) and _is_sound(values)):
        return _decoded_pairs(buffer, heads)
    return TextMaps(_bounds_of(record, len(heads)), names, values)


def _has_equals(numbers: Numbers) -> bool:
    ordered = np.sort(numbers)
    return bool((ordered[1:] == ordered[:-1]).any())


def _decoded_pairs(buffer: bytearray, heads: Heads) -> TextMaps:
    blocks = _slices(buffer, heads.block_begin, heads.block_size)
    found = decoded(blocks)
    sizes = np.array([len(properties) for properties in found], dtype=np.int64)
    return TextMaps(
        _bounds(sizes),
        _encoded([name for properties in found for name in properties]),
        _encoded([value for properties in found for value in properties.values()]),
    )


def _between(octets: NDArray[np.uint8], begins: Numbers, ends: Numbers) -> Texts:
    """Returns the texts of ascending byte ranges that are not adjacent."""
    steps = np.zeros(len(octets), dtype=np.int8)
    steps[begins] = 1
    steps[ends] = -1
    content = octets[np.cumsum(steps, dtype=np.int8).view(np.bool_)]
    return Texts(_bounds(ends - begins), content.tobytes())


def _slices(buffer: bytearray, begins: Numbers, sizes: Numbers) -> list[memoryview]:
    view = memoryview(buffer)
    pairs = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
    return [view[begin:end] for begin, end in pairs]


def _loaded(buffer: bytearray, begins: Numbers, size: int) -> Numbers:
    """Returns the signed integers of 4 or 8 bytes at these positions."""
    words = words_of(buffer)[begins].byteswap().view(np.int64)
    return words if size == 8 else words >> 32


def _bounds(sizes: Numbers) -> Bounds:
    bounds = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


def _bounds_of(record: Numbers, count: int) -> Bounds:
    return _bounds(np.bincount(record, minlength=count))


def _joined(parts: Sequence[bytes | memoryview]) -> Texts:
    sizes = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    return Texts(_bounds(sizes), b"".join(parts))


def _encoded(texts: list[str]) -> Texts:
    return _joined([text.encode() for text in texts])


def _spread(texts: Texts, record: Numbers, count: int) -> Texts:
    sizes = np.zeros(count, dtype=np.int64)
    is_missing = np.ones(count, dtype=np.bool_)
    sizes[record] = np.diff(texts.bounds)
    is_missing[record] = False
    return Texts(_bounds(sizes), texts.content, is_missing if is_missing.any() else None)


def _sound(texts: Texts) -> Texts:
    """Returns the texts as `decode("utf-8", "replace")` would."""
    if _is_sound(texts):
        return texts
    pairs = zip(texts.bounds[:-1].tolist(), texts.bounds[1:].tolist(), strict=True)
    return _encoded([texts.content[begin:end].decode("utf-8", "replace") for begin, end in pairs])


def _is_sound(texts: Texts) -> bool:
    """Returns whether the joined bytes are UTF-8 and no text begins inside a character."""
    if texts.content.isascii():
        return True
    try:
        texts.content.decode()
    except UnicodeDecodeError:
        return False
    octets = np.frombuffer(texts.content, dtype=np.uint8)
    begins = texts.bounds[:-1][np.diff(texts.bounds) > 0]
    return not ((octets[begins] & 0xC0) == 0x80).any()
