"""Control frames of a peer: SETTINGS, PING, GOAWAY, WINDOW_UPDATE."""

from collections.abc import Callable
from typing import Final, final

from pocketmq.native.machine import i64, read_i32_be
from pocketmq.wire.flow import PINGS_MAX, SETTINGS_MAX, Allowance
from pocketmq.wire.frames import (
    ACK,
    CONTINUATION,
    ENABLE_PUSH,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    FRAME_SIZE_MAX,
    FRAME_SIZE_MIN,
    GOAWAY,
    HEADER_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE,
    NO_ERROR,
    PING,
    PRIORITY,
    PROTOCOL_ERROR,
    RST_STREAM,
    SETTINGS,
    TABLE_SIZE_DEFAULT,
    WINDOW_MAX,
    WINDOW_UPDATE,
    ConnectionFault,
    StreamFault,
    write_frame_head,
    write_goaway,
    write_ping,
)
from pocketmq.wire.outbound import Outbound
from pocketmq.wire.requests import Requests, priority_parent
from pocketmq.wire.streams import Streams

DRAIN_PING: Final = b"draining"

# Both are indexed by frame type, from DATA to CONTINUATION (RFC 9113, section 6).
# _SIZES: the payload's size, -1 for any. _PLACES: the stream id, 0 for 0, 1 for others, 2 for both.
_SIZES: Final = (-1, -1, 5, 4, -1, -1, 8, -1, 4, -1)
_PLACES: Final = b"\1\1\1\1\0\1\0\0\2\1"
_SETTING_SIZE: Final[i64] = 6


@final
class Peer:
    """The peer of a connection: its settings, pings and the drain.

    pongs   number of answered pings, except the drain's
    """

    def __init__(
        self,
        requests: Requests,
        outbound: Outbound,
        streams: Streams,
        clock: Callable[[], float],
    ) -> None:
        self.is_draining = False
        self.pongs: i64 = 0
        self._requests = requests
        self._outbound = outbound
        self._streams = streams
        self._pings = Allowance("pings", PINGS_MAX, clock)
        self._answered: i64 = 0  # `answered` of `outbound` at the last ping
        self._settings = Allowance("settings", SETTINGS_MAX, clock)

    def frame(self, kind: i64, flags: i64, stream_id: i64, payload: bytes) -> None:
        """Handles a frame of any type except HEADERS, DATA and an expected CONTINUATION."""
        if kind > CONTINUATION:
            self._requests.empty.spend()
            return
        self._check(kind, stream_id, len(payload))
        if kind == WINDOW_UPDATE:
            self._window_update(stream_id, payload)
        elif kind == RST_STREAM:
            self._requests.reset(stream_id, i64(read_i32_be(payload, 0)) & 0xFFFFFFFF)
        elif kind == PING:
            self._ping(flags, payload)
        elif kind == SETTINGS:
            self._set(flags, payload)
        elif kind == PRIORITY:
            self._requests.empty.spend()
            if priority_parent(payload, 0) == stream_id:
                raise StreamFault(PROTOCOL_ERROR, "a stream that depends on itself")
        elif kind == GOAWAY:
            if len(payload) < 8:
                raise ConnectionFault(FRAME_SIZE_ERROR, "a GOAWAY without an error code")
        else:
            raise ConnectionFault(PROTOCOL_ERROR, "a frame that is not expected here")

    def _check(self, kind: i64, stream_id: i64, size: i64) -> None:
        assert kind <= CONTINUATION, "unknown frame type"
        place: i64 = _PLACES[kind]
        if (place == 0 and stream_id) or (place == 1 and not stream_id):
            raise ConnectionFault(PROTOCOL_ERROR, "a frame type that is invalid for its stream")
        wanted: i64 = _SIZES[kind]
        if wanted >= 0 and size != wanted:
            if kind == PRIORITY:
                raise StreamFault(FRAME_SIZE_ERROR, "a PRIORITY of a wrong size")
            raise ConnectionFault(FRAME_SIZE_ERROR, "a frame of a wrong size")

    def _window_update(self, stream_id: i64, payload: bytes) -> None:
        outbound = self._outbound
        size: i64 = i64(read_i32_be(payload, 0))
        size &= WINDOW_MAX
        if not stream_id:
            outbound.window += size
            if not size:
                raise ConnectionFault(PROTOCOL_ERROR, "a WINDOW_UPDATE of 0 bytes")
            if outbound.window > WINDOW_MAX:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "a window above the maximum size")
            return
        stream = self._streams.open.get(stream_id)
        if stream is None:
            self._requests.absent(WINDOW_UPDATE, stream_id)
            return
        stream.credit += size
        if not size:
            raise StreamFault(PROTOCOL_ERROR, "a WINDOW_UPDATE of 0 bytes")
        if outbound.initial + stream.credit > WINDOW_MAX:
            raise StreamFault(FLOW_CONTROL_ERROR, "a window above the maximum size")
        outbound.wake(stream)

    def _ping(self, flags: i64, payload: bytes) -> None:
        """Handles a PING; counts it only if no DATA was sent since the previous one.

        Clients measure bandwidth with a ping after DATA, so such pings are legitimate.
        """
        if self._outbound.answered == self._answered:
            self._pings.spend()
        self._answered = self._outbound.answered
        if not flags & ACK:
            write_ping(self._outbound.out, ACK, payload)
        elif payload != DRAIN_PING:
            self.pongs += 1
        elif self.is_draining:
            self.end_drain()

    def end_drain(self) -> None:
        """Refuses new streams with the last GOAWAY of a drain."""
        assert self.is_draining, "no drain has begun"
        if self._requests.last_served < 0:
            self._requests.last_served = self._streams.last_id
            write_goaway(self._outbound.out, self._streams.last_id, NO_ERROR, "")

    def _set(self, flags: i64, payload: bytes) -> None:
        size: i64 = len(payload)
        self._settings.spend()
        if flags & ACK:
            if size:
                raise ConnectionFault(FRAME_SIZE_ERROR, "an ACK of SETTINGS with settings")
            return
        if size % _SETTING_SIZE:
            raise ConnectionFault(FRAME_SIZE_ERROR, "SETTINGS with an incomplete setting")
        p: i64 = 0
        while p < size:
            name: i64 = i64(payload[p]) << 8 | i64(payload[p + 1])
            value: i64 = i64(read_i32_be(payload, p + 2))
            self._setting(name, value & 0xFFFFFFFF)
            p += _SETTING_SIZE
        write_frame_head(self._outbound.out, 0, SETTINGS, ACK, 0)
        for stream in self._streams.open.values():
            self._outbound.wake(stream)

    def _setting(self, name: i64, value: i64) -> None:
        outbound = self._outbound
        if name == INITIAL_WINDOW_SIZE:
            if value > WINDOW_MAX:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "a window above the maximum size")
            outbound.initial = value
        elif name == MAX_FRAME_SIZE:
            if value < FRAME_SIZE_MIN or value > FRAME_SIZE_MAX:
                raise ConnectionFault(PROTOCOL_ERROR, "an invalid maximum frame size")
        elif name == ENABLE_PUSH:
            if value > 1:
                raise ConnectionFault(PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
        elif name == HEADER_TABLE_SIZE:
            if value < TABLE_SIZE_DEFAULT and not outbound.is_table_empty:
                outbound.is_size_update_due = True
                outbound.is_table_empty = True
