"""Where the messages of two stores differ.

Both logs are walked side by side, once. As long as they hold the same messages in the same order
nothing but counts is kept; else each message waits, as a digest, until the other log comes to the
same one of its queue. So memory grows with how far the logs are out of step, not with messages.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from hashlib import blake2b
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from pocketmq.format.record import (
    HEADS,
    HOSTS_V6_MASK,
    PROPERTY_CRC_SIZE,
    RECORD_HEAD,
    SYSTEM_FLAG,
    SYSTEM_FLAG_POSITION,
    decode_record,
    message_fields,
)
from pocketmq.model.message import KEYS, OFFSET_MAX, PROPERTY_CRC, TAGS, QueueKey
from pocketmq.rebuild.log_files import LogFile, bytes_at
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.selection import LogSearch, Selection
from pocketmq.walk.log_walk import Hole

SHOWN_LENGTH: Final = 40
NAMES_SHOWN: Final = 4
_PLACE: Final = RECORD_HEAD.positions["physical_offset"]
_CRC_MARK: Final = f"{PROPERTY_CRC}\x01".encode()
_CONTEXT: Final = 8
_HEAD_FIELDS: Final = (
    "born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host", "flag", "system_flag",
    "reconsume_times", "body_crc", "prepared_transaction_offset", "physical_offset",
)  # fmt: skip


class Difference(NamedTuple):
    """One difference.

    part    "queue", "message", "file" or "table"
    where   TOPIC:QUEUE, TOPIC:QUEUE:OFFSET, or a path in the stores
    what    which fields, which byte, which entry; left and right are values of the first
    """

    part: str
    where: str
    what: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Side:
    """The log of one of the two stores; records from `upto` on are not looked at.

    gaps   missing parts of the log's files
    """

    files: Sequence[LogFile]
    upto: int = OFFSET_MAX
    gaps: Sequence[Hole] = ()


@dataclass(slots=True)
class _Tally:
    """Message count of a queue, and the offsets of its first and last message."""

    count: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.count}, offsets {self.first} to {self.last}"


class _Waiting(NamedTuple):
    """A message of one side that the other side has not reached yet."""

    digest: bytes
    physical_offset: int
    size: int


@dataclass(slots=True)
class _Queue:
    """A queue of both sides; `first` is their first difference, None for a missing message."""

    tallies: list[_Tally | None] = field(default_factory=lambda: [None, None])
    waiting: tuple[deque[_Waiting], deque[_Waiting]] = field(
        default_factory=lambda: (deque(), deque())
    )
    first: list[_Waiting | None] | None = None

    def count(self, side: int, queue_offset: int) -> None:
        """Counts a message."""
        tally = self.tallies[side]
        if tally is None:
            self.tallies[side] = _Tally(1, queue_offset, queue_offset)
        else:
            tally.count += 1
            tally.last = queue_offset

    def compare(self, side: int, message: _Waiting) -> None:
        """Compares a message with the one at the same place of the other side, now or later."""
        others = self.waiting[1 - side]
        if self.first is not None:
            return
        if not others:
            self.waiting[side].append(message)
            return
        assert not self.waiting[side]
        other = others.popleft()
        if other.digest != message.digest:
            self.first = [message, other] if side == 0 else [other, message]
            others.clear()

    @property
    def difference(self) -> list[_Waiting | None] | None:
        """Where both sides differ first, None where they do not, or one side lacks the queue."""
        if self.first is None and any(self.waiting) and None not in self.tallies:
            return [waiting[0] if waiting else None for waiting in self.waiting]
        return self.first


_Record = tuple[QueueKey, int, int, bytearray]
"""Queue, queue offset, physical offset and the bytes that are compared."""


@dataclass(slots=True)
class MessageComparison:
    """One comparison of two logs; iterating yields where they differ, at most two a queue.

    First come the queues that hold another number of messages or other offsets, then the first
    message of each queue that differs. Afterwards `damages` lists the unsound parts of both
    logs; records there count as missing.

    anywhere   compare the content of messages, not their positions in the log
    Cost       about 5 µs for a message of both sides, 8 where the logs are out of step
    """

    left: Side
    right: Side
    _: KW_ONLY
    anywhere: bool
    advance: Advance = no_advance
    damages: list[Hole] = field(default_factory=list)

    def __iter__(self) -> Iterator[Difference]:
        assert not self.damages, "a comparison is made once"
        found: defaultdict[QueueKey, _Queue] = defaultdict(_Queue)
        sides = (self.left, self.right)
        for pair in zip_longest(*map(self._records, sides)):
            _compare(found, *pair)
        queues = sorted(found.items())
        for key, queue in queues:
            one, other = map(_text, queue.tallies)
            if one != other:
                yield Difference("queue", _name(key), "messages", one, other)
        for key, queue in queues:
            if queue.difference is not None:
                yield _message_difference(key, *map(self._content, sides, queue.difference))

    def _records(self, side: Side) -> Iterator[_Record]:
        """Yields the records of a log, in log order."""
        chosen = Selection(upto=side.upto)
        search = LogSearch(side.files, chosen, advance=self.advance, gaps=side.gaps)
        for picked in search:
            heads, keys = picked.heads, search.queues.keys
            rows = zip(
                picked.queue.tolist(), heads.queue_offset.tolist(), heads.physical_offset.tolist(),
                heads.begin.tolist(), heads.size.tolist(), strict=True,
            )  # fmt: skip
            for number, queue_offset, place, begin, size in rows:
                record = picked.buffer[begin : begin + size]
                yield keys[number], queue_offset, place, self._compared(record)
        self.damages += search.holes

    def _compared(self, record: bytearray) -> bytearray:
        if self.anywhere:
            _forget_place(record)
        return record

    def _content(self, side: Side, message: _Waiting | None) -> bytearray | None:
        if message is None:
            return None
        content = bytes_at(side.files, message.physical_offset, message.size)
        return self._compared(bytearray(content))


def _compare(
    queues: defaultdict[QueueKey, _Queue], one: _Record | None, other: _Record | None
) -> None:
    """Compares the next records of both logs."""
    is_same = one is not None and other is not None and one[::3] == other[::3]
    for side, record in enumerate((one, other)):
        if record is not None:
            key, queue_offset, place, content = record
            queue = queues[key]
            queue.count(side, queue_offset)
            if not is_same or any(queue.waiting):
                digest = blake2b(content, digest_size=16).digest()
                queue.compare(side, _Waiting(digest, place, len(content)))


def _forget_place(record: bytearray) -> None:
    """Blanks a record's position: its offset, that of its half message, its CRC."""
    record[_PLACE : _PLACE + 8] = bytes(8)
    (flags,) = SYSTEM_FLAG.unpack_from(record, SYSTEM_FLAG_POSITION)
    prepared_end = HEADS[flags & HOSTS_V6_MASK].size - 4
    record[prepared_end - 8 : prepared_end] = bytes(8)
    if record.startswith(_CRC_MARK, len(record) - PROPERTY_CRC_SIZE):
        record[-11:-1] = b"0" * 10


def _name(key: QueueKey) -> str:
    return f"{key[0]}:{key[1]}"


def _text(tally: _Tally | None) -> str:
    return "none" if tally is None else str(tally)


# -- one message -----------------------------------------------------------------------------------
def _message_difference(
    key: QueueKey, one: bytearray | None, other: bytearray | None
) -> Difference:
    """Returns how two messages at the same place of a queue differ, or which is missing."""
    left, right = (_fields(record) if record is not None else {} for record in (one, other))
    offsets = [fields.pop("queue_offset", OFFSET_MAX) for fields in (left, right)]
    where = f"{_name(key)}:{min(offsets)}"
    if offsets[0] != offsets[1]:
        shown = ("there", "missing") if offsets[0] < offsets[1] else ("missing", "there")
        return Difference("message", where, "message", *shown)
    names = [name for name in left | right if left.get(name) != right.get(name)]
    if not names:
        return Difference("message", where, "order of properties", "", "")
    what = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
    return Difference("message", where, what, *excerpts(left.get(names[0]), right.get(names[0])))


def _fields(record: bytearray) -> dict[str, Any]:
    """Returns a record's fields, by the names that differences are reported with."""
    fields = message_fields(decode_record(record, 0, decompress=False))
    properties = dict(sorted(fields["properties"].items()))
    return {
        "queue_offset": fields["queue_offset"],
        "body": fields["body"],
        "tag": properties.pop(TAGS, ""),
        "keys": properties.pop(KEYS, ""),
        **{f"property {name}": value for name, value in properties.items()},
        **{name: fields[name] for name in _HEAD_FIELDS},
    }


def excerpts(one: Any, other: Any) -> tuple[str, str]:
    """Returns two values as text, from shortly before where they begin to differ."""
    begin = 0
    if isinstance(one, bytes | str) and isinstance(other, type(one)):
        begin = max(first_unlike(one, other) - _CONTEXT, 0)
    return _excerpt(one, begin), _excerpt(other, begin)


def _excerpt(value: Any, begin: int) -> str:
    if value is None:
        return "missing"
    if not isinstance(value, bytes | str):
        return str(value)
    piece = value[begin : begin + SHOWN_LENGTH]
    text = piece if isinstance(piece, str) else _decoded(piece)
    return ("…" if begin else "") + text + ("…" if begin + SHOWN_LENGTH < len(value) else "")


def _decoded(piece: bytes) -> str:
    text = piece.decode("utf-8", "replace")
    return text if text.isprintable() and "\ufffd" not in text else f"0x{piece.hex()}"


def first_unlike(one: bytes | str, other: bytes | str) -> int:
    """Returns how much two values have in common at their front; some 50 ns a byte."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))
