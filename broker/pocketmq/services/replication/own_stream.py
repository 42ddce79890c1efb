"""The leader's side of a PocketMQ follower: one connection after its handshake, without sockets.

The follower gets the log up to the committed end, so that both brokers sync it at the same time.
Marks limit the part that it shows to consumers.
"""

from collections.abc import Callable

from pocketmq.services.replication.follower import REPORT, LeaderMarks, encode_marks, encode_table
from pocketmq.services.replication.protocol import LogEnds, LogPiece, SlaveRefused, SlaveStream
from pocketmq.services.replication.table_feed import TableCursor
from pocketmq.services.replication.table_record import TableRecord


class OwnStream(SlaveStream):
    """The state of one connection.

    follower   id of the follower
    cursor     its position in the changes of tables
    begin      physical offset at which the stream begins
    """

    __slots__ = ("_begin", "_confirmed", "_record", "cursor", "forget", "table_seq")

    def __init__(
        self, peer: str, follower: str, cursor: TableCursor, begin: int, now_ms: int
    ) -> None:
        super().__init__(peer, now_ms)
        self.follower = follower
        self.cursor = cursor
        self._record: TableRecord | None = None
        """Record that waits until the log below its `at` was sent."""
        self.sent = begin
        self._begin = self._confirmed = -1
        self.table_seq = 0
        """Number of the last table record on the follower's disk."""
        self.forget: Callable[[], None] = lambda: None
        """Ends the watch of the user that signed the hello; called when the connection ends."""

    def receive(self, content: bytes, ends: LogEnds, now_ms: int) -> None:
        """Reads reports, of which the last one counts.

        Errors   SlaveRefused: the connection must be closed
        """
        for end, table_seq in self._reports(REPORT, content, now_ms):
            if not max(self.acknowledged, 0) <= end <= self.sent:
                why = f"it reports {end} after {self.acknowledged}, and was sent {self.sent}"
                raise SlaveRefused(why)
            if table_seq < self.table_seq:
                raise SlaveRefused(f"it reports tables {table_seq} after {self.table_seq}")
            self.acknowledged, self.table_seq = end, table_seq
        assert self.acknowledged <= self.sent

    async def table(self) -> bytes:
        """Returns the frame of the table record to send now, b"" if none is due.

        Errors   ReadFailed, SlaveRefused: a file is too large
        """
        if self._record is None:
            self._record = await self.cursor.next_record()
        record = self._record
        if record is None or record.at > self.sent:
            return b""
        self._record = None
        return encode_table(record)

    def next_piece(self, ends: LogEnds, now_ms: int) -> LogPiece | None:
        """Returns what to send now, never beyond the place of a waiting table record."""
        if self._record is not None:
            ends = ends._replace(end=min(ends.end, self._record.at))
        return super().next_piece(ends, now_ms)

    @property
    def has_tables(self) -> bool:
        """Whether the follower has every table as it was when it connected, or later."""
        return self.table_seq > 0

    @property
    def confirmed(self) -> int:
        """The visible end in the last marks; -1 before the first ones."""
        return self._confirmed

    def marks(self, visible: int, time_ms: int, begin: int) -> bytes:
        """Returns the frame of marks with the visible part, b"" if it is unchanged.

        begin   physical offset at which the log begins
        """
        if (begin, visible) == (self._begin, self._confirmed):
            return b""
        self._begin, self._confirmed = begin, visible
        return encode_marks(LeaderMarks(visible, time_ms, begin))
