"""A peer that sends any frames it likes, by hyperframe and hpack, to a connection of ours."""

from collections.abc import Sequence

from hpack import Decoder, Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
)

from pocketmq.wire.connection import Connection
from pocketmq.wire.flow import Limits
from pocketmq.wire.frames import PREFACE
from pocketmq.wire.stream import Stream
from tests.wire.h2_client import REQUEST, framed


def parsed(data: bytes) -> list[Frame]:
    """Returns the frames in these bytes."""
    frames = []
    while data:
        frame, size = Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + size]))
        frames.append(frame)
        data = data[9 + size :]
    return frames


class RawPeer:
    """Sends frames, and reads what comes back; its clock stands unless it is moved."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        begin: bool = True,
        sizes: dict[bytes, int] | None = None,
    ) -> None:
        self.now_s = 0.0
        self.server = Connection(limits, clock=lambda: self.now_s, sizes=sizes)
        self.encoder = Encoder()
        self.decoder = Decoder()
        self.news: list[Stream] = []
        if begin:
            self.send(PREFACE, SettingsFrame())

    def send(self, *parts: Frame | bytes) -> list[Frame]:
        """Sends frames or bytes in one read; returns the frames that come back."""
        raw = b"".join(p.serialize() if isinstance(p, Frame) else p for p in parts)
        self.news = self.server.receive(raw)
        return self.taken()

    def taken(self) -> list[Frame]:
        """Returns the frames that the server wants to send."""
        got = b""
        while part := self.server.take():
            got += part
        return parsed(got)

    def headers(
        self,
        stream_id: int,
        *flags: str,
        fields: Sequence[tuple[str, str]] = REQUEST,
        more: Sequence[tuple[str, str]] = (),
    ) -> HeadersFrame:
        """Returns HEADERS with these flags; END_HEADERS is always set."""
        frame = HeadersFrame(stream_id, self.encoder.encode([*fields, *more]))
        frame.flags |= {"END_HEADERS", *flags}
        return frame

    def fields(self, frame: Frame) -> dict[str, str]:
        """Returns the fields of HEADERS that came back."""
        assert isinstance(frame, HeadersFrame)
        return {str(name): str(value) for name, value in self.decoder.decode(frame.data)}


def data(stream_id: int, *messages: bytes, end: bool = True) -> DataFrame:
    """Returns DATA with whole messages."""
    return raw_data(stream_id, framed(*messages), end=end)


def raw_data(stream_id: int, payload: bytes, *, end: bool = False) -> DataFrame:
    """Returns DATA."""
    return DataFrame(stream_id, payload, flags=["END_STREAM"] if end else [])


def continuation(stream_id: int, part: bytes, *, end: bool) -> ContinuationFrame:
    """Returns CONTINUATION."""
    return ContinuationFrame(stream_id, part, flags=["END_HEADERS"] if end else [])


def faults(frames: Sequence[Frame]) -> list[tuple[str, int, int]]:
    """Returns what tells of faults: ("GOAWAY" or "RST_STREAM", stream, code)."""
    found = []
    for frame in frames:
        if isinstance(frame, GoAwayFrame):
            found.append(("GOAWAY", frame.last_stream_id, frame.error_code))
        elif isinstance(frame, RstStreamFrame):
            found.append(("RST_STREAM", frame.stream_id, frame.error_code))
    return found
