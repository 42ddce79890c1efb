"""Records that no unit leads to, because the unit is damaged: searched for in the log.

    unit n-1 (sound)   unit n (damaged)   unit n+1 (damaged)   unit n+2 (sound)
        │                                                          │
    ────┴──record──┤          searched, for record n           ├───┴── log

The log is the truth: the record is served, and its unit written anew. What is not found between its
neighbours is damage of the log. Searches run in a thread, one at a time, and what one did not find
is not searched for again.
"""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from broker.files.disk import Disk
from broker.format.consume_unit import UNIT, UNIT_SIZE
from broker.format.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    BadRecord,
    split_record,
)
from broker.format.record_scan import written_at
from broker.log.commit_log import CommitLog
from broker.log.consume_queue import ConsumeQueue
from broker.model.delay_levels import DelayLevels
from broker.store.reading.patience import Patience
from broker.store.reading.record_check import Asked, asked_of, why_unsound

WINDOW: Final = 1_024
"""Units looked at on either side for a sound neighbour; without one the log's own bounds hold."""
NEIGHBOUR_TRIES_MAX: Final = 64
"""Records read on either side: a sector holds 25 units, a page of them is damaged whole."""
UNFOUND_MAX: Final = 10_000
PIECE_SIZE: Final = 4 * 1024 * 1024

_MAGIC_BEGIN: Final = MAGIC_V1.to_bytes(4)[:3]
_MAGIC_AT: Final = 4
_MAGICS: Final = frozenset(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
_HEAD: Final = Struct(">iI4xi4xqq")
"""Size, magic, queue id, queue offset, own offset: the same in every form of record."""

logger = logging.getLogger(__name__)


class Damage(NamedTuple):
    """Why the record of a queue offset is not served, and where it should lie."""

    queue_offset: int
    physical_offset: int
    why: str


class LogFile(NamedTuple):
    """One file of the log, for a thread that opens it by itself."""

    base: int
    path: Path


class UnitRepair:
    """Searches for records, one at a time; what was found and what not is remembered."""

    __slots__ = (
        "_disk",
        "_levels",
        "_lock",
        "_patience",
        "_unfound",
        "is_writing",
        "repaired_count",
    )

    def __init__(
        self, disk: Disk, patience: Patience, levels: DelayLevels, *, is_writing: bool
    ) -> None:
        """Search on a disk.

        levels   what delivery times in the units of the schedule topic are made with
        """
        self._disk = disk
        self._patience = patience
        self._levels = levels
        self._lock = asyncio.Lock()
        self._unfound: dict[tuple[str, int, int], Damage] = {}
        self.is_writing = is_writing
        """Whether units may be written anew."""
        self.repaired_count = 0

    def forget(self) -> None:
        """Search again for what was not found: the log may have been repaired."""
        self._unfound.clear()

    async def record_of(
        self, log: CommitLog, queue: ConsumeQueue, damage: Damage
    ) -> bytes | Damage:
        """Return the record that damage hides, or what is wrong with the log.

        Effects  the unit leads to the record
        Cost     reading the log between the nearest sound neighbours in the queue
        """
        key = (queue.topic, queue.queue_id, damage.queue_offset)
        if key in self._unfound:
            return self._unfound[key]
        async with self._lock:
            first = max(damage.queue_offset - WINDOW, queue.files.min_offset // UNIT_SIZE)
            count = damage.queue_offset - first + WINDOW
            units = await self._patience.again(partial(queue.resident_units, first, count))
            files = [LogFile(file.base, file.path) for file in log.files.files]
            search = Search(
                self._disk, files, log.file_size_bytes, log.appended, asked_of(log, queue)
            )
            found = await self._patience.apart(partial(search.run, units, first, damage))
        if isinstance(found, Damage):
            if len(self._unfound) >= UNFOUND_MAX:
                self._unfound.clear()
            self._unfound[key] = found
            return found
        self._lead(queue, damage, found)
        return found

    def _lead(self, queue: ConsumeQueue, damage: Damage, record: bytes) -> None:
        """Write the unit of a record that was found."""
        written = written_at(record, 0, self._levels)
        self.repaired_count += 1
        logger.warning(
            "consume_queue.mended",
            extra={
                "topic": queue.topic, "queue_id": queue.queue_id,
                "queue_offset": damage.queue_offset, "physical_offset": written.begin,
                "reason": damage.why,
            },
        )  # fmt: skip
        position = damage.queue_offset * UNIT_SIZE
        file = queue.files.file_at(position)
        if file is None or not self.is_writing:
            return
        unit = UNIT.pack(written.begin, written.sizes[0], written.tags_codes[0])
        file.open().write(position - file.base, unit)


class Search:
    """One search, in a thread; files are opened by their names, and may be gone."""

    __slots__ = ("_asked", "_disk", "_end", "_file_size", "_files", "_open", "_piece")

    def __init__(
        self, disk: Disk, files: list[LogFile], file_size: int, end: int, asked: Asked
    ) -> None:
        self._disk = disk
        self._files = files
        self._file_size = file_size
        self._end = end
        self._asked = asked
        self._open: tuple[int, int] | None = None
        """Base and descriptor of the file that is open."""
        self._piece: tuple[int, bytes] = (0, b"")
        """Where the bytes lie that were searched last, and these bytes."""

    def run(self, units: bytes, first: int, damage: Damage) -> bytes | Damage:
        """Return the record of `damage`, or what is wrong with the log; blocks.

        units, first   some units around the damaged one, and the queue offset of the first
        """
        try:
            found = self._at_its_place(damage)
            if found is not None:
                return found
            begin, upper = self._bounds(units, first, damage.queue_offset)
            return self._between(begin, upper, damage)
        finally:
            if self._open is not None:
                self._disk.close(self._open[1])

    def _at_its_place(self, damage: Damage) -> bytes | Damage | None:
        """Return the record, or its damage, where the unit leads to what says that it is it."""
        place = damage.physical_offset
        head = self._read(place, _HEAD.size)
        if len(head) < _HEAD.size:
            return None
        size, _, queue_id, queue_offset, own_place = _HEAD.unpack(head)
        if (queue_id, queue_offset, own_place) != (self._asked[1], damage.queue_offset, place):
            return None
        record = self._record(place, size)
        if not why_unsound(record, place, size, self._asked, damage.queue_offset):
            return record
        return damage if _topic_of(record) in (None, self._asked.topic_part) else None

    def _bounds(self, units: bytes, first: int, queue_offset: int) -> tuple[int, int]:
        """Return between which places the record must lie: those of its sound neighbours."""
        rows = list(UNIT.iter_unpack(units))
        begin, upper = self._files[0].base if self._files else 0, self._end
        # The queue may have been trimmed, or removed, since the damage was met.
        before = range(min(queue_offset, first + len(rows)) - 1, first - 1, -1)
        behind = range(queue_offset + 1, first + len(rows))
        sound = self._first_sound(rows, first, before)
        if sound is not None:
            begin = sound[0] + sound[1]
        sound = self._first_sound(rows, first, behind)
        if sound is not None:
            upper = sound[0]
        return begin, upper

    def _first_sound(
        self, rows: list[tuple[int, int, int]], first: int, numbers: range
    ) -> tuple[int, int] | None:
        tries = 0
        for number in numbers:
            place, size, _ = rows[number - first]
            if not RECORD_SIZE_MIN <= size <= self._file_size or not 0 <= place < self._end:
                continue
            tries += 1
            if tries > NEIGHBOUR_TRIES_MAX:
                break
            if not why_unsound(self._record(place, size), place, size, self._asked, number):
                return place, size
        return None

    def _between(self, begin: int, upper: int, damage: Damage) -> bytes | Damage:
        """Return the record of a queue offset in [begin, upper)."""
        left = damage
        for place, size in self._places(begin, upper, damage.queue_offset):
            record = self._record(place, size)
            why = why_unsound(record, place, size, self._asked, damage.queue_offset)
            if not why:
                return record
            if _topic_of(record) == self._asked.topic_part:
                left = Damage(damage.queue_offset, place, why)
        return left

    def _places(self, begin: int, upper: int, queue_offset: int) -> Iterator[tuple[int, int]]:
        """Yield (place, size) of what says that it lies there and has this number."""
        place = self._next_magic(begin, upper)
        while place < upper:
            head = self._read(place, _HEAD.size)
            if len(head) < _HEAD.size:
                return
            size, _, queue_id, number, own_place = _HEAD.unpack(head)
            step = 1
            if own_place == place:
                if (queue_id, number) == (self._asked.queue_id, queue_offset):
                    yield place, size
                # What lies in its body is no record, however much it looks like one.
                step = self._step_over(place, size)
            place = self._next_magic(place + step, upper)

    def _next_magic(self, place: int, upper: int) -> int:
        """Return the next place at which a record may start, `upper` without one."""
        at = place + _MAGIC_AT
        while at < upper:
            begin, piece = self._piece
            if not begin <= at <= begin + len(piece) - len(_MAGIC_BEGIN):
                self._piece = begin, piece = at, self._read(at, min(PIECE_SIZE, upper - at))
            if len(piece) < len(_MAGIC_BEGIN):
                at += self._file_size - at % self._file_size + _MAGIC_AT
                continue
            found = piece.find(_MAGIC_BEGIN, at - begin)
            if found >= 0:
                return begin + found - _MAGIC_AT
            at = begin + len(piece) - len(_MAGIC_BEGIN) + 1
        return upper

    def _step_over(self, place: int, size: int) -> int:
        """Return how far it is from a record's magic to the next, 1 where its size is doubted."""
        if size < RECORD_SIZE_MIN:
            return 1
        is_led = self._read(place + size + _MAGIC_AT, 4) in _MAGICS
        return size if is_led or place + size >= self._end else 1

    def _record(self, place: int, size: int) -> bytes:
        """Return the bytes of a record whose size is what it says itself, else none."""
        if self._read(place, 4) != size.to_bytes(4, signed=True):
            return b""
        return self._read(place, size)

    def _read(self, place: int, size: int) -> bytes:
        """Return bytes of one file, fewer where it ends, none where they cannot be read."""
        base = place - place % self._file_size
        try:
            if self._open is None or self._open[0] != base:
                self._open_at(base)
            if self._open is None:
                return b""
            return self._disk.read_at(
                self._open[1], place - base, min(size, base + self._file_size - place)
            )
        except OSError:
            return b""

    def _open_at(self, base: int) -> None:
        before, self._open = self._open, None
        if before is not None:
            self._disk.close(before[1])
        path = next((file.path for file in self._files if file.base == base), None)
        if path is not None:
            self._open = (base, self._disk.open_read_only(path))


def _topic_of(record: bytes) -> bytes | None:
    """Return the topic with its length as a record holds them, None where lengths disagree."""
    try:
        head, body_begin, _, topic_end, _, _ = split_record(record, 0)
    except BadRecord:
        return None
    return record[body_begin + head[14] : topic_end]
