"""Requests of remoting that end at once or wait for a flush: one loop, without call objects.

frames of one read ─► code with shortcut ─► its reply ─► output
                        │                    └ pending ► PendingFrames ─► flush ─► output
                        └ anything else: the loop stops, and the usual path serves the rest
"""

from time import perf_counter
from typing import Final, final

from pocketmq.native.machine import i64, read_i16_be, read_i32_be
from pocketmq.rpc.call_stats import MethodStats
from pocketmq.rpc.own.flush_waiters import FlushWaiters
from pocketmq.rpc.own.unary_fast_path import QuickMethod, count_answered
from pocketmq.rpc.own.waiting_calls import FrameCalling
from pocketmq.rpc.pending_reply import PendingReply
from pocketmq.rpc.serving import ServedMethod
from pocketmq.wire.remoting import BINARY, FRAME_SIZE_MAX, HEAD_SIZE
from pocketmq.wire.stream import Stream

_CODE_BEGIN: Final = 0x7B22_636F
_CODE_REST: Final = 0x6465_223A
"""Beginning of a JSON header, as the usual clients write it: {"code":."""
REPLIES_SIZE_MAX: Final = 1024 * 1024
"""Bytes of replies after which the usual path, which takes turns, serves the rest of a read."""
_CODE_SIZE: Final = 8
_DIGITS_MAX: Final = 6


@final
class RemotingFastPath:
    """Serves requests of all connections of a server; one `serve` handles those of one read.

    methods    methods with a shortcut, by request code
    asked      method of the request whose shortcut raised an error; else None
    place      position of that request
    """

    __slots__ = ("answered", "asked", "methods", "place")

    def __init__(self, answered: list[MethodStats]) -> None:
        self.methods: dict[int, QuickMethod] = {}
        self.answered = answered
        self.asked: ServedMethod | None = None
        self.place = 0

    def serve(self, client: FrameCalling, data: bytes) -> int:
        """Answers requests in order, or makes them wait for a flush, until one is not usual.

        data     received bytes, which begin with a frame
        Returns  the position of the first request that is not served
        Errors   those of the shortcut of the request at `place`, whose method is `asked`
        Cost     about 0.4 µs a request when compiled, plus the shortcut
        """
        known: QuickMethod | None = None
        late: PendingFrames | None = None
        out = client.frames
        position: i64 = 0
        room: i64 = 1
        count: i64 = 0
        size: i64 = 0
        self.asked = None
        try:
            while room > 0 and size <= REPLIES_SIZE_MAX:
                end = _frame_end(data, position)
                method = None if end < 0 else self.methods.get(_code(data, position))
                if method is None or end - position > method.size_max:
                    break
                if method is not known:
                    served = method.served
                    if served.refusal(client.holder) is not None or not served.is_quick:
                        break
                    if known is not None:
                        count_answered(self.answered, known.served, count)
                    known = method
                    count = 0
                self.place = position
                self.asked = method.served
                request = data[position:end]
                reply = method.shortcut(request, client.host, _nothing)
                self.asked = None
                if isinstance(reply, bytes):
                    out.append(reply)
                    count += 1
                    size += len(reply)
                elif isinstance(reply, PendingReply):
                    if late is not None and not late.takes(reply):
                        late.begin()
                        late = None
                    if late is None:
                        late = PendingFrames(client, method.served, reply)
                        room = late.room()
                    late.add(request, reply.in_time)
                    room -= 1
                else:
                    assert reply is None, "a shortcut of remoting returned an awaitable"
                    break
                position = end
        finally:
            if late is not None:
                late.begin()
            if known is not None:
                count_answered(self.answered, known.served, count)
        assert position <= len(data), "a frame beyond the received bytes"
        return position


def _frame_end(data: bytes, position: i64) -> i64:
    """Returns the end of the frame at a position, -1 if it is not whole."""
    left = len(data) - position
    if left <= HEAD_SIZE + _CODE_SIZE:
        return -1
    size = i64(read_i32_be(data, position))
    if size <= HEAD_SIZE + _CODE_SIZE or size > FRAME_SIZE_MAX or size > left - 4:
        return -1
    return position + 4 + size


def _code(data: bytes, position: i64) -> i64:
    """Returns the request code of a whole frame, -1 if another member precedes it."""
    if data[position + 4] == BINARY:
        return i64(read_i16_be(data, position + HEAD_SIZE))
    position += HEAD_SIZE
    if i64(read_i32_be(data, position)) != _CODE_BEGIN:
        return -1
    if i64(read_i32_be(data, position + 4)) != _CODE_REST:
        return -1
    position += _CODE_SIZE
    code: i64 = 0
    count: i64 = 0
    while position < len(data) and count < _DIGITS_MAX:
        digit: i64 = data[position] - 0x30
        if digit < 0 or digit > 9:
            break
        code = 10 * code + digit
        position += 1
        count += 1
    return code


def _nothing(name: str) -> str | None:
    return None


@final
class PendingFrames(FlushWaiters):
    """Requests of one connection and one method that wait for the same flush."""

    __slots__ = ("_client", "_requests")

    def __init__(self, client: FrameCalling, served: ServedMethod, late: PendingReply) -> None:
        super().__init__(served, late, client.holder, client.now_s)
        self._client = client
        self._requests: list[bytes] = []

    def add(self, request: bytes, reply: bytes) -> None:
        """Adds a waiting request; `begin` counts it."""
        self._requests.append(request)
        self._replies.append(reply)
        self.count += 1

    def begin(self) -> None:
        """Counts the added requests and joins the flush group; called once."""
        assert len(self._requests) == self.count, "a request without a reply"
        self._client.calls.add(self)
        super().begin()

    def _answer(self, replies: list[bytes]) -> None:
        self._client.frames.extend(replies)
        self._served.stats.count_waited(perf_counter() - self._begun_s, self.count)
        self._leave()

    def _refuse(self, error: Exception) -> None:
        for request in self._requests:
            self._client.refuse_frame(request, self._served, error)
        self._leave()

    def take_news(self, stream: Stream) -> None:
        """Is not called: remoting has no streams."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Ends all requests that still wait."""
        seconds = perf_counter() - self._begun_s
        number: i64 = 0
        while number < self.count:
            self._served.stats.count_cancelled(seconds)
            number += 1
        if self.count:
            self._leave()

    def give_up(self) -> None:
        """Ends requests that are still in progress when their connection reaches its age limit."""
        self.cancel()

    def end_requests(self) -> None:
        """Does nothing: the requests are complete."""

    def _leave(self) -> None:
        served = self._served
        served.gate.leave(self._holder.weights, self.count)
        served.stats.end(self.count)
        self.count = 0
        self._requests.clear()
        self._replies.clear()
        self._client.end_call(self)
