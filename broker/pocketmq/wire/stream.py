"""One call: its received request, and the unsent part of its answer."""

from typing import Final, final

from pocketmq.native.machine import BytesWriter, i64, read_i32_be, read_i64_be
from pocketmq.wire.headers import Headers
from pocketmq.wire.messages import PREFIX_SIZE, check_prefix, opened

PIECE_SIZE_MIN: Final[i64] = 4_096
"""Minimum size of a piece of an unfinished message that is kept as an object.

Smaller pieces are copied into one buffer, as their object overhead would exceed their content.
"""
MESSAGE_OVERHEAD: Final[i64] = 64
"""Memory in bytes charged for a message besides its content; limits empty messages."""
STREAM_OVERHEAD: Final[i64] = 1_024
"""Memory in bytes charged for an open stream besides its content."""


@final
class Stream:
    """One stream of a connection.

    id          stream id, odd
    headers     headers of the call
    messages    complete request messages, decompressed; the server clears the list, then calls
                `consume`
    ended       whether the request is complete
    reset_code  HTTP/2 error code of a reset by either side; 0 for a refused call; else -1
    call        object set by the server; None at first
    pending     bytes of answers that wait for the client's window
    closed      whether nothing more is sent: the answer is complete, or the stream was reset
    held        bytes of unconsumed and of unfinished request messages
    dropped     bytes of `held` whose messages were dropped; windows still count them
    """

    def __init__(
        self, stream_id: i64, headers: Headers, receive_window: i64, message_max: i64
    ) -> None:
        """Begins a stream that HEADERS opened.

        receive_window   bytes that the client may send
        message_max      upper limit of the bytes of a decompressed message
        """
        self.id: i64 = stream_id
        self.headers = headers
        self.messages: list[bytes] = []
        self.ended = False
        self.reset_code: i64 = -1
        self.call: object = None
        self.closed = False
        self.turn: i64 = 0  # number of the `receive` that last returned the stream
        self.body_size: i64 = 0  # bytes of all DATA so far
        self.seen_size: i64 = -1  # `body_size` at the last check for progress
        self.message_max: i64 = message_max
        # -- the request
        self.receive_window: i64 = receive_window
        self.held: i64 = 0
        self.dropped: i64 = 0
        self.waiting: i64 = 0  # bytes of complete messages in `held`
        self.partial: BytesWriter | None = None  # last bytes of the unfinished message or prefix
        self.pieces: list[bytes] = []  # earlier pieces of the unfinished message
        self.came: i64 = 0  # received bytes of the unfinished message
        self.wanted: i64 = -1  # length of the unfinished message, -1 until its prefix is complete
        self.flag: i64 = 0  # flag of the unfinished message
        # -- the answer
        self.pending: i64 = 0
        self.is_head_sent = False
        self.parts: list[bytes] = []  # pending framed messages
        self.part_start: i64 = 0  # bytes of the first part that are sent
        self.trailers: bytes = b""  # field block that ends the stream after all parts
        self.credit: i64 = 0  # send window minus the initial window
        self.is_ready = False  # queued for sending

    def accept(self, data: bytes, p: i64, end: i64) -> None:
        """Adds the part of the request's body at [p, end).

        Errors   MessageFault: the call must be refused
        """
        partial = self.partial
        while p < end:
            if partial is None:
                length = self._whole(data, p, end)
                if length >= 0:
                    p += PREFIX_SIZE + length
                    continue
                partial = BytesWriter()
                self.partial = partial
            p = self._grow(partial, data, p, end)
            partial = self.partial
        self.weigh()

    def weigh(self) -> None:
        """Recomputes `held` after a change of `messages` or of the unfinished message."""
        assert self.waiting >= 0, "more bytes consumed than received"
        self.held = self.waiting + MESSAGE_OVERHEAD * len(self.messages)
        if self.partial is not None:
            self.held += PREFIX_SIZE + self.came if self.wanted >= 0 else len(self.partial)

    def _whole(self, data: bytes, p: i64, end: i64) -> i64:
        """Adds the message at `p`, if it is complete; returns its length, or else -1."""
        if end - p < PREFIX_SIZE:
            return -1
        prefix = read_i64_be(data, p - 3)  # exists: a frame header precedes all DATA
        length = prefix & 0xFFFFFFFF
        flag = prefix >> 32 & 255
        if length > self.message_max or flag:
            check_prefix(flag, length, self.headers.encoding, self.message_max)
        if length > end - p - PREFIX_SIZE:
            return -1
        begin = p + PREFIX_SIZE
        self._finish(data[begin : begin + length], flag)
        return length

    def _grow(self, partial: BytesWriter, data: bytes, p: i64, end: i64) -> i64:
        """Adds bytes to the unfinished message; returns the position after them.

        Cost     two copies of a large message, whatever its frames' sizes
        """
        if self.wanted < 0:
            size: i64 = len(partial)
            take = PREFIX_SIZE - size
            if take > end - p:
                take = end - p
            partial.write(data[p : p + take])
            p += take
            if size + take < PREFIX_SIZE:
                return p
            self._begin(partial.getvalue())
            partial.truncate(0)
        take = self.wanted - self.came
        if take > end - p:
            take = end - p
        self.came += take
        if take < PIECE_SIZE_MIN:
            partial.write(data[p : p + take])
        else:
            if len(partial):
                self.pieces.append(partial.getvalue())
                partial.truncate(0)
            self.pieces.append(data[p : p + take])
        if self.came == self.wanted:
            self._join(partial)
        return p + take

    def _join(self, partial: BytesWriter) -> None:
        message = partial.getvalue()
        if self.pieces:
            if message:
                self.pieces.append(message)
            message = b"".join(self.pieces)
            self.pieces = []
        assert len(message) == self.came, "pieces of the message are missing"
        self.partial = None
        self.wanted = -1
        self.came = 0
        self._finish(message, self.flag)

    def _begin(self, prefix: bytes) -> None:
        length: i64 = i64(read_i32_be(prefix, 1))
        length &= 0xFFFFFFFF
        self.flag = i64(prefix[0])
        check_prefix(self.flag, length, self.headers.encoding, self.message_max)
        self.wanted = length

    def _finish(self, message: bytes, flag: i64) -> None:
        if flag:
            message = opened(message, self.message_max)
        self.waiting += len(message)
        self.messages.append(message)
