"""A follower's side of the stream between two PocketMQ brokers, without sockets or files.

    leader → follower   i64 offset, i32 size, content
        offset >= 0, size > 0    bytes of the log
        offset >= 0, size 0      heartbeat
        offset -1                table record: u32 size of JSON {name, seq, kind, at}, content
        offset -2, size 16       marks: i64 confirmed end, i64 its store time in ms
    follower → leader   i64 end of the log on its disk, i64 seq of the last table record on its disk

The handshake (handshake.py) precedes both. Consumers of a follower see the log up to the confirmed
end: what the leader shows to its own.
"""

import json
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

from pocketmq.format.json_text import is_integer, read_object
from pocketmq.model.message import OFFSET_MAX
from pocketmq.services.replication.protocol import (
    HEAD,
    PIECE_SIZE_MAX,
    SILENCE_MAX_MS,
    LogPiece,
)

REPORT: Final = Struct(">qq")
MARKS: Final = Struct(">qq")
TABLE: Final = -1
"""Offset of a frame with a table record."""
CONFIRMED: Final = -2
"""Offset of a frame with marks."""
TABLE_SIZE_MAX: Final = 256 << 20
"""Upper limit of the bytes of a table record."""
KINDS: Final = ("file", "append", "drop")
_TEXT_SIZE: Final = Struct(">I")
_TABLE_MEMBERS: Final = 64 * 1024


class LeaderBroken(Exception):
    """Bytes of a leader that are not of the protocol: the connection must be closed."""


class LogBytes(NamedTuple):
    """Bytes of the log at a physical offset, never across a file's end."""

    physical_offset: int
    content: bytes


class LeaderAlive(NamedTuple):
    """A sign of life."""

    physical_offset: int


class TableRecord(NamedTuple):
    """A change of a small file of the store.

    kind   "file": the file's new content, "append": bytes to append at position `at`, "drop"
    """

    name: str
    seq: int
    kind: str
    at: int
    content: bytes


class LeaderMarks(NamedTuple):
    """The end of the log that the leader shows to consumers, and the store time of its record."""

    confirmed: int
    store_time_ms: int


Event = LogBytes | LeaderAlive | TableRecord | LeaderMarks


class FollowerStream:
    """The frames that arrive on one connection.

    begin            physical offset of the first byte of the log
    file_size_bytes  size of the log's files
    now_ms           monotonic time
    """

    __slots__ = ("_file_size_bytes", "_heard_ms", "_left", "_rest", "next_offset")

    def __init__(self, begin: int, file_size_bytes: int, now_ms: int) -> None:
        self.next_offset = begin
        """Physical offset of the next byte of the log."""
        self._file_size_bytes = file_size_bytes
        self._left = 0
        """Bytes of the log that the present frame still has."""
        self._rest = bytearray()
        self._heard_ms = now_ms

    def receive(self, content: bytes, now_ms: int) -> Iterator[Event]:
        """Yields what has arrived; bytes of the log without waiting for the end of their frame.

        Errors   LeaderBroken
        """
        self._heard_ms = now_ms
        self._rest += content
        while self._rest:
            if self._left:
                yield self._log_bytes()
            elif (event := self._next()) is not None:
                yield event
            elif not self._left:
                return

    def is_dead(self, now_ms: int) -> bool:
        """Whether the leader was silent for too long."""
        return now_ms - self._heard_ms > SILENCE_MAX_MS

    @property
    def dead_at_ms(self) -> int:
        """Monotonic time at which the leader counts as dead unless it is heard before."""
        return self._heard_ms + SILENCE_MAX_MS + 1

    def _log_bytes(self) -> LogBytes:
        found = bytes(self._rest[: self._left])
        del self._rest[: self._left]
        event = LogBytes(self.next_offset, found)
        self._left -= len(found)
        self.next_offset += len(found)
        assert self._left >= 0
        return event

    def _next(self) -> Event | None:
        """Reads a head, and its content unless that is of the log; None without a whole event."""
        rest = self._rest
        if len(rest) < HEAD.size:
            return None
        offset, size = HEAD.unpack_from(rest)
        if offset >= 0:
            self._check_piece(LogPiece(offset, size))
            del rest[: HEAD.size]
            self._left = size
            return None if size else LeaderAlive(offset)
        limit = {TABLE: TABLE_SIZE_MAX, CONFIRMED: MARKS.size}.get(offset, -1)
        if not 0 <= size <= limit:
            raise LeaderBroken(f"a frame of {size} bytes at {offset} is not of this protocol")
        if len(rest) < HEAD.size + size:
            return None
        content = bytes(rest[HEAD.size : HEAD.size + size])
        del rest[: HEAD.size + size]
        return _marks(content) if offset == CONFIRMED else _table(content)

    def _check_piece(self, piece: LogPiece) -> None:
        begin, size = piece
        if begin != self.next_offset:
            raise LeaderBroken(f"bytes at {begin} of the log follow those up to {self.next_offset}")
        room = self._file_size_bytes - begin % self._file_size_bytes
        if not 0 <= size <= min(PIECE_SIZE_MAX, room):
            raise LeaderBroken(f"a piece of {size} bytes at {begin} is beyond its limits")


def _marks(content: bytes) -> LeaderMarks:
    if len(content) != MARKS.size:
        raise LeaderBroken(f"marks of {len(content)} bytes")
    confirmed, store_time_ms = MARKS.unpack(content)
    if confirmed < 0:
        raise LeaderBroken(f"the confirmed end is {confirmed}")
    return LeaderMarks(confirmed, store_time_ms)


def _table(content: bytes) -> TableRecord:
    size = _TEXT_SIZE.unpack_from(content)[0] if len(content) >= _TEXT_SIZE.size else -1
    begin = _TEXT_SIZE.size + size
    if not 0 <= size <= min(_TABLE_MEMBERS, len(content) - _TEXT_SIZE.size):
        raise LeaderBroken("a table record is cut off")
    try:
        members: dict[str, Any] = read_object(content[_TEXT_SIZE.size : begin])
    except ValueError as error:
        raise LeaderBroken(f"the members of a table record cannot be read: {error}") from error
    name, kind = members.get("name"), members.get("kind")
    seq, at = members.get("seq"), members.get("at")
    if not isinstance(name, str) or kind not in KINDS:
        raise LeaderBroken("a table record has no name or no kind")
    if not is_integer(seq, 0, OFFSET_MAX) or not is_integer(at, 0, OFFSET_MAX):
        raise LeaderBroken("a table record has no seq or no position")
    assert isinstance(seq, int)
    assert isinstance(at, int)
    return TableRecord(name, seq, str(kind), at, content[begin:])


def encode_report(end: int, table_seq: int) -> bytes:
    """Returns a report: what of the log, and of the tables, survives a power cut."""
    return REPORT.pack(end, table_seq)


def encode_table(record: TableRecord) -> bytes:
    """Returns the frame of a table record, as a leader sends it."""
    members = {"name": record.name, "seq": record.seq, "kind": record.kind, "at": record.at}
    text = json.dumps(members, separators=(",", ":")).encode()
    content = _TEXT_SIZE.pack(len(text)) + text + record.content
    assert len(content) <= TABLE_SIZE_MAX
    return HEAD.pack(TABLE, len(content)) + content


def encode_marks(marks: LeaderMarks) -> bytes:
    """Returns the frame of marks, as a leader sends it."""
    return HEAD.pack(CONFIRMED, MARKS.size) + MARKS.pack(*marks)
