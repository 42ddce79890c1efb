"""Spools consume units of ranges of the log by queue, and reads them again.

    range 0, 1, …  ─► a spool each: blocks of units, sorted by queue
    queues [low, high) ◄─ a slice of every block of every spool, in log order

A queue is identified by a digest of 128 bits of its topic and queue id; its upper half orders the
queues. So any reader can take any share of the queues without a list of all queues.

Block: numbers of runs, units and bytes of names, then columns of the runs (digest, first queue
offset, begins of units and names), names, and units. A run is consecutive units of one queue.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from struct import unpack
from typing import BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Numbers, Words
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.consume_unit import UNIT_SIZE
from pocketmq.format.deleted_topics import left_over_of
from pocketmq.model.message import QueueKey
from pocketmq.model.names import check_queue_topic
from pocketmq.rebuild.unit_files import UNIT_BYTES, HeldUnits

UNITS_AT_ONCE: Final = 500_000
"""Units of a block: 10 MB, and as much again while they are sorted."""
DIGEST_END: Final = 1 << 64
"""End of the range of the upper halves of digests."""
QUEUES_KEPT: Final = 200_000
"""Most queues that a worker keeps from range to range: 80 MB."""
_HEAD: Final = 3
_ID_BYTES: Final = 4


class _NamedQueues:
    """Queues, and by queue number the halves of their digests, and their names in a spool."""

    __slots__ = ("high", "low", "names", "table")

    def __init__(self, table: QueueTable) -> None:
        self.table = table
        self.high = self.low = np.zeros(0, dtype=np.uint64)
        self.names: list[bytes] = []

    def identify(self, numbers: Numbers) -> None:
        """Completes digests and names of some queues.

        Errors   IllegalTopic: a topic's name is invalid
        """
        keys, names = self.table.keys, self.names
        new = len(keys) - len(names)
        names += [b""] * new
        self.high, self.low = (
            np.append(half, np.zeros(new, np.uint64)) for half in (self.high, self.low)
        )
        unnamed = [number for number in numbers.tolist() if not names[number]]
        if unnamed:
            found, high, low = zip(*(_identity(keys[number]) for number in unnamed), strict=True)
            self.high[unnamed], self.low[unnamed] = np.array([high, low], np.uint64)
            for number, name in zip(unnamed, found, strict=True):
                names[number] = name
        assert len(names) == len(self.high)


_KEPT: Final[dict[str, _NamedQueues]] = {}
"""By `KnownShape.removed`, the queues of the last range that this process finished.

A range takes them, and gives them back at its end, so that two ranges at once do not share them.
"""


class UnitSpool(HeldUnits):
    """Writes the spool of one range; `unit_count` is the number of its units so far."""

    __slots__ = ("_file", "_kept_as", "_named", "unit_count")

    def __init__(self, file: BinaryIO, removed: str = "", left_over: str = "") -> None:
        """Begins a spool; `removed` and `left_over` are the texts of `KnownShape`."""
        # Left-over records are those of one log, so their queues are not kept.
        self._kept_as = None if left_over else removed
        named = None if left_over else _KEPT.pop(removed, None)
        self._named = named or _NamedQueues(QueueTable(removed, left_over_of(left_over)))
        super().__init__(self._named.table)
        self._file = file
        self.unit_count = 0

    def finish(self) -> None:
        """Writes the remaining units; the spool is complete.

        Errors   IllegalTopic: a topic's name is invalid
        """
        self.flush()
        if self._kept_as is not None and len(self.queues.keys) <= QUEUES_KEPT:
            _KEPT.clear()
            _KEPT[self._kept_as] = self._named

    def _held_max(self) -> int:
        return UNITS_AT_ONCE

    def _put(self, queue: Numbers, queue_offset: Numbers, units: NDArray[np.void]) -> None:
        """Writes a block.

        Errors   IllegalTopic: a topic's name is invalid
        """
        named = self._named
        assert named.table is self.queues, "numbers of one table have the names of another"
        met = np.flatnonzero(np.bincount(queue, minlength=1))
        named.identify(met)
        by_digest = met[np.lexsort((named.low[met], named.high[met]))]
        rank = np.empty(len(named.names), dtype=np.int64)
        rank[by_digest] = np.arange(len(by_digest))
        places = rank[queue]
        order = np.argsort(places.astype(np.uint16) if len(met) < 65_536 else places, kind="stable")
        places, queue_offset = places[order], queue_offset[order]
        is_first = np.ones(len(places), dtype=np.bool_)
        is_first[1:] = (places[1:] != places[:-1]) | (queue_offset[1:] != queue_offset[:-1] + 1)
        begins = np.flatnonzero(is_first)
        numbers = by_digest[places[begins]]
        names = [named.names[number] for number in numbers.tolist()]
        name_ends = np.cumsum([0, *map(len, names)])
        room = -int(name_ends[-1]) % 8
        columns = (
            np.array([len(begins), len(units), name_ends[-1] + room]), named.high[numbers],
            named.low[numbers], queue_offset[begins], np.append(begins, len(units)), name_ends,
        )  # fmt: skip
        for column in columns:
            self._file.write(column.astype("<u8").data)
        self._file.write(b"".join(names) + bytes(room))
        self._file.write(units[order].view(np.uint8).data)
        self._file.write(bytes(-len(units) * UNIT_SIZE % 8))
        self.unit_count += len(units)


def _identity(key: QueueKey) -> tuple[bytes, int, int]:
    """Returns the queue's name in a spool and the halves of its digest.

    Errors   IllegalTopic
    """
    check_queue_topic(key[0])
    name = key[1].to_bytes(_ID_BYTES, "little", signed=True) + key[0].encode()
    high, low = unpack("<QQ", blake2b(name, digest_size=16).digest())
    return name, high, low


def key_of(name: bytes) -> QueueKey:
    """Returns the queue that a name in a spool means."""
    return name[_ID_BYTES:].decode(), int.from_bytes(name[:_ID_BYTES], "little", signed=True)


# -- reading ---------------------------------------------------------------------------------------
class _Slice(NamedTuple):
    """The runs of some queues in one block.

    unit_position   position of the block's first unit in the file
    begins          numbers of the runs' first units in the block, and the end of the last run
    """

    path: str
    high: Words
    low: Words
    first: Numbers
    begins: Numbers
    names: bytes
    name_begins: Numbers
    unit_position: int
    units: NDArray[np.void] | None


def _slices(path: str, low: int, high: int, *, with_units: bool) -> Iterator[_Slice]:
    """Yields the runs of the queues whose digest has its upper half in [low, high).

    It does not read other runs.
    """
    size = os.stat(path).st_size
    if not size:
        return
    content = np.memmap(path, np.uint8, "r")
    position = 0
    while position < size:
        runs, units, name_bytes = content[position : position + 8 * _HEAD].view("<i8").tolist()
        position += 8 * _HEAD
        columns = []
        for length in (runs, runs, runs, runs + 1, runs + 1):
            columns.append(content[position : position + 8 * length].view("<u8"))
            position += 8 * length
        names, unit_position = position, position + name_bytes
        begin = int(np.searchsorted(columns[0], np.uint64(low)))
        end = runs if high == DIGEST_END else int(np.searchsorted(columns[0], np.uint64(high)))
        position = unit_position + -(-units * UNIT_SIZE // 8) * 8
        if begin == end:
            continue
        upper, lower, first = (np.array(column[begin:end]) for column in columns[:3])
        begins, name_begins = (np.array(c[begin : end + 1]).astype(np.int64) for c in columns[3:])
        span = content[names + name_begins[0] : names + name_begins[-1]]
        found = None
        if with_units:
            a, b = (unit_position + int(n) * UNIT_SIZE for n in (begins[0], begins[-1]))
            found = np.array(content[a:b]).view(UNIT_BYTES)
        yield _Slice(
            path, upper, lower, first.view(np.int64), begins, span.tobytes(),
            name_begins - name_begins[0], unit_position, found,
        )  # fmt: skip


@dataclass(slots=True)
class SpooledQueue:
    """The runs of one queue in log order, and where their units are."""

    key: QueueKey
    first: Numbers
    count: Numbers
    _units: NDArray[np.void] | None
    _places: list[tuple[str, int]]

    @property
    def is_regular(self) -> bool:
        """Whether the queue offsets are continuous."""
        ends = self.first + self.count
        return bool(self.first[0] >= 0 and np.array_equal(self.first[1:], ends[:-1]))

    def pieces(self) -> Iterator[tuple[Numbers, Numbers, NDArray[np.void]]]:
        """Yields (first queue offsets, counts, units) of one or several runs, in log order."""
        if self._units is not None:
            yield self.first, self.count, self._units
            return
        for number, (path, position) in enumerate(self._places):
            span = slice(number, number + 1)
            count = int(self.count[number])
            units = np.fromfile(path, UNIT_BYTES, count, offset=position)
            assert len(units) == count, f"{path} ends before its last unit"
            yield self.first[span], self.count[span], units


def read_queues(
    paths: Sequence[str], low: int, high: int, *, held_max: int
) -> Iterator[SpooledQueue]:
    """Yields each queue whose digest has its upper half in [low, high), with all its units.

    paths      spools, in the order of the log
    held_max   units that are held in memory; if there are more, they are read run by run
    Cost       about 0.1 µs a unit and 0.1 µs a run; opens each spool once, and again for each run
               that is not held in memory
    """
    assert 0 <= low < high <= DIGEST_END
    slices: list[_Slice] = []
    count, is_held = 0, True
    for path in paths:
        for found in _slices(path, low, high, with_units=is_held):
            count += int(found.begins[-1] - found.begins[0])
            slices.append(found)
        if is_held and count > held_max:
            is_held = False
            slices = [part._replace(units=None) for part in slices]
    if slices:
        yield from _grouped(slices, is_held=is_held)


def _grouped(slices: list[_Slice], *, is_held: bool) -> Iterator[SpooledQueue]:
    high, low = (np.concatenate([getattr(s, name) for s in slices]) for name in ("high", "low"))
    order = np.lexsort((low, high))
    high, low = high[order], low[order]
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    del high, low
    borders = [*np.flatnonzero(is_new).tolist(), len(order)]
    first = np.concatenate([part.first for part in slices])[order]
    count = np.concatenate([np.diff(part.begins) for part in slices])[order]
    ends = np.append(0, np.cumsum(count))
    units = _ordered_units(slices, order, count, ends) if is_held else None
    nothing = np.zeros(0, np.uint64)
    slices[:] = [part._replace(high=nothing, low=nothing, units=None) for part in slices]
    row_begins = np.cumsum([0, *(len(part.first) for part in slices)])
    for begin, end in pairwise(borders):
        rows = order[begin : begin + 1] if is_held else order[begin:end]
        blocks = np.searchsorted(row_begins, rows, side="right") - 1
        found = list(zip(blocks.tolist(), (rows - row_begins[blocks]).tolist(), strict=True))
        part, number = slices[found[0][0]], found[0][1]
        name = part.names[part.name_begins[number] : part.name_begins[number + 1]]
        mine = None if units is None else units[ends[begin] : ends[end]]
        places = [] if is_held else [
            (slices[b].path, slices[b].unit_position + UNIT_SIZE * int(slices[b].begins[n]))
            for b, n in found
        ]  # fmt: skip
        yield SpooledQueue(key_of(name), first[begin:end], count[begin:end], mine, places)


def _ordered_units(
    slices: Sequence[_Slice], order: Numbers, count: Numbers, ends: Numbers
) -> NDArray[np.void]:
    """Returns the units of all slices in the order of the sorted runs."""
    every = np.concatenate([part.units for part in slices if part.units is not None])
    sizes = np.concatenate([np.diff(part.begins) for part in slices])
    begins = np.cumsum(sizes) - sizes
    return every[np.repeat(begins[order] - ends[:-1], count) + np.arange(len(every))]
