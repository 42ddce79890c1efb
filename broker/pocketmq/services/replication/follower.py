"""A follower's side of the stream between two PocketMQ brokers, without sockets or files.

    leader → follower   i64 offset, i32 size, content
        offset >= 0, size > 0    bytes of the log
        offset >= 0, size 0      heartbeat
        offset -1                table record (table_record.py)
        offset -2, size 24       marks: i64 confirmed end, i64 its store time in ms, i64 log begin
    follower → leader   i64 end of the log on its disk, i64 seq of the last table record on its disk

The handshake (handshake.py) precedes both. Consumers of a follower see the log up to the confirmed
end, as consumers of the leader do.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from pocketmq.services.replication.protocol import (
    HEAD,
    PIECE_SIZE_MAX,
    LogPiece,
)
from pocketmq.services.replication.table_record import (
    RECORD_SIZE_MAX,
    RecordRefused,
    TableRecord,
    decode_record,
)

REPORT: Final = Struct(">qq")
MARKS: Final = Struct(">qqq")
TABLE: Final = -1
"""Offset of a frame with a table record."""
CONFIRMED: Final = -2
"""Offset of a frame with marks."""


class LeaderBroken(Exception):
    """Bytes of a leader that are not of the protocol: the connection must be closed."""


class LogBytes(NamedTuple):
    """Bytes of the log at a physical offset, never across a file's end."""

    physical_offset: int
    content: bytes


class LeaderAlive(NamedTuple):
    """A sign of life."""

    physical_offset: int


class LeaderMarks(NamedTuple):
    """The part of the log that the leader shows to consumers.

    confirmed       physical offset of its end
    store_time_ms   store time of the last record below `confirmed`
    begin           physical offset of the leader's oldest byte: messages above it may be needed
                    again
    """

    confirmed: int
    store_time_ms: int
    begin: int = 0


Event = LogBytes | LeaderAlive | TableRecord | LeaderMarks


class FollowerStream:
    """The frames that arrive on one connection.

    begin            physical offset of the first byte of the log
    file_size_bytes  size of the log's files
    is_bare          whether the leader is a master of RocketMQ, which sends only the log
    """

    __slots__ = (
        "_file_size_bytes", "_is_bare", "_left", "_limits", "_needed", "_rest",
        "next_offset",
    )  # fmt: skip

    def __init__(self, begin: int, file_size_bytes: int, *, is_bare: bool = False) -> None:
        self.next_offset = begin
        """Physical offset of the next byte of the log."""
        self._file_size_bytes = file_size_bytes
        self._is_bare = is_bare
        self._limits = {} if is_bare else {TABLE: RECORD_SIZE_MAX, CONFIRMED: MARKS.size}
        """Upper limit of a frame's bytes, by the offset that marks its kind."""
        self._left = 0
        """Bytes of the log that the present frame still has."""
        self._rest = bytearray()
        """Begin of a head, or of a frame that is not of the log."""
        self._needed = 0
        """Length from which on the rest can be read."""

    def receive(self, content: bytes) -> Iterator[Event]:
        """Yields what has arrived; bytes of the log without waiting for the end of their frame.

        Errors   LeaderBroken
        """
        if self._rest:
            self._rest += content
            if len(self._rest) < self._needed:
                return
            content = bytes(self._rest)
            self._rest.clear()
        position = 0
        while position < len(content):
            if self._left:
                found = content[position : position + self._left]
                position += len(found)
                yield self._log_bytes(found)
                continue
            event, size = self._next(content, position)
            if not size:
                break
            position += size
            if event is not None:
                yield event
        self._rest += content[position:]

    @property
    def has_whole_piece(self) -> bool:
        """Whether all bytes of the last piece of the log have arrived."""
        return not self._left

    def _log_bytes(self, found: bytes) -> LogBytes:
        event = LogBytes(self.next_offset, found)
        self._left -= len(found)
        self.next_offset += len(found)
        assert self._left >= 0
        return event

    def _next(self, content: bytes, position: int) -> tuple[Event | None, int]:
        """Reads a head, and its content unless that is of the log.

        Returns  (event, None before bytes of the log; size: 0 if not all has arrived)
        """
        self._needed = HEAD.size
        if len(content) - position < HEAD.size:
            return None, 0
        offset, size = HEAD.unpack_from(content, position)
        begin = position + HEAD.size
        if offset >= 0:
            self._check_piece(LogPiece(offset, size))
            self._left = size
            return None if size else LeaderAlive(offset), HEAD.size
        limit = self._limits.get(offset, -1)
        if not 0 <= size <= limit:
            raise LeaderBroken(f"a frame of {size} bytes at {offset} is not of this protocol")
        self._needed += size
        if len(content) - position < self._needed:
            return None, 0
        found = content[begin : begin + size]
        return _marks(found) if offset == CONFIRMED else _table(found), self._needed

    def _check_piece(self, piece: LogPiece) -> None:
        begin, size = piece
        if begin != self.next_offset:
            raise LeaderBroken(f"bytes at {begin} of the log follow those up to {self.next_offset}")
        room = self._file_size_bytes - begin % self._file_size_bytes
        if not 0 <= size <= (room if self._is_bare else min(PIECE_SIZE_MAX, room)):
            raise LeaderBroken(f"a piece of {size} bytes at {begin} is beyond its limits")


def _marks(content: bytes) -> LeaderMarks:
    if len(content) != MARKS.size:
        raise LeaderBroken(f"marks of {len(content)} bytes")
    marks = LeaderMarks(*MARKS.unpack(content))
    if not 0 <= marks.begin <= marks.confirmed:
        raise LeaderBroken(f"the confirmed part is from {marks.begin} to {marks.confirmed}")
    return marks


def _table(content: bytes) -> TableRecord:
    try:
        return decode_record(content)
    except RecordRefused as refused:
        raise LeaderBroken(str(refused)) from refused


def encode_report(end: int, table_seq: int) -> bytes:
    """Returns a report of the log and the tables that are on the follower's disk."""
    return REPORT.pack(end, table_seq)


def encode_table(record: TableRecord) -> bytes:
    """Returns the frame of a table record, as a leader sends it."""
    content = record.encode()
    return HEAD.pack(TABLE, len(content)) + content


def encode_marks(marks: LeaderMarks) -> bytes:
    """Returns the frame of marks, as a leader sends it."""
    return HEAD.pack(CONFIRMED, MARKS.size) + MARKS.pack(*marks)
