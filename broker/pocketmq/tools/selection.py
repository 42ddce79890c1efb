"""Selects messages of a log by column.

    chunk ─► offset, store time ─► topic, queue ─► key, tag, property ─► selected messages
             columns of heads      queue table      bytes of the chunk     as columns, or decoded

A chunk that does not contain the bytes of the key, tag or property is skipped. Only selected
records are decoded. Files without store times in the wanted range are not read. `may_hold` compares
the first store times of files, and allows for a broker's clock that was set back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Heads, Numbers, rows_at
from pocketmq.format.columns.properties import Spans, find_properties, split_keys
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.properties import decode_properties
from pocketmq.format.record import decode_record
from pocketmq.model.message import OFFSET_MAX, TAGS, StoredMessage
from pocketmq.model.topic import is_system_topic
from pocketmq.rebuild.log_files import LogFile, may_hold
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.walk.log_walk import Hole, LogWalk, holes_and_tail
from pocketmq.walk.reader import Chunk, LogReader

TIME_MIN: Final = -(2**63)
TIME_MAX: Final = 2**63 - 1
_SEPARATOR: Final = "\x01"


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions of a search; a message must meet all of them.

    topics       patterns with * and ?, one of which must match; empty: every topic
    queue_ids    empty: every queue
    begin_ms     store times [begin_ms, end_ms)
    begin        physical offsets [begin, upto)
    key          one of the message's keys, or its unique key
    properties   (name, value) pairs, all of which the message must have
    with_system  includes system topics; a system topic whose whole name is in `topics` is always
                 included
    """

    topics: tuple[str, ...] = ()
    queue_ids: frozenset[int] = frozenset()
    begin_ms: int = TIME_MIN
    end_ms: int = TIME_MAX
    begin: int = 0
    upto: int = OFFSET_MAX
    key: str | None = None
    tag: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    with_system: bool = True

    def wants_queue(self, topic: str, queue_id: int) -> bool:
        """Returns whether topic and queue meet the conditions."""
        if self.queue_ids and queue_id not in self.queue_ids:
            return False
        if not self.with_system and is_system_topic(topic) and topic not in self.topics:
            return False
        return not self.topics or any(fnmatchcase(topic, pattern) for pattern in self.topics)


EVERYTHING: Final = Selection()


class Picked(NamedTuple):
    """Selected records of a chunk, valid until the next chunk is read.

    queue   number of each record's queue in the table of the search
    shift   physical offset of the buffer's position 0
    """

    buffer: bytearray
    heads: Heads
    queue: Numbers
    shift: int

    def take(self, chosen: "slice | NDArray[np.int64] | NDArray[np.bool_]") -> "Picked":
        """Returns the records chosen by a slice, by row numbers or by a mask."""
        return Picked(self.buffer, self.heads.take(chosen), self.queue[chosen], self.shift)

    def messages(self, *, decompress: bool = True) -> Iterator[StoredMessage]:
        """Yields the decoded records."""
        for begin in self.heads.begin.tolist():
            yield decode_record(self.buffer, begin, decompress=decompress)


class LogSearch:
    """One walk over a log; iterating yields the selected records of each chunk, in log order.

    `end`, `holes` and `tail` are valid after the walk. They cover all records, selected or not.
    """

    __slots__ = (
        "_advance", "_damage", "_files", "_gaps", "_walk", "_wanted", "queues", "selection",
    )  # fmt: skip

    def __init__(
        self,
        files: Sequence[LogFile],
        selection: Selection = EVERYTHING,
        *,
        check_crc: bool = True,
        advance: Advance = no_advance,
        gaps: Sequence[Hole] = (),
    ) -> None:
        """Creates a search; `gaps` are ranges of missing log files, which `holes` will include."""
        self._files = files
        self._walk = LogWalk(LogReader(check_crc=check_crc))
        self._advance = advance
        self._wanted: list[bool] = []
        self._damage: list[Hole] = []
        self._gaps = [
            gap for gap in gaps if gap.begin < selection.upto and gap.end > selection.begin
        ]
        self.selection = selection
        self.queues = QueueTable()

    @property
    def end(self) -> int:
        """Physical offset after the last valid record."""
        return max(self._walk.end, self.selection.begin)

    @property
    def log_begin(self) -> int:
        """Physical offset of the log's first byte."""
        return self._files[0].base if self._files else 0

    @property
    def holes(self) -> list[Hole]:
        """Damage that valid records follow, and missing parts of the log's files."""
        holes = holes_and_tail(self._damage, self.end)[0]
        return sorted(holes + self._gaps, key=lambda hole: hole.begin)

    @property
    def tail(self) -> Hole | None:
        """Bytes that a crash left after the last valid record; None if there are none."""
        return holes_and_tail(self._damage, self.end)[1]

    def __iter__(self) -> Iterator[Picked]:
        for file, is_read in self._read_or_not():
            if is_read:
                yield from self._picks(file)
            else:
                self._walk.skip()
                self._advance(file.size)

    def messages(self) -> Iterator[StoredMessage]:
        """Yields the selected messages, decoded; about 10 µs each."""
        for picked in self:
            yield from picked.messages()

    def topics(self, picked: Picked) -> Numbers:
        """Returns a topic number for each record: the number of the topic's first queue.

        Cost     0.1 µs a queue found so far
        """
        first: dict[str, int] = {}
        keys = enumerate(self.queues.keys)
        numbers = [first.setdefault(topic, number) for number, (topic, _) in keys]
        return np.array(numbers, dtype=np.int64)[picked.queue]

    def _read_or_not(self) -> Iterator[tuple[LogFile, bool]]:
        """Yields every file, and whether it may contain selected records."""
        chosen = self.selection
        is_timed = chosen.begin_ms > TIME_MIN or chosen.end_ms < TIME_MAX
        files, count = self._files, len(self._files)
        timely = may_hold(files, chosen.begin_ms, chosen.end_ms) if is_timed else [True] * count
        for file, is_timely in zip(files, timely, strict=True):
            yield file, is_timely and file.base < chosen.upto and file.end > chosen.begin

    def _picks(self, file: LogFile) -> Iterator[Picked]:
        told = file.base
        with file.opened() as source:
            for found in self._walk.over(source, file.base, self.selection.upto):
                if isinstance(found, Hole):
                    self._damage += [found] if found.begin >= self.selection.begin else []
                    continue
                picked = self._pick(found)
                if picked is not None:
                    yield picked
                self._advance(found.end - told)
                told = found.end
        self._advance(file.end - told)

    # -- by column -----------------------------------------------------------------------------
    def _pick(self, chunk: Chunk) -> Picked | None:
        chosen, heads = self.selection, chunk.heads
        if not _holds_needles(chunk, chosen):
            return None
        kept = heads.physical_offset >= chosen.begin
        kept &= heads.store_timestamp_ms >= chosen.begin_ms
        kept &= heads.store_timestamp_ms < chosen.end_ms
        if not kept.all():
            if not kept.any():
                return None
            heads = heads.take(kept)
        picked = Picked(chunk.buffer, heads, self.queues.number(chunk.buffer, heads), chunk.shift)
        return self._of_wanted_properties(self._of_wanted_queues(picked))

    def _of_wanted_queues(self, picked: Picked) -> Picked:
        new = self.queues.keys[len(self._wanted) :]
        self._wanted += [self.selection.wants_queue(*key) for key in new]
        assert len(self._wanted) == len(self.queues.keys)
        if all(self._wanted):
            return picked
        return picked.take(np.array(self._wanted)[picked.queue])

    def _of_wanted_properties(self, picked: Picked) -> Picked | None:
        chosen = self.selection
        for text, holders in ((chosen.tag, _with_tag), (chosen.key, _with_key)):
            if text is not None and len(picked.heads):
                picked = picked.take(holders(picked, text.encode()))
        if chosen.properties and len(picked.heads):
            picked = picked.take(_with_properties(picked, chosen.properties))
        return picked if len(picked.heads) else None


def _holds_needles(chunk: Chunk, chosen: Selection) -> bool:
    """Returns whether the chunk contains the bytes that every selected record contains."""
    needles = [chosen.key] if chosen.key is not None else []
    needles += [f"{TAGS}{_SEPARATOR}{chosen.tag}"] if chosen.tag is not None else []
    needles += [_SEPARATOR.join(pair) for pair in chosen.properties]
    heads = chunk.heads
    begin, end = int(heads.begin[0]), int(heads.begin[-1] + heads.size[-1])
    return all(chunk.buffer.find(needle.encode(), begin, end) >= 0 for needle in needles)


def _with_tag(picked: Picked, tag: bytes) -> Numbers:
    return _equal(picked, find_properties(picked.buffer, picked.heads).tags, tag)


def _with_key(picked: Picked, key: bytes) -> Numbers:
    spans = find_properties(picked.buffer, picked.heads)
    pieces, _ = split_keys(picked.buffer, spans.keys)
    found = [_equal(picked, pieces, key), _equal(picked, spans.unique_key, key)]
    return np.unique(np.concatenate(found))


def _equal(picked: Picked, spans: Spans, text: bytes) -> Numbers:
    """Returns the records with a span equal to this text, ascending."""
    if not text:
        return spans.record[:0]
    hits = np.flatnonzero(spans.length == len(text))
    rows = rows_at(picked.buffer, spans.begin[hits], len(text)).view(np.uint8)
    wanted = np.frombuffer(text, dtype=np.uint8)
    is_equal = (rows.reshape(len(hits), len(text)) == wanted).all(axis=1)
    return np.unique(spans.record[hits[is_equal]])


def _with_properties(picked: Picked, wanted: Sequence[tuple[str, str]]) -> NDArray[np.bool_]:
    heads, needles = picked.heads, [_SEPARATOR.join(pair).encode() for pair in wanted]
    kept = np.zeros(len(heads), dtype=np.bool_)
    spans = zip(
        heads.block_begin.tolist(), (heads.block_begin + heads.block_size).tolist(), strict=True
    )
    for number, (begin, end) in enumerate(spans):
        block = picked.buffer[begin:end]
        if all(needle in block for needle in needles):
            found = decode_properties(block)
            kept[number] = all(found.get(name) == value for name, value in wanted)
    return kept
