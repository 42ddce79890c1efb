"""Unary calls that end at once or wait for a flush: one loop, without call objects.

streams with events ─► complete request, method with shortcut ─► its reply ─► frames
                          │                                       └ pending ► pending_replies.py
                          └ anything else: the loop stops, and connection.py serves that call
"""

from typing import final

from pocketmq.native.machine import i64
from pocketmq.rpc.call_stats import MethodStats
from pocketmq.rpc.own.memory import UNREAD_TIGHT_MAX
from pocketmq.rpc.own.pending_replies import PendingReplies
from pocketmq.rpc.own.waiting_calls import Calling
from pocketmq.rpc.pending_reply import PendingReply
from pocketmq.rpc.service import Shortcut
from pocketmq.rpc.serving import ServedMethod
from pocketmq.wire.stream import Stream


@final
class QuickMethod:
    """A method with a shortcut."""

    __slots__ = ("served", "shortcut", "size_max")

    def __init__(self, served: ServedMethod, shortcut: Shortcut) -> None:
        self.served = served
        self.shortcut = shortcut
        self.size_max: i64 = served.method.request_size_max
        assert self.size_max > 0, "no request size"


@final
class UnaryFastPath:
    """Serves calls of all connections of a server; one `serve` handles the calls of one read.

    reply_max  largest answer sent without checking the memory budget; a larger answer stops the
               loop
    methods    methods with a shortcut, by path
    answered   counts of methods with answered calls, to be folded into their metrics
    asked      method of the call at which the loop stopped; None if its shortcut was not called
    reply      result of that shortcut; None: the handler has to serve the call
    place      index of that call in the list of streams
    """

    __slots__ = ("_reply_max", "answered", "asked", "methods", "place", "reply")

    def __init__(self, answered: list[MethodStats], reply_max: i64) -> None:
        self._reply_max: i64 = reply_max
        self.methods: dict[bytes, QuickMethod] = {}
        self.answered = answered
        self.asked: ServedMethod | None = None
        self.reply: object = None
        self.place = 0

    def serve(self, client: Calling, news: list[Stream], first: int) -> int:
        """Answers calls in order, or makes them wait for a flush, until one needs the usual path.

        Returns  the index of the first stream not served, or the number of streams
        Errors   those of the shortcut of the call at `place`, whose method is `asked`
        Cost     when compiled, about 0.3 µs a call, plus the shortcut and the frames
        """
        assert first >= 0, "negative index of a stream"
        self.asked = None
        self.reply = None
        known: QuickMethod | None = None
        late: PendingReplies | None = None
        room: i64 = 0
        wire, host = client.wire, client.host
        at: i64 = first
        end: i64 = len(news)
        count: i64 = 0
        try:
            while at < end:
                stream = news[at]
                method = self._method(stream)
                if method is None or wire.pending > UNREAD_TIGHT_MAX:
                    break
                if method is not known:
                    served = method.served
                    if served.refusal(client.holder) is not None or not served.is_quick:
                        break
                    if known is not None:
                        count_answered(self.answered, known.served, count)
                    known = method
                    count = 0
                self.place = at
                self.asked = method.served
                reply = method.shortcut(stream.messages[0], host, stream.headers.text)
                if isinstance(reply, bytes) and len(reply) <= self._reply_max:
                    self.asked = None
                    wire.respond(stream, reply)
                    count += 1
                    at += 1
                    continue
                if not isinstance(reply, PendingReply) or len(reply.in_time) > self._reply_max:
                    self.reply = reply
                    break
                if late is None or not late.takes(reply):
                    if late is not None:
                        late.begin()
                    late = PendingReplies(client, method.served, reply)
                    room = late.room()
                self.asked = None
                late.add(stream, reply.in_time)
                at += 1
                room -= 1
                if room <= 0:
                    break
        finally:
            if late is not None:
                late.begin()
            if known is not None:
                count_answered(self.answered, known.served, count)
        return at

    def _method(self, stream: Stream) -> QuickMethod | None:
        """Returns the method of a new call with one complete request, None for any other stream."""
        if stream.call is not None or stream.closed or not stream.ended:
            return None
        if len(stream.messages) != 1:
            return None
        method = self.methods.get(stream.headers.path)
        if method is None or len(stream.messages[0]) > method.size_max:
            return None
        return method


def count_answered(answered: list[MethodStats], served: ServedMethod, count: i64) -> None:
    """Counts answered calls of a method; adds its counts to `answered` if they were folded."""
    assert count >= 0, "negative count of calls"
    if count:
        stats = served.stats
        if not stats.answered:
            answered.append(stats)
        stats.answered += count
