"""Frames as hyperframe reads them."""

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from pocketmq.native.machine import BytesWriter
from pocketmq.wire.frames import (
    ACK,
    END_STREAM,
    write_block,
    write_frame_head,
    write_goaway,
    write_ping,
    write_reset,
    write_settings,
    write_window_update,
)
from tests.wire.raw_peer import parsed

IDS = [1, 127, 128, 255, 256, 257, 65_535, 65_536, 2**24 - 1, 2**24, 2**31 - 1]


@pytest.mark.parametrize("stream_id", [0, *IDS])
@pytest.mark.parametrize("size", [0, 1, 255, 256, 16_383, 16_384])
def test_heads(stream_id: int, size: int) -> None:
    out = BytesWriter()
    write_frame_head(out, size, 9, 255, stream_id)
    wanted = size.to_bytes(3, "big") + b"\x09\xff" + stream_id.to_bytes(4, "big")
    assert out.getvalue() == wanted


@pytest.mark.parametrize("number", IDS)
def test_small_frames(number: int) -> None:
    out = BytesWriter()
    write_window_update(out, 0, number)
    write_window_update(out, number, 1)
    write_reset(out, number, 11)
    write_goaway(out, number, 1, "why \u00fc")
    write_ping(out, ACK, b"12345678")
    write_settings(out, [(3, 100), (4, number)])
    first, second, reset, goaway, ping, settings = parsed(out.getvalue())
    assert isinstance(first, WindowUpdateFrame)
    assert (first.stream_id, first.window_increment) == (0, number)
    assert isinstance(second, WindowUpdateFrame)
    assert (second.stream_id, second.window_increment) == (number, 1)
    assert isinstance(reset, RstStreamFrame)
    assert (reset.stream_id, reset.error_code) == (number, 11)
    assert isinstance(goaway, GoAwayFrame)
    assert (goaway.last_stream_id, goaway.error_code) == (number, 1)
    assert goaway.additional_data == "why \u00fc".encode()
    assert isinstance(ping, PingFrame)
    assert (set(ping.flags), ping.opaque_data) == ({"ACK"}, b"12345678")
    assert isinstance(settings, SettingsFrame)
    assert settings.settings == {3: 100, 4: number}


@pytest.mark.parametrize("size", [0, 1, 16_383, 16_384, 16_385, 32_767, 32_768, 32_769, 50_000])
def test_blocks_of_every_size(size: int) -> None:
    block = bytes(index % 251 for index in range(size))
    out = BytesWriter()
    write_block(out, 7, block, END_STREAM)
    first, *rest = parsed(out.getvalue())
    assert isinstance(first, HeadersFrame)
    assert "END_STREAM" in first.flags
    parts = [first.data, *(f.data for f in rest if isinstance(f, ContinuationFrame))]
    assert b"".join(parts) == block
    ends = ["END_HEADERS" in frame.flags for frame in (first, *rest)]
    assert ends == [False] * (len(ends) - 1) + [True]
    assert len(ends) == max(1, -(-size // 16_384))
