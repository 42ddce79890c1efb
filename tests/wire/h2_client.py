"""A client made of h2, the reference for whole connections, and the pipe between it and ours."""

import struct
from collections.abc import Iterable

import h2.config
import h2.connection
import h2.events

from pocketmq.wire.connection import Connection
from pocketmq.wire.flow import Limits
from pocketmq.wire.stream import Stream

REQUEST = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/pocketmq.v1.Broker/SendMessage"),
    (":authority", "localhost:8080"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)


def framed(*messages: bytes, flag: int = 0) -> bytes:
    """Returns messages in gRPC's framing."""
    return b"".join(struct.pack(">BI", flag, len(m)) + m for m in messages)


def unframed(body: bytes) -> list[bytes]:
    """Returns the messages of a body in gRPC's framing."""
    found = []
    while body:
        flag, size = struct.unpack(">BI", body[:5])
        assert flag == 0
        assert len(body) >= 5 + size
        found.append(body[5 : 5 + size])
        body = body[5 + size :]
    return found


def _texts(fields: Iterable[tuple[str | bytes, str | bytes]]) -> dict[str, str]:
    return {str(name): str(value) for name, value in fields}


class Answer:
    """The outcome of one stream at the client."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = b""
        self.trailers: dict[str, str] = {}
        self.ended = False
        self.reset_code = -1

    @property
    def status(self) -> str | None:
        """The gRPC status."""
        return self.trailers.get("grpc-status", self.headers.get("grpc-status"))

    @property
    def messages(self) -> list[bytes]:
        """The messages of the body."""
        return unframed(self.body)


class Pair:
    """A connection of ours and an h2 client, joined byte by byte."""

    def __init__(
        self, limits: Limits | None = None, *, acknowledges: bool = True, takes: bool = False
    ) -> None:
        """Joins them.

        acknowledges   the client opens its windows again for what it got
        takes          requests are taken as they come, into `received` by stream
        """
        self.server = Connection(limits, clock=lambda: 0.0)
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.client = h2.connection.H2Connection(config)
        self.client.initiate_connection()
        self.acknowledges = acknowledges
        self.answers: dict[int, Answer] = {}
        self.events: list[h2.events.Event] = []
        self.streams: dict[int, Stream] = {}
        self.takes = takes
        self.received: dict[int, list[bytes]] = {}

    def call(
        self, *messages: bytes, end: bool = True, fields: Iterable[tuple[str, str]] = ()
    ) -> int:
        """Begins a call in the client; `exchange` brings it over."""
        stream_id = self.client.get_next_available_stream_id()
        self.client.send_headers(stream_id, [*REQUEST, *fields])
        self.answers[stream_id] = Answer()
        self.send(stream_id, framed(*messages), end=end)
        return stream_id

    def send(self, stream_id: int, body: bytes, *, end: bool) -> None:
        """Sends more of a call, as its window opens."""
        while body and not self.answers[stream_id].ended:
            room = min(self.client.local_flow_control_window(stream_id), 16_384)
            if not room:
                self.exchange()
                continue
            self.client.send_data(stream_id, body[:room])
            body = body[room:]
        if end and not self.answers[stream_id].ended:
            self.client.end_stream(stream_id)

    def exchange(self, step: int = 1 << 30) -> list[Stream]:
        """Carries bytes both ways until none are left; returns the streams with news.

        step   bytes that the server gets at a time
        """
        news: list[Stream] = []
        while True:
            sent = self.client.data_to_send()
            for at in range(0, len(sent), step):
                news += self._received(sent[at : at + step])
            got = b""
            while part := self.server.take():
                got += part
            if not sent and not got:
                break
            for event in self.client.receive_data(got):
                self._see(event)
        return news

    def _received(self, data: bytes) -> list[Stream]:
        news = self.server.receive(data)
        for stream in news:
            self.streams[stream.id] = stream
            if self.takes:
                self.received.setdefault(stream.id, []).extend(stream.messages)
                self.server.consume(stream, sum(map(len, stream.messages)))
                stream.messages.clear()
        return news

    def _see(self, event: h2.events.Event) -> None:
        self.events.append(event)
        answer = self.answers.get(getattr(event, "stream_id", 0) or 0, Answer())
        if isinstance(event, h2.events.ResponseReceived):
            answer.headers = _texts(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            answer.body += event.data
            if self.acknowledges and event.flow_controlled_length:
                self.client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            answer.trailers = _texts(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            answer.ended = True
        elif isinstance(event, h2.events.StreamReset):
            answer.reset_code = int(event.error_code)
