"""A GET over HTTP/2 is answered as over HTTP/1.1; what is a method's path is not."""

import asyncio
from collections.abc import Mapping
from typing import Final

import pytest

from pocketmq.model.page import Answer as Page
from pocketmq.rpc.own.memory import BufferBudget
from pocketmq.rpc.own.page_call import BUSY
from pocketmq.rpc.own.server_state import ServerState
from pocketmq.rpc.serving import Serving
from pocketmq.wire.frames import HTTP_1_1_REQUIRED
from tests.rpc.own.pair import Answer, Pair

LARGE: Final = bytes(range(256)) * 2_000
HEALTH: Final = "/grpc.health.v1.Health/Check"


class Reader(Pair):
    """A client of pages; they are answered when they may be."""

    def __init__(self, *, has_pages: bool = True) -> None:
        self.asked: list[tuple[str, Mapping[bytes, bytes], str, bool]] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.cancelled_count = 0
        edge = ServerState(asyncio.get_running_loop(), Serving(()))
        edge.pages = self.read if has_pages else None
        super().__init__(edge=edge)

    async def read(
        self, target: str, fields: Mapping[bytes, bytes], peer: str, is_private: bool
    ) -> Page:
        self.asked.append((target, fields, peer, is_private))
        try:
            await self.may_go_on.wait()
        except asyncio.CancelledError:
            self.cancelled_count += 1
            raise
        if target == "/console":
            return Page(426, "text/plain", b"", needs_http1=True)
        challenge = 'Basic realm="x"' if target == "/who" else ""
        return Page(200, "text/plain", LARGE if target == "/large" else b"hello", challenge)

    def get(self, path: str, method: str = "GET", *extra: tuple[str, str]) -> int:
        """Asks for a page; returns its stream."""
        stream = self.client.get_next_available_stream_id()
        self.answers[stream] = Answer()
        pseudo = ((":method", method), (":scheme", "http"), (":authority", "x"), (":path", path))
        self.client.send_headers(stream, [*pseudo, *extra], end_stream=True)
        self.exchange()
        return stream

    async def page(self, path: str, method: str = "GET", *extra: tuple[str, str]) -> Answer:
        """Returns a page."""
        stream = self.get(path, method, *extra)
        await self.settled()
        return self.answers[stream]


async def test_a_get_is_answered_with_the_page() -> None:
    reader = Reader()
    found = await reader.page("/hello?x=1", "GET", ("authorization", "Bearer t"), ("accept", "a/b"))
    assert found.fields[":status"] == "200"
    assert found.fields["content-type"] == "text/plain"
    assert found.fields["content-length"] == "5"
    assert "www-authenticate" not in found.fields
    assert "grpc-status" not in found.fields
    assert bytes(found.raw) == b"hello"
    ((target, fields, peer, is_private),) = reader.asked
    assert (target, peer, is_private) == ("/hello?x=1", "ipv4:192.0.2.1:7", False)
    assert fields[b"authorization"] == b"Bearer t"
    assert fields[b"accept"] == b"a/b"
    assert not reader.server.calls
    assert reader.server.wire.open_count == 0


async def test_a_head_is_answered_with_its_fields_alone() -> None:
    found = await Reader().page("/who", "HEAD")
    assert found.fields["content-length"] == "5"
    assert found.fields["www-authenticate"] == 'Basic realm="x"'
    assert not found.raw


async def test_a_page_of_http1_alone_is_refused_so_that_browsers_repeat_the_request() -> None:
    reader = Reader()
    found = await reader.page("/console")
    assert found.reset_code == HTTP_1_1_REQUIRED
    assert not found.fields
    assert (await reader.page("/hello")).fields[":status"] == "200"


async def test_a_large_page_goes_as_its_reader_reads() -> None:
    reader = Reader()
    reader.reads = False
    stream = reader.get("/large")
    await reader.settled()
    assert 0 < len(reader.answers[stream].raw) < len(LARGE)
    assert reader.edge.memory.unread > 0
    reader.reads = True
    reader.client.acknowledge_received_data(len(reader.answers[stream].raw), stream)
    await reader.settled()
    assert bytes(reader.answers[stream].raw) == LARGE
    assert reader.edge.memory.unread == 0


async def test_who_leaves_too_much_unread_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader()
    monkeypatch.setattr(BufferBudget, "has_room_for", lambda *_: False)
    found = await reader.page("/large")
    assert found.fields[":status"] == "503"
    assert bytes(found.raw) == BUSY.body


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_path_of_a_method_is_refused_and_so_is_all_without_pages(method: str) -> None:
    reader = Reader()
    assert (await reader.page(HEALTH, method)).fields[":status"] == "405"
    assert not reader.asked
    assert (await Reader(has_pages=False).page("/hello", method)).fields[":status"] == "405"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
async def test_any_other_method_is_refused(method: str) -> None:
    reader = Reader()
    assert (await reader.page("/hello", method)).fields[":status"] in {"405", "415"}
    assert not reader.asked


async def test_a_page_that_is_wanted_no_more_is_not_made() -> None:
    reader = Reader()
    reader.may_go_on.clear()
    stream = reader.get("/hello")
    await reader.settled()
    assert reader.server.is_busy
    reader.client.reset_stream(stream)
    reader.exchange()
    await reader.settled()
    reader.get("/hello")
    reader.lose()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert reader.cancelled_count == 1
    assert not reader.server.calls
    assert len(reader.asked) == 1, "the second one was cancelled before it was begun"
