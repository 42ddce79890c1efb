"""Calls whose replies wait for a flush; one object for all such calls of a socket read.

    shortcut ─► PendingReply ─► joined to the calls of the same read ─► flush ─► all answered

A call has no future, task or timer of its own, only a stream and a reply in two lists. A call that
ends alone, by a reset or its deadline, does not affect the others.
"""

from time import perf_counter
from typing import Final, final

from pocketmq.native.machine import i64
from pocketmq.rpc.own.ending import ABANDONED, EXPIRED, OLD, end, refuse
from pocketmq.rpc.own.flush_waiters import FlushWaiters
from pocketmq.rpc.own.waiting_calls import Calling
from pocketmq.rpc.pending_reply import PendingReply
from pocketmq.rpc.service import WireStatus
from pocketmq.rpc.serving import ServedMethod
from pocketmq.wire.stream import Stream

NEVER: Final = float("inf")


@final
class PendingReplies(FlushWaiters):
    """Calls of one connection and one method that wait for the same flush."""

    __slots__ = ("_client", "_due_s", "_streams", "_tick", "_wire")

    def __init__(self, client: Calling, served: ServedMethod, late: PendingReply) -> None:
        holder = client.holder
        if late.user != holder.user:
            holder = client.identify(late.user, is_admin=False)
        super().__init__(served, late, holder, client.now_s)
        self._client = client
        self._wire = client.wire
        self._streams: list[Stream] = []
        self._due_s: float = NEVER
        """Earliest deadline, by `perf_counter`."""
        self._tick = -1

    def add(self, stream: Stream, reply: bytes) -> None:
        """Adds a waiting call; `begin` counts it."""
        assert stream.call is None, "the stream already has a call"
        stream.call = self
        self._wire.drop_request(stream)
        self._streams.append(stream)
        self._replies.append(reply)
        self.count += 1
        if stream.headers.timeout_ms >= 0:
            due_s = self._deadline_of(stream)
            if due_s < self._due_s:
                self._due_s = due_s

    def begin(self) -> None:
        """Counts the added calls and joins the flush group; called once."""
        self._client.calls.add(self)
        super().begin()
        if self._due_s < NEVER:
            self._watch_time()

    def _deadline_of(self, stream: Stream) -> float:
        timeout_ms: int = stream.headers.timeout_ms
        return NEVER if timeout_ms < 0 else self._begun_s + timeout_ms / 1000

    def _watch_time(self) -> None:
        assert self._tick < 0, "a deadline is already scheduled"
        self._tick = self._client.deadlines.after(self._due_s - perf_counter(), self.expire)

    # -- the flush

    def _answer(self, replies: list[bytes]) -> None:
        wire, streams = self._wire, self._streams
        at: i64 = 0
        end: i64 = len(streams)
        while at < end:
            stream = streams[at]
            if stream.call is self:
                stream.call = None
                wire.respond(stream, replies[at])
            at += 1
        self._served.stats.count_waited(perf_counter() - self._begun_s, self.count)
        self._leave(self.count)

    def _refuse(self, error: Exception) -> None:
        seconds = perf_counter() - self._begun_s
        for stream in self._left():
            stream.call = None
            refuse(self._wire, stream, self._served, error, seconds)
        self._leave(self.count)

    # -- earlier ends

    def take_news(self, stream: Stream) -> None:
        """Drops a call that its client has reset."""
        assert stream.call is self, "stream of another call"
        if stream.reset_code >= 0:
            self._drop([stream], ABANDONED)

    def expire(self) -> None:
        """Ends calls whose deadline has passed."""
        now_s, first_s = perf_counter(), NEVER
        over: list[Stream] = []
        for stream in self._left():
            due_s = self._deadline_of(stream)
            if due_s <= now_s:
                over.append(stream)
            elif due_s < first_s:
                first_s = due_s
        self._due_s = first_s
        self._tick = -1
        self._drop(over, EXPIRED)
        if self.count and first_s < NEVER:
            self._watch_time()

    def cancel(self) -> None:
        """Ends all calls that still wait."""
        self._drop(self._left(), ABANDONED)

    def give_up(self) -> None:
        """Ends calls that are still in progress when their connection reaches its age limit."""
        self._drop(self._left(), OLD)

    def end_requests(self) -> None:
        """Does nothing: the requests are complete."""

    def _left(self) -> list[Stream]:
        return [stream for stream in self._streams if stream.call is self]

    def _drop(self, streams: list[Stream], status: WireStatus) -> None:
        if not streams:
            return
        seconds, is_open = perf_counter() - self._begun_s, self._client.is_open
        for stream in streams:
            stream.call = None
            if is_open:
                end(self._wire, stream, status)
            self._served.stats.count_cancelled(seconds)
        self._leave(len(streams))

    def _leave(self, count: i64) -> None:
        """Counts calls that have ended; after the last one, frees the lists."""
        assert 0 < count <= self.count, "more calls ended than began"
        served, client = self._served, self._client
        served.gate.leave(self._holder.weights, count)
        served.stats.end(count)
        self.count -= count
        if self.count == 0:
            client.calls.discard(self)
            self._streams.clear()
            self._replies.clear()
            if self._tick >= 0:
                client.deadlines.remove(self._tick, self.expire)
                self._tick = -1
        client.write_soon()
