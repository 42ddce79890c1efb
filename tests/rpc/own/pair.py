"""Both sides of a connection without a socket: h2 as the client, our own as the server.

pair = Pair(service)
stream = pair.call("QueryById", b"request")
await pair.settled()
pair.answers[stream]        messages, trailers
"""

import asyncio
from contextlib import suppress
from struct import pack, unpack_from
from typing import Any

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    PingReceived,
    ResponseReceived,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import StreamClosedError

from pocketmq.rpc.own.connection import Http2Connection
from pocketmq.rpc.own.server_state import ServerState
from pocketmq.rpc.service import Service
from pocketmq.rpc.serving import Serving
from tests.kit.store_language import turns
from tests.sim.wire import Wire

PREFIX_SIZE = 5
FRAME_HEAD_SIZE = 9


class Answer:
    """The answer to one call."""

    def __init__(self) -> None:
        self.raw = bytearray()
        self.fields: dict[str, str] = {}
        self.reset_code: int | None = None

    @property
    def status(self) -> str | None:
        return self.fields.get("grpc-status")

    @property
    def messages(self) -> list[bytes]:
        found, position = [], 0
        while position < len(self.raw):
            (size,) = unpack_from(">I", self.raw, position + 1)
            position += PREFIX_SIZE + size
            found.append(bytes(self.raw[position - size : position]))
        return found


class Pair:
    """A client and its connection to a server of these services."""

    def __init__(self, *services: Service, edge: ServerState | None = None) -> None:
        self.edge = edge or ServerState(asyncio.get_running_loop(), Serving(services))
        self.edge.turn_s = 60.0  # The loop may not come to its next turn between two reads.
        self.wire = Wire()
        self.server = Http2Connection(self.edge, "ipv4:192.0.2.1:7")
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.answers: dict[int, Answer] = {}
        self.goaways: list[ConnectionTerminated] = []
        self.pings = 0
        self.reads = True
        """Whether the client gives windows back."""
        transport: Any = self.wire
        self.server.connection_made(transport)
        self.client.initiate_connection()
        self.exchange()

    def begin(self, name: str, *extra: tuple[str, str], service: str = "test.Service") -> int:
        """Sends the headers of a call; returns its stream."""
        stream = self.client.get_next_available_stream_id()
        self.answers[stream] = Answer()
        self.client.send_headers(
            stream,
            [
                *((":method", "POST"), (":scheme", "http"), (":authority", "x")),
                *((":path", f"/{service}/{name}"), ("content-type", "application/grpc")),
                *(("te", "trailers"), *extra),
            ],
        )
        return stream

    def send(self, stream: int, *messages: bytes, ends: bool = True, flag: int = 0) -> None:
        """Sends messages of a call."""
        raw = b"".join(pack(">BI", flag, len(message)) + message for message in messages)
        self.client.send_data(stream, raw, end_stream=ends)

    def send_large(self, stream: int, message: bytes) -> None:
        """Sends one message as the windows allow; the request stays open."""
        raw, position = pack(">BI", 0, len(message)) + message, 0
        while position < len(raw) and self.answers[stream].reset_code is None:
            room = self.client.local_flow_control_window(stream)
            piece = raw[position : position + min(room, self.client.max_outbound_frame_size)]
            assert piece, "the server opens its windows"
            self.client.send_data(stream, piece)
            position += len(piece)
            self.exchange()

    def reset(self, stream: int) -> None:
        """Cuts a call off, unless the server did."""
        if self.answers[stream].reset_code is None and self.server.is_open:
            with suppress(StreamClosedError):
                self.client.reset_stream(stream)
        self.exchange()

    def call(self, name: str, *messages: bytes, extra: Any = ()) -> int:
        """Sends a whole call and takes what is answered at once; returns its stream."""
        stream = self.begin(name, *extra)
        self.send(stream, *messages)
        self.exchange()
        return stream

    def exchange(self) -> None:
        """Exchanges bytes until neither side has more to write."""
        while True:
            sent = self.client.data_to_send()
            if sent and self.server.is_open:
                self.server.data_received(sent)
            if not self.wire.written:
                return
            written, self.wire.written = b"".join(self.wire.written), []
            while written:
                end = FRAME_HEAD_SIZE + int.from_bytes(written[:3], "big")
                for event in self.client.receive_data(written[:end]):
                    self._take(event)
                written = written[end:]

    def _take(self, event: Any) -> None:
        if isinstance(event, ConnectionTerminated):
            self.goaways.append(event)
            # h2 takes nothing behind a GOAWAY, though calls under way are still answered.
            self.client.state_machine.state = ConnectionState.CLIENT_OPEN
        elif isinstance(event, PingReceived):
            self.pings += 1
        elif isinstance(event, ResponseReceived | TrailersReceived):
            self.answers[event.stream_id].fields |= {str(k): str(v) for k, v in event.headers}
        elif isinstance(event, StreamReset):
            self.answers[event.stream_id].reset_code = int(event.error_code)
        elif isinstance(event, DataReceived):
            self.answers[event.stream_id].raw += event.data
            if self.reads and event.flow_controlled_length:
                self.client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    async def settled(self) -> None:
        """Runs the server's tasks, and exchanges their answers."""
        for _ in range(3):
            await turns()
            self.exchange()

    def lose(self) -> None:
        """Ends the connection."""
        self.server.connection_lost(None)
