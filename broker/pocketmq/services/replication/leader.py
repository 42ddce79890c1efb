"""The leader of slave brokers: their connections, their lag, and the log that is kept for them.

Slaves are slave brokers of RocketMQ, and PocketMQ followers. A slave of RocketMQ gets the log up to
its visible end: with sync flush, the flushed records. So it never has a record that a crash of this
broker could take back. PocketMQ followers, and slaves for which acknowledgements wait, get records
before they are flushed, so that all brokers flush at the same time.
Source: DefaultHAService.
"""

import logging
import re
from typing import Final, NamedTuple, TypeVar

from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.stats import Counter, Gauge, LabelValues, Stat
from pocketmq.model.step import Next, Now
from pocketmq.services.replication.confirming import Confirming, InSync
from pocketmq.services.replication.own_stream import OwnStream
from pocketmq.services.replication.protocol import LogEnds, LogPiece, SlaveRefused, SlaveStream
from pocketmq.services.replication.table_feed import Quorum, TableFeed
from pocketmq.store.marks import End
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.tables.copied_timer import TimerProof
from pocketmq.store.watermark import Watermark

KEEP_MS: Final = 3_600_000
"""Time after its connection ends for which the log is kept for a slave."""
MARKS_S: Final = 0.002
"""Time for which marks wait for a piece of the log, to be sent with it."""
RING_AGAIN_MS: Final = 1_000
"""Pause before a connection is woken again, if sending takes that long."""
IDLE_MS: Final = 60_000
"""Interval of steps while no slave is connected."""
TELL_AGAIN_MS: Final = 600_000
"""Pause before an unchanged refusal is logged again."""
NUMBERS: Final = re.compile(r"[0-9]+")
GONE_MAX: Final = 16
"""Upper limit of slaves that are remembered without a connection."""
REMOVED: Final = "an operator removed it"
BACK: Final = "it connected again"
"""Reasons for which this broker ends a connection."""

Stream = TypeVar("Stream", bound=SlaveStream)

logger = logging.getLogger(__name__)


class SlaveRow(NamedTuple):
    """A slave as operators see it.

    acknowledged   physical offset below which it has the log; -1 before its first report
    sent           physical offset below which it was sent the log; -1 before its first report
    lag_bytes      bytes of the log that it may have, and does not have
    follower       id of a PocketMQ follower; "" for a slave of RocketMQ, or without a connection
    """

    peer: str
    acknowledged: int
    sent: int
    lag_bytes: int
    is_connected: bool
    follower: str = ""


class Leader:
    """The slaves of an open store.

    lag_bytes_max   upper limit of the bytes that retention keeps for a slave
    in_sync         what an acknowledgement needs
    """

    __slots__ = (
        "_arrivals", "_gone", "_in_sync", "_lag_bytes_max", "_refused", "_rings",
        "_sent_bytes", "_store", "_told", "confirming", "stats", "tables",
    )  # fmt: skip

    def __init__(
        self, store: MessageStore, lag_bytes_max: int, in_sync: InSync | None = None
    ) -> None:
        in_sync = in_sync or InSync()
        self._store = store
        self.confirming = confirming = Confirming(store.marks, in_sync)
        store.writing.durability.is_short = lambda: confirming.is_short
        self._lag_bytes_max = lag_bytes_max
        self._in_sync = in_sync
        self.tables = TableFeed(
            store.tables.files, store.clock, lambda: store.appended, self._quorum
        )
        self._rings: dict[SlaveStream, Watermark] = {}
        self._arrivals = Watermark()
        """Number of changes of connections, on which heartbeats depend."""
        self._gone: dict[str, tuple[int, int]] = {}
        """Host of a slave without a connection -> (acknowledged, monotonic ms of its end)."""
        self._told: dict[tuple[str, str], int] = {}
        """Host and reason of a refused connection -> monotonic ms at which it was logged."""
        self._sent_bytes = Counter(
            "pocketmq_replica_sent_bytes_total", "Bytes of the log sent to slaves."
        )
        self._refused = Counter(
            "pocketmq_replica_refused_total", "Connections of slaves that were refused."
        )
        self.stats: list[Stat] = [
            self._sent_bytes,
            self._refused,
            Gauge("pocketmq_replicas", "Connected slaves.", lambda: float(len(self._rings))),
            Gauge(
                "pocketmq_replica_lag_bytes", "Bytes of the log that a slave lacks.",
                self._lags, ("replica",),
            ),
            Gauge(
                "pocketmq_replica_lag_seconds", "Time since a slave last had all of the log.",
                self._lag_times, ("replica",),
            ),
            Gauge(
                "pocketmq_replicas_missing", "Followers that acknowledgements need and lack.",
                lambda: float(max(in_sync.replicas - 1 - confirming.connected, 0)),
            ),
        ]  # fmt: skip

    # -- connections ---------------------------------------------------------------------------
    def connect(self, peer: str) -> SlaveStream:
        """Adds the connection of a slave; `disconnect` must follow."""
        return self._add(SlaveStream(peer, self._now_ms()))

    def admit(
        self, peer: str, follower: str, begin: int, timer: TimerProof | None = None
    ) -> OwnStream:
        """Adds the connection of a PocketMQ follower; earlier connections of it end.

        begin   physical offset at which its stream begins
        timer   proof of what it has of the timer log
        """
        for one in self._rings:
            if isinstance(one, OwnStream) and one.follower == follower:
                self.tables.disconnect(one.cursor)
                self.end(one, BACK)
        self._gone.pop(_host(peer), None)
        cursor = self.tables.connect(timer)
        stream = self._add(OwnStream(peer, follower, cursor, begin, self._now_ms()))
        logger.info("replica.follows", extra={"peer": peer, "asked": begin, "begin": begin})
        return stream

    def _add(self, stream: Stream) -> Stream:
        self._rings[stream] = Watermark()
        _ring(self._arrivals)
        logger.info("replica.connected", extra={"peer": stream.peer})
        return stream

    def disconnect(self, stream: SlaveStream, why: str) -> None:
        """Removes a connection, and keeps the log for its slave for KEEP_MS.

        RocketMQ's protocol does not name slaves: a slave that connects from the same host counts as
        the same one.
        """
        del self._rings[stream]
        stream.waker.close()
        if isinstance(stream, OwnStream):
            stream.forget()
            self.tables.disconnect(stream.cursor)
        self._confirm()
        host = _host(stream.peer)
        is_back = any(_host(one.peer) == host and one.sent >= 0 for one in self._rings)
        if stream.acknowledged >= 0 and not is_back and stream.ended_by not in (REMOVED, BACK):
            self._gone.pop(host, None)
            while len(self._gone) >= GONE_MAX:
                del self._gone[next(iter(self._gone))]
            self._gone[host] = (stream.acknowledged, self._now_ms())
        logger.warning(
            "replica.disconnected",
            extra={"peer": stream.peer, "acknowledged": stream.acknowledged, "reason": why},
        )

    def remove(self, name: str) -> bool:
        """Forgets a slave by its id, peer or host, and disconnects it; returns whether it was one.

        Effects  a slave that connects again is added again
        """
        found = [
            one for one in self._rings if name and name in (one.follower, one.peer, _host(one.peer))
        ]
        for stream in found:
            self.end(stream, REMOVED)
        is_gone = self._gone.pop(name, None) is not None
        return is_gone or bool(found)

    def end(self, stream: SlaveStream, why: str) -> None:
        """Ends a connection, which `watch` then reports; the log is kept for its slave."""
        stream.ended_by = why
        _ring(self._rings[stream])

    def receive(self, stream: SlaveStream, content: bytes) -> None:
        """Takes bytes from a slave.

        Errors   SlaveRefused: the connection must be closed
        """
        is_first = stream.acknowledged < 0
        try:
            stream.receive(content, self._ends_for(stream), self._now_ms())
            if isinstance(stream, OwnStream):
                self.tables.acknowledge(stream.cursor, stream.table_seq)
        except SlaveRefused as refused:
            self.refuse(stream.peer, str(refused))
            raise
        stream.lag.hears(stream.acknowledged, self._mark(stream).value, self._now_ms())
        self._confirm()
        if is_first and stream.acknowledged >= 0:
            self._gone.pop(_host(stream.peer), None)
            logger.info(
                "replica.follows",
                extra={"peer": stream.peer, "asked": stream.acknowledged, "begin": stream.sent},
            )
            _ring(self._rings[stream])

    def refuse(self, peer: str, why: str) -> None:
        """Counts a refused connection; logs a new reason at once, and a repeated one rarely.

        A peer connects again every few seconds. Reasons are equal if only their numbers differ.
        """
        self._refused.value += 1
        key, now_ms = (_host(peer) or peer, NUMBERS.sub("", why)), self._now_ms()
        if now_ms - self._told.get(key, -TELL_AGAIN_MS) < TELL_AGAIN_MS:
            return
        while len(self._told) >= GONE_MAX:
            del self._told[next(iter(self._told))]
        self._told[key] = now_ms
        logger.warning("replica.refused", extra={"peer": peer, "reason": why})

    def next_piece(self, stream: SlaveStream) -> LogPiece | None:
        """Returns the piece to send to a slave now, None: nothing is due."""
        return stream.next_piece(self._ends_for(stream), self._now_ms())

    async def table(self, stream: SlaveStream) -> bytes:
        """Returns the table record to send to a PocketMQ follower now, b"" for none.

        Errors   ReadFailed, SlaveRefused: a file is too large
        """
        return await stream.table() if isinstance(stream, OwnStream) else b""

    def marks(self, stream: SlaveStream) -> bytes:
        """Returns the marks to send to a PocketMQ follower now, b"" for none."""
        if not isinstance(stream, OwnStream):
            return b""
        visible = self._store.marks.visible()
        begin = min(self._store.min_offset, visible.value)
        return stream.marks(visible.value, visible.time_ms, begin)

    async def content(self, piece: LogPiece) -> bytes:
        """Returns the bytes of a piece; old ones are read in a thread.

        Errors   ReadFailed, DiskSlow, SlaveRefused: they have expired
        """
        if not piece.size_bytes:
            return b""
        content = await value_of(self._store.reading.log_bytes(*piece))
        if len(content) != piece.size_bytes:
            raise SlaveRefused("the log no longer has what it asks for: older files have expired")
        return content

    def said(self, stream: SlaveStream, piece: LogPiece) -> None:
        """Records that a piece was sent."""
        self._sent_bytes.value += piece.size_bytes
        now_ms = self._now_ms()
        stream.lag.sends(piece, stream.acknowledged, self._mark(stream).value, now_ms)
        stream.said(piece, now_ms)

    def ends(self) -> LogEnds:
        """Returns the visible part of the log."""
        return self._ends_upto(self._store.marks.visible())

    def _ends_for(self, stream: SlaveStream) -> LogEnds:
        """Returns the part of the log that a slave may have."""
        mark = self._mark(stream)
        if self._counts(stream):
            self.confirming.sends(mark.value, mark.time_ms)
        return self._ends_upto(mark)

    def _ends_upto(self, mark: End) -> LogEnds:
        log, end = self._store.log, mark.value
        return LogEnds(min(log.min_offset, end), end, log.file_size_bytes)

    def _mark(self, stream: SlaveStream) -> End:
        marks = self._store.marks
        is_early = isinstance(stream, OwnStream) or self._counts(stream)
        return marks.committed if is_early else marks.visible()

    def _counts(self, stream: SlaveStream) -> bool:
        """Returns whether acknowledgements wait for a slave."""
        is_counted = isinstance(stream, OwnStream) or self._in_sync.counts_legacy
        return self.confirming.is_on and is_counted

    def _confirm(self) -> None:
        """Advances the replicated mark; a slave of RocketMQ is identified by its host."""
        self.confirming.look(
            (one.follower or _host(one.peer), one.acknowledged)
            for one in self._rings
            if one.acknowledged >= 0 and self._counts(one) and one.has_tables
        )

    def _quorum(self) -> Quorum:
        """Returns how many followers must have a table; slaves of RocketMQ copy it later."""
        in_sync, connected = self._in_sync, self.tables.follower_count
        needed = in_sync.replicas - 1
        if needed and in_sync.is_all:
            needed = max(needed, connected)
        if in_sync.counts_legacy:
            needed = min(needed, connected)
        return Quorum(needed, self._store.settings.ack_timeout_ms)

    async def woken(self, stream: SlaveStream) -> None:
        """Waits until a slave may have something to receive."""
        rung, waker = self._rings[stream], stream.waker
        waker.add(rung, rung.value + 1)
        if stream.sent >= 0:
            waker.add(self._mark(stream), stream.sent + 1)
        if isinstance(stream, OwnStream):
            waker.add(self._store.marks.visible(), stream.confirmed + 1, MARKS_S)
            waker.add(self.tables.arrived, self.tables.arrived.value + 1)
        await waker.woken()

    async def watch(self, stream: SlaveStream) -> None:
        """Waits until a slave's connection must end, even while the slave does not read.

        Errors   SlaveRefused
        """
        rung = self._rings[stream]
        while not stream.is_dead(self._now_ms()):
            if stream.ended_by:
                raise SlaveRefused(stream.ended_by)
            await rung.reached(rung.value + 1)
        raise SlaveRefused("it was silent for 20 s")

    # -- background ----------------------------------------------------------------------------
    def step(self, now: Now) -> Next:
        """Wakes the connections whose heartbeat is due, and those that are dead; a step."""
        now_ms = now.monotonic_ms
        at_ms = now_ms + IDLE_MS
        for stream, rung in self._rings.items():
            wakes_at_ms = stream.wakes_at_ms
            if wakes_at_ms <= now_ms:
                _ring(rung)
                wakes_at_ms = now_ms + RING_AGAIN_MS
            at_ms = min(at_ms, wakes_at_ms)
        return Next(at_ms, self._arrivals, self._arrivals.value + 1)

    def floor(self) -> int:
        """Returns the physical offset from which on the log is kept for slaves.

        The log is not kept for a slave that lags by more than `lag_bytes_max`, or that was
        disconnected for KEEP_MS.
        """
        now_ms, end = self._now_ms(), self.ends().end
        acknowledged = [
            stream.acknowledged if stream.acknowledged > 0 else stream.sent
            for stream in self._rings
            if stream.sent >= 0
        ]
        acknowledged += [
            offset for offset, ended_ms in self._gone.values() if now_ms - ended_ms < KEEP_MS
        ]
        kept = [offset for offset in acknowledged if end - offset <= self._lag_bytes_max]
        return min(kept, default=OFFSET_MAX)

    def streams(self) -> list[SlaveStream]:
        """Returns the connections, in order of their begin."""
        return list(self._rings)

    def rows(self) -> list[SlaveRow]:
        """Returns all slaves, connected ones first."""
        end = self.ends().end
        connected = [
            SlaveRow(
                one.peer,
                one.acknowledged,
                one.sent,
                max(self._mark(one).value - max(one.acknowledged, 0), 0),
                True,
                one.follower,
            )
            for one in self._rings
        ]
        gone = [
            SlaveRow(host, offset, offset, end - offset, False)
            for host, (offset, _) in self._gone.items()
        ]
        return connected + gone

    def _now_ms(self) -> int:
        return self._store.clock.monotonic_ms()

    def _lags(self) -> dict[LabelValues, float]:
        return {(row.peer,): float(row.lag_bytes) for row in self.rows() if row.is_connected}

    def _lag_times(self) -> dict[LabelValues, float]:
        now_ms = self._now_ms()
        return {
            (one.peer,): one.lag.lag_ms(one.acknowledged, self._mark(one).value, now_ms) / 1_000
            for one in self._rings
        }


def _ring(mark: Watermark) -> None:
    mark.advance(mark.value + 1)


def _host(peer: str) -> str:
    return peer.rpartition(":")[0]
