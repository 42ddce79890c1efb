"""RocketMQ's HA protocol on the leader's side: one connection, without sockets or files.

    slave → leader   i64 offset                     a report: the slave has the log below it
    leader → slave   i64 offset, i32 size, bytes    a piece of the log; size 0: heartbeat

The slave reports once, and the leader then sends the log from that offset on. Reports follow each
piece. A report promises bytes in the slave's memory, not on its disk, and usually ends inside a
record. After a crash, a slave may ask for less than it had reported.
Source: DefaultHAConnection, DefaultHAClient.
"""

from struct import Struct
from typing import Final, NamedTuple

from pocketmq.services.replication.waker import Waker

HEAD: Final = Struct(">qi")
"""Physical offset and size of the bytes that follow."""
REPORT: Final = Struct(">q")
PIECE_SIZE_MAX: Final = 1 << 20
"""Upper limit of the bytes of a piece; a slave reads pieces of up to 4 MiB less HEAD's size."""
HEARTBEAT_MS: Final = 5_000
"""Silence of the leader after which it sends a heartbeat."""
SILENCE_MAX_MS: Final = 20_000
"""Silence of the slave after which its connection is closed."""


class SlaveRefused(Exception):
    """A slave that cannot be served: its connection is closed for this reason."""


class LogEnds(NamedTuple):
    """The part of the log that slaves may have: [begin, end), in files of `file_size_bytes`."""

    begin: int
    end: int
    file_size_bytes: int


class LogPiece(NamedTuple):
    """Bytes of the log to send; no bytes: a heartbeat."""

    physical_offset: int
    size_bytes: int

    @property
    def head(self) -> bytes:
        """The bytes before the log's bytes."""
        return HEAD.pack(*self)


class LagClock:
    """Measures for how long a slave has lagged.

    The clock notes the end of the log and the time. Once a report reaches this end, the lag is
    measured from that time on.

    now_ms   monotonic time of its connection
    """

    __slots__ = ("_end", "_end_ms", "_since_ms")

    def __init__(self, now_ms: int) -> None:
        self._end = 0
        """End of the log at `_end_ms`, which the slave has not reported yet."""
        self._end_ms = self._since_ms = now_ms

    def sends(self, piece: LogPiece, acknowledged: int, end: int, now_ms: int) -> None:
        """Records that a piece is sent: a slave without lag lags from now on."""
        if acknowledged == piece.physical_offset and sum(piece) >= end:
            self._end, self._end_ms, self._since_ms = sum(piece), now_ms, now_ms

    def hears(self, acknowledged: int, end: int, now_ms: int) -> None:
        """Records a report."""
        if acknowledged >= self._end:
            self._since_ms = self._end_ms
            self._end, self._end_ms = end, now_ms
        assert self._since_ms <= self._end_ms

    def lag_ms(self, acknowledged: int, end: int, now_ms: int) -> int:
        """Returns the time since the slave last had the whole log; 0: it has it now."""
        return 0 if acknowledged >= end else now_ms - self._since_ms


class SlaveStream:
    """The state of one connection: the slave's last report, and the next piece to send.

    peer     the slave's address
    now_ms   monotonic time of its connection
    """

    __slots__ = (
        "_heard_ms", "_rest", "_said_ms", "acknowledged", "ended_by", "follower", "lag", "peer",
        "sent", "waker",
    )  # fmt: skip

    def __init__(self, peer: str, now_ms: int) -> None:
        self.peer = peer
        self.follower = ""
        """Id of a PocketMQ follower; "" for a slave of RocketMQ."""
        self.acknowledged = -1
        """Last report; -1 before the first one."""
        self.sent = -1
        """Physical offset of the next piece; -1 before the first report."""
        self.ended_by = ""
        """Why this broker ends the connection; "": it does not."""
        self.lag = LagClock(now_ms)
        self.waker = Waker()
        self._rest = b""
        self._heard_ms = self._said_ms = now_ms

    def receive(self, content: bytes, ends: LogEnds, now_ms: int) -> None:
        """Reads reports, of which the last one counts.

        Errors   SlaveRefused: the connection must be closed
        """
        found = self._reports(REPORT, content, now_ms)
        for (report,) in found:
            if self.sent < 0:
                if len(found) > 1 or self._rest:
                    raise SlaveRefused("it speaks before it was answered")
                self.sent = _begin(report, ends)
            elif not 0 <= report <= self.sent:
                why = f"it acknowledges {report}, but was sent the log up to {self.sent}"
                raise SlaveRefused(why)
            self.acknowledged = report
        assert self.acknowledged <= max(self.sent, 0)

    def _reports(self, layout: Struct, content: bytes, now_ms: int) -> list[tuple[int, ...]]:
        """Returns the whole reports that have arrived."""
        self._heard_ms = now_ms
        content = self._rest + content
        whole = len(content) // layout.size * layout.size
        self._rest = content[whole:]
        return [*layout.iter_unpack(content[:whole])]

    def next_piece(self, ends: LogEnds, now_ms: int) -> LogPiece | None:
        """Returns the piece to send now, None: nothing is due. The caller then calls `said`."""
        if self.sent < 0:
            return None
        file_end = self.sent - self.sent % ends.file_size_bytes + ends.file_size_bytes
        size_bytes = min(ends.end, file_end, self.sent + PIECE_SIZE_MAX) - self.sent
        if size_bytes > 0:
            return LogPiece(self.sent, size_bytes)
        return LogPiece(self.sent, 0) if now_ms - self._said_ms >= HEARTBEAT_MS else None

    def said(self, piece: LogPiece, now_ms: int) -> None:
        """Records that a piece was sent."""
        assert piece.physical_offset == self.sent
        self.sent += piece.size_bytes
        self._said_ms = now_ms

    def is_dead(self, now_ms: int) -> bool:
        """Whether the slave was silent for too long."""
        return now_ms - self._heard_ms > SILENCE_MAX_MS

    @property
    def has_tables(self) -> bool:
        """Whether the slave has the tables that a leader needs; RocketMQ's slaves pull them."""
        return True

    @property
    def wakes_at_ms(self) -> int:
        """Monotonic time of the next heartbeat, or of the end of a silent connection."""
        dead_ms = self._heard_ms + SILENCE_MAX_MS + 1
        return dead_ms if self.sent < 0 else min(self._said_ms + HEARTBEAT_MS, dead_ms)


def _begin(report: int, ends: LogEnds) -> int:
    """Returns the physical offset of the first piece; an empty slave (0) gets the whole log.

    An empty slave accepts the begin of any file. RocketMQ sends it only the last file.
    """
    if report < 0:
        raise SlaveRefused(f"its first report {report} is no offset")
    if report == 0:
        return ends.begin
    if report > ends.end:
        why = (
            f"it has the log up to {report}, this broker only up to {ends.end}: it followed "
            "another broker or this one has lost its end; compare both, then empty the slave's "
            "store to copy it again"
        )
        raise SlaveRefused(why)
    if report < ends.begin:
        why = (
            f"it has the log up to {report}, but the log begins at {ends.begin}, as older files "
            "have expired; empty the slave's store to copy it again"
        )
        raise SlaveRefused(why)
    return report
