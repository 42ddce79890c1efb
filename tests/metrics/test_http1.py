"""HTTP/1.1 for scrapers and probes: what is answered, and what others cost."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pocketmq.metrics import http1
from pocketmq.metrics import site as site_module
from pocketmq.metrics.http_port import HttpPort, connection_to
from pocketmq.metrics.site import SMALL_SIZE, Site
from pocketmq.model.page import Answer
from tests.kit.store_language import turns, until
from tests.sim.wire import Wire

HOST = b"Host: x\r\n"


class Client:
    """One connection to the site."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, line: bytes, *fields: bytes, body: bytes = b"") -> tuple[str, bytes]:
        """Sends a request; returns the head and the body of its answer."""
        self.send(line, *fields, body=body)
        return await self.answer(is_head=line.startswith(b"HEAD"))

    def send(self, line: bytes, *fields: bytes, body: bytes = b"") -> None:
        head = b"".join(field + b"\r\n" for field in fields)
        self.writer.write(line + b" HTTP/1.1\r\n" + HOST + head + b"\r\n" + body)

    async def answer(self, *, is_head: bool = False) -> tuple[str, bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        return head, b"" if is_head else await self.reader.readexactly(size)

    async def ends(self) -> bool:
        """Returns whether the connection ends without another word."""
        async with asyncio.timeout(20):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True


class Served:
    """A site on a port."""

    def __init__(self, site: Site, address: str) -> None:
        self.site = site
        self.address = address

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        host, _, port = self.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield Client(reader, writer)
        finally:
            writer.close()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    site = Site()
    port = HttpPort(site, "127.0.0.1:0")
    one = Served(site, port.address)

    async def hello(accept: str) -> Answer:
        return Answer(200, "text/plain", f"hello {accept}".encode())

    async def fail(accept: str) -> Answer:
        raise ValueError("secret")

    site.pages.update({"/hello": hello, "/fail": fail})
    await port.start()
    yield one
    await port.close()


async def test_a_connection_serves_one_request_after_the_other(served: Served) -> None:
    async with served.client() as client:
        for path in (b"/hello", b"/hello?a=b"):
            head, body = await client.ask(b"GET " + path, b"Accept: tea")
            assert head.startswith("http/1.1 200 ok\r\n")
            assert body == b"hello tea"
        client.send(b"GET /hello")
        client.send(b"GET /nothing")  # behind it, before it is answered
        assert (await client.answer())[1] == b"hello "
        head, body = await client.answer()
        assert head.startswith("http/1.1 404")
        assert body.startswith(b"Not Found: the pages are /hello")


async def test_head_tells_of_a_body_and_sends_none(served: Served) -> None:
    async with served.client() as client:
        head, _ = await client.ask(b"HEAD /hello")
        assert "content-length: 6" in head
        assert (await client.ask(b"GET /hello"))[1] == b"hello "


async def test_a_client_that_asks_for_the_end_has_it(served: Served) -> None:
    async with served.client() as client:
        await client.ask(b"GET /hello", b"Connection: close")
        assert await client.ends()
    async with served.client() as client:
        client.send(b"GET /hello")
        client.writer.write_eof()
        assert (await client.answer())[1] == b"hello "
        assert await client.ends()


@pytest.mark.parametrize(
    ("line", "fields", "body", "status"),
    [
        (b"POST /hello", (b"Content-Length: 0",), b"", 405),
        (b"GET /hello", (b"Content-Length: 1",), b"x", 413),
        (b"GET /hello", (b"Bad Field: x",), b"", 400),
        (b"GET /hello", (b"X: " + b"x" * 400_000,), b"", 431),
        (b"what is this", (), b"", 400),
    ],
)
async def test_what_is_no_request_of_ours_is_refused_and_closed(
    served: Served, line: bytes, fields: tuple[bytes, ...], body: bytes, status: int
) -> None:
    async with served.client() as client:
        head, _ = await client.ask(line, *fields, body=body)
        assert head.startswith(f"http/1.1 {status} ")
        assert await client.ends()


async def test_a_page_that_fails_shows_nothing_of_why(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    async with served.client() as client:
        head, body = await client.ask(b"GET /fail")
        assert head.startswith("http/1.1 500")
        assert b"secret" not in body
        assert (await client.ask(b"GET /hello"))[1] == b"hello "
    (record,) = caplog.records
    assert (record.getMessage(), record.levelno) == ("http.failed", logging.ERROR)


async def test_a_client_that_asks_nothing_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "IDLE_S", 0.02)
    async with served.client() as client:
        client.writer.write(b"GET /hel")
        assert await client.ends()


async def test_who_comes_beyond_the_limit_has_the_place_of_who_was_silent_longest(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "CONNECTIONS_MAX", 2)
    async with served.client() as first, served.client() as second:
        for client in (second, first):
            assert (await client.ask(b"GET /hello"))[1] == b"hello "
        async with served.client() as third:
            assert (await third.ask(b"GET /hello"))[1] == b"hello "
            assert await second.ends()
            assert (await first.ask(b"GET /hello"))[1] == b"hello "
    assert len(served.site.connections) <= 2


def unread(site: Site, sent: bytes) -> tuple[Wire, asyncio.Protocol]:
    """Returns what came of a client that sends, and reads nothing."""
    protocol = connection_to(site)
    wire: Any = Wire(protocol)
    protocol.connection_made(wire)
    protocol.data_received(sent)
    return wire, protocol


async def test_a_client_that_reads_nothing_has_one_answer_and_is_not_read(served: Served) -> None:
    wire, protocol = unread(served.site, b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n" * 5)
    for expected in (1, 2, 3):
        await turns()
        assert len(wire.written) == expected
        assert not wire.reads
        protocol.resume_writing()
    protocol.connection_lost(None)
    assert not served.site.connections


async def test_a_client_that_never_reads_its_answer_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "IDLE_S", 0.02)
    wire, _ = unread(served.site, b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    await until(lambda: wire.is_aborted)
    assert wire.written
    assert not served.site.connections


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\x16\3\1\0\5\1\0\0\1\0" + bytes(40) + b"\r\n\r\n", "TLS"),
        (b"GET /hello HTTP/1.1\r\n\0: x\r\n\r\n", "HTTP/1.1"),
        (b"\0\0\0\x20\0\0\0\x10{}\r\n\r\n", "RocketMQ remoting"),
    ],
)
async def test_what_is_no_request_is_told_with_its_protocol_and_peer(
    served: Served, data: bytes, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        async with served.client() as client:
            client.writer.write(data)
            head, _ = await client.answer()
            assert " 400 " in head
    (told,) = [vars(one) for one in caplog.records if one.getMessage() == "http.stranger"]
    assert told["protocol"].startswith(name)
    assert told["peer"].startswith("ipv4:127.0.0.1:")


async def test_large_pages_that_nobody_reads_are_bounded_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site_module, "UNREAD_MAX", 3 * SMALL_SIZE)
    site = Site()

    async def large(accept: str) -> Answer:
        return Answer(200, "text/plain", bytes(SMALL_SIZE + 1))

    site.pages["/large"] = large

    async def status() -> bytes:
        """Returns how a client is answered that reads nothing."""
        protocol = connection_to(site, "ipv4:192.0.2.1:7")
        transport: Any = Wire()
        protocol.connection_made(transport)
        protocol.data_received(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        await turns()
        return b"".join(transport.written)[9:12]

    assert [await status() for _ in range(4)] == [b"200", b"200", b"503", b"503"]
    for connection in [*site.connections]:
        connection.cut_off()
    assert await status() == b"200"
    site.close()
