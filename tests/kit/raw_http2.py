"""An HTTP/2 client that breaks the protocol: endless streams, unexpected frames.

with RawClient(endpoint) as peer:
    peer.call("pocketmq.v1.Broker/SendMessage")        headers only; returns the stream's number
    peer.push(stream, piece)                           within the windows
    peer.frame(kind, flags, stream, payload)           bytes of one frame, valid or not
"""

import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
WAIT_S: Final = 10.0


class RawClient:
    """One connection."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        self.authority = endpoint
        self.socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.http2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))

    def __enter__(self) -> Self:
        self.http2.initiate_connection()
        self.flush()
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def flush(self) -> None:
        """Sends the bytes that the protocol has ready."""
        self.socket.sendall(self.http2.data_to_send())

    def call(self, path: str, extra: Sequence[tuple[str, str]] = (), *, flush: bool = True) -> int:
        """Begins a call; returns the number of its stream."""
        stream = self.http2.get_next_available_stream_id()
        headers = [
            *((":method", "POST"), (":scheme", "http"), (":authority", self.authority)),
            *((":path", f"/{path}"), ("te", "trailers"), ("content-type", "application/grpc")),
        ]
        self.http2.send_headers(stream, [*headers, *extra])
        if flush:
            self.flush()
        return stream

    def message(self, stream: int, raw: bytes, *, flag: int = 0) -> None:
        """Sends a whole message and ends the request; it fits the windows."""
        self.http2.send_data(stream, struct.pack(">BI", flag, len(raw)) + raw, end_stream=True)
        self.flush()

    def push(self, stream: int, left: int) -> int:
        """Sends zeros as far as the windows allow; returns their number, -1 after a reset."""
        try:
            room = self.http2.local_flow_control_window(stream)
            size = min(left, room, self.http2.max_outbound_frame_size)
            if size > 0:
                self.http2.send_data(stream, bytes(size))
        except ProtocolError:
            return -1
        self.flush()
        return size

    def listen(self, seconds: float = 0.0) -> list[Event]:
        """Reads for some time what the broker sends; answers settings and pings."""
        self.socket.settimeout(seconds or 0.0001)
        try:
            raw = self.socket.recv(1 << 20)
        except TimeoutError:
            return []
        finally:
            self.socket.settimeout(WAIT_S)
        if not raw:
            raise ConnectionResetError("the broker closed the connection")
        events = self.http2.receive_data(raw)
        self.flush()
        return events

    def ending(self, stream: int, wait_s: float = WAIT_S) -> dict[str, str]:
        """Returns the trailers of a call, and drops its answer."""
        until = monotonic() + wait_s
        while monotonic() < until:
            for event in self.listen(wait_s):
                if isinstance(event, ConnectionTerminated):
                    raise ConnectionResetError("the broker ends the connection")
                if isinstance(event, DataReceived):
                    self.http2.acknowledge_received_data(
                        event.flow_controlled_length or 0, event.stream_id
                    )
                is_of_call = getattr(event, "stream_id", 0) == stream
                if is_of_call and isinstance(event, TrailersReceived):
                    return dict(event.headers)  # type: ignore[arg-type]
                if is_of_call and isinstance(event, ResponseReceived):
                    found: dict[Any, Any] = dict(event.headers)
                    if "grpc-status" in found:
                        return found
                if is_of_call and isinstance(event, StreamReset | StreamEnded):
                    return {"grpc-status": "reset"}
            self.flush()
        raise TimeoutError("no answer")

    def frame(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
        """Returns the bytes of a frame."""
        return (
            struct.pack(">I", len(payload))[1:]
            + bytes([kind, flags])
            + struct.pack(">I", stream)
            + payload
        )

    def throw(self, raw: bytes) -> bool:
        """Sends raw bytes; returns whether the broker still accepted them."""
        with suppress(OSError):
            self.socket.sendall(raw)
            return True
        return False
