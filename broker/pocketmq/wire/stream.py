"""One call: its received request, and the unsent part of its answer."""

from typing import Final, final

from pocketmq.native.machine import BytesWriter, i64, read_i32_be, read_i64_be
from pocketmq.wire.headers import Headers
from pocketmq.wire.messages import PREFIX_SIZE, check_prefix, opened

PIECE_SIZE_MIN: Final[i64] = 4_096
"""Pieces of an unfinished message are kept separately from this size on; smaller ones would each
take more memory than they hold."""
MESSAGE_OVERHEAD: Final[i64] = 64
"""Memory counted for a message beside its bytes; else empty ones would cost nothing."""
STREAM_OVERHEAD: Final[i64] = 1_024
"""Memory counted for an open stream beside its content."""


@final
class Stream:
    """One stream of a connection, as its server sees it.

    id          the client's number, odd
    headers     of the call
    messages    whole requests, decompressed; the shell empties the list and calls `consume`
    ended       the client sends no more
    reset_code  HTTP/2's code by which the stream was cut off, by either side; -1 for none
    call        the shell's own, None at first
    pending     bytes of answers that wait for the client's window
    closed      nothing can be sent any more: answered whole, or cut off
    held        bytes of the request here: messages the shell has, and the unfinished one
    dropped     bytes of `held` that were dropped, while the windows still count them
    """

    def __init__(
        self, stream_id: i64, headers: Headers, receive_window: i64, message_max: i64
    ) -> None:
        """Begins where HEADERS opened the stream.

        receive_window   bytes the client may send
        message_max      bytes of a message, decompressed
        """
        self.id: i64 = stream_id
        self.headers = headers
        self.messages: list[bytes] = []
        self.ended = False
        self.reset_code: i64 = -1
        self.call: object = None
        self.closed = False
        self.turn: i64 = 0  # the `receive` that last named it
        self.body_size: i64 = 0  # of all DATA so far
        self.seen_size: i64 = -1  # the same when it was last looked at
        self.message_max: i64 = message_max
        # -- the request
        self.receive_window: i64 = receive_window
        self.held: i64 = 0
        self.dropped: i64 = 0
        self.waiting: i64 = 0  # of held: bytes of whole messages
        self.partial: BytesWriter | None = None  # the unfinished message's end, or its prefix's
        self.pieces: list[bytes] = []  # its earlier pieces
        self.came: i64 = 0  # bytes of the unfinished message
        self.wanted: i64 = -1  # bytes of the unfinished message, -1 until its prefix is whole
        self.flag: i64 = 0  # of its prefix
        # -- the answer
        self.pending: i64 = 0
        self.is_head_sent = False
        self.parts: list[bytes] = []  # framed messages that wait
        self.part_start: i64 = 0  # of the first, bytes already sent
        self.trailers: bytes = b""  # the block that ends the stream once all parts have gone
        self.credit: i64 = 0  # its send window less the initial one
        self.is_ready = False  # has a turn to send

    def accept(self, data: bytes, p: i64, end: i64) -> None:
        """Takes the part of the request's body at [p, end).

        Errors   MessageFault: the call cannot go on
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
        """Recomputes `held`; the shell empties `messages` by itself."""
        assert self.waiting >= 0, "no more is taken than came"
        self.held = self.waiting + MESSAGE_OVERHEAD * len(self.messages)
        if self.partial is not None:
            self.held += PREFIX_SIZE + self.came if self.wanted >= 0 else len(self.partial)

    def _whole(self, data: bytes, p: i64, end: i64) -> i64:
        """Takes the message that begins at `p` if it is all there; returns its length, else -1."""
        if end - p < PREFIX_SIZE:
            return -1
        prefix = read_i64_be(data, p - 3)  # frames' heads precede all DATA
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
        """Adds bytes to the unfinished message; returns where its part of them ends.

        Cost     two copies of a large message, whatever its frames
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
        """Joins the pieces of a complete message."""
        message = partial.getvalue()
        if self.pieces:
            if message:
                self.pieces.append(message)
            message = b"".join(self.pieces)
            self.pieces = []
        assert len(message) == self.came, "nothing of a message is lost"
        self.partial = None
        self.wanted = -1
        self.came = 0
        self._finish(message, self.flag)

    def _begin(self, prefix: bytes) -> None:
        """Notes size and flag from the prefix of the unfinished message."""
        length: i64 = i64(read_i32_be(prefix, 1))
        length &= 0xFFFFFFFF
        self.flag = i64(prefix[0])
        check_prefix(self.flag, length, self.headers.encoding, self.message_max)
        self.wanted = length

    def _finish(self, message: bytes, flag: i64) -> None:
        """Appends a whole message to `messages`, decompressed."""
        if flag:
            message = opened(message, self.message_max)
        self.waiting += len(message)
        self.messages.append(message)
