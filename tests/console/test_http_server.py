"""The console's server: connections, bodies and answers, clients that misbehave or leave."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pocketmq.config.addresses import split_address
from pocketmq.console import http_server
from pocketmq.console.asgi import (
    BrowserLeft,
    PageRequest,
    Receive,
    Response,
    Scope,
    Send,
    StreamedResponse,
    TextResponse,
)
from pocketmq.console.http_server import HttpServer
from pocketmq.console.server import address_of, listen
from tests.kit.browser import application_of
from tests.kit.store_language import until

LARGE = 3_000_000
ANSWER_S = 20.0


class Application:
    """Answers each path as its name says."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.left = asyncio.Event()
        self.is_ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = PageRequest(scope, receive)
        if request.path == "/fail":
            raise ValueError("secret")
        if request.path == "/read":
            try:
                self.bodies.append(b"".join([part async for part in request.stream()]))
            except BrowserLeft:
                self.left.set()
                return
        if request.path == "/stream":
            await StreamedResponse(self._texts(), "text/event-stream")(scope, receive, send)
        elif request.path == "/large":
            await Response(bytes(LARGE))(scope, receive, send)
        else:
            await TextResponse(f"{request.method} {request.path}")(scope, receive, send)

    async def _texts(self) -> AsyncGenerator[str, None]:
        try:
            yield "first\n"
            await asyncio.Event().wait()
        finally:
            self.is_ended.set()


class Connected:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, head: str, body: bytes = b"") -> None:
        """Sends a request: its first line and fields, parted by "|"."""
        lines = "\r\n".join([*head.split("|"), "Host: x", "", ""])
        self.writer.write(lines.encode() + body)

    async def answer(self, *, has_body: bool = True) -> tuple[str, bytes]:
        """Returns (head, body) of an answer whose length is known."""
        async with asyncio.timeout(ANSWER_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
            size = int(fields["content-length"]) if has_body else 0
            return head, await self.reader.readexactly(size)

    async def ends(self) -> bytes:
        """Returns what arrives before the server closes the connection."""
        async with asyncio.timeout(ANSWER_S):
            return await self.reader.read()


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Application, HttpServer, str]]:
    app, listener = Application(), listen("127.0.0.1", 0)
    server = HttpServer(app)
    await server.start(listener)
    try:
        yield app, server, address_of(listener)
    finally:
        await server.stop(0)
        assert not any(one.task for one in server.connections)


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Connected]:
    reader, writer = await asyncio.open_connection(*split_address(address))
    try:
        yield Connected(reader, writer)
    finally:
        writer.close()


async def test_requests_of_a_connection_are_answered_in_their_order() -> None:
    async with served() as (_, server, address), connected(address) as client:
        client.send("GET /a HTTP/1.1")
        client.send("GET /b%20c?d HTTP/1.1")
        client.send("POST /e HTTP/1.1|Content-Length: 3", b"abc")
        client.send("HEAD /f HTTP/1.1")
        client.send("GET /g HTTP/1.1|Connection: close")
        for expected in (b"GET /a", b"GET /b c", b"POST /e"):
            assert (await client.answer())[1] == expected
        head, _ = await client.answer(has_body=False)
        assert "content-length: 7" in head
        assert (await client.answer())[1] == b"GET /g"
        assert await client.ends() == b""
        assert server.request_count == 5


async def test_a_body_of_any_size_arrives_whole() -> None:
    async with served() as (app, _, address), connected(address) as client:
        client.send(f"POST /read HTTP/1.1|Content-Length: {LARGE}", bytes(LARGE))
        assert (await client.answer())[1] == b"POST /read"
        chunks = b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
        client.send("POST /read HTTP/1.1|Transfer-Encoding: chunked", chunks)
        assert (await client.answer())[1] == b"POST /read"
        assert [len(body) for body in app.bodies] == [LARGE, 6]


async def test_a_body_that_is_not_read_delays_no_later_request() -> None:
    async with served() as (_, _, address), connected(address) as client:
        client.send(f"POST /a HTTP/1.1|Content-Length: {LARGE}", bytes(LARGE))
        client.send("GET /b HTTP/1.1")
        assert [(await client.answer())[1] for _ in range(2)] == [b"POST /a", b"GET /b"]


async def test_a_client_is_told_to_send_the_body_it_announced() -> None:
    async with served() as (app, _, address), connected(address) as client:
        client.send("POST /read HTTP/1.1|Content-Length: 2|Expect: 100-continue")
        assert (await client.answer(has_body=False))[0].startswith("HTTP/1.1 100")
        client.writer.write(b"ok")
        assert (await client.answer())[1] == b"POST /read"
        assert app.bodies == [b"ok"]


async def test_a_large_answer_waits_for_a_slow_reader() -> None:
    async with served() as (_, server, address), connected(address) as client:
        for _ in range(3):
            client.send("GET /large HTTP/1.1")
        for _ in range(3):
            assert len((await client.answer())[1]) == LARGE
        assert len(server.connections) == 1


@pytest.mark.parametrize(
    "data",
    [b"\x16\3\1\0\5\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nA\0: x\r\n\r\n"],
)  # fmt: skip
async def test_what_is_no_request_is_refused(data: bytes) -> None:
    async with served() as (_, _, address), connected(address) as client:
        client.writer.write(data)
        assert (await client.answer())[0].startswith("HTTP/1.1 400 Bad Request")
        assert await client.ends() == b""


async def test_a_head_that_never_ends_is_refused() -> None:
    async with served() as (_, _, address), connected(address) as client:
        client.writer.write(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000)
        assert (await client.answer())[0].startswith("HTTP/1.1 431 ")


async def test_a_body_with_a_fault_ends_the_connection() -> None:
    async with served() as (app, _, address), connected(address) as client:
        client.send("POST /read HTTP/1.1|Transfer-Encoding: chunked", b"zz\r\n")
        assert (await client.answer())[0].startswith("HTTP/1.1 400 ")
        assert await client.ends() == b""
        async with asyncio.timeout(ANSWER_S):
            await app.left.wait()


async def test_an_application_learns_that_its_client_has_left() -> None:
    async with served() as (app, server, address):
        async with connected(address) as client:
            client.send("GET /stream HTTP/1.1")
            await client.answer(has_body=False)
            assert await client.reader.readuntil(b"first\n\r\n")
        async with asyncio.timeout(ANSWER_S):
            await app.is_ended.wait()
            async with connected(address) as client:
                client.send("POST /read HTTP/1.1|Content-Length: 9", b"half")
            await app.left.wait()
        await until(lambda: not server.connections)


async def test_a_failed_request_ends_its_connection_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as (_, _, address), connected(address) as client:
        client.send("GET /fail HTTP/1.1")
        assert await client.ends() == b""
    assert [one.getMessage() for one in caplog.records] == ["console.failed"]


async def test_a_stop_ends_what_is_in_progress_and_closes_idle_connections() -> None:
    async with served() as (app, server, address):
        async with connected(address) as idle, connected(address) as busy:
            idle.send("GET /a HTTP/1.1")
            await idle.answer()
            busy.send("GET /stream HTTP/1.1")
            await busy.answer(has_body=False)
            await server.stop(0)
            assert app.is_ended.is_set()
            assert await idle.ends() == b""
            assert b"first" in await busy.ends()
        with pytest.raises(OSError):
            await asyncio.open_connection(*split_address(address))


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "IDLE_S", 0.02)
    async with served() as (_, _, address), connected(address) as client:
        assert await client.ends() == b""
        async with connected(address) as other:
            other.send("GET /a HTTP/1.1")
            assert (await other.answer())[1] == b"GET /a"
            assert await other.ends() == b""


@pytest.mark.parametrize(
    ("method", "path", "status", "field"),
    [
        ("GET", "/console", 307, ("location", "/console/")),
        ("GET", "/console?a=b", 307, ("location", "/console/?a=b")),
        ("GET", "/topics", 404, ("content-type", "text/plain; charset=utf-8")),
        ("GET", "/console/none", 404, ("content-type", "text/html; charset=utf-8")),
        ("GET", "/console/logout", 404, ("content-type", "text/html; charset=utf-8")),
        ("POST", "/console/topics", 405, ("allow", "GET, HEAD")),
        ("POST", "/console/none", 405, ("allow", "GET, HEAD")),
        ("PUT", "/console/logout", 405, ("allow", "POST")),
        ("HEAD", "/console/assets/style.css", 200, ("content-type", "text/css; charset=utf-8")),
        ("GET", "/console/assets/web.py", 404, ("x-frame-options", "DENY")),
        ("GET", "/console/assets/a/console.js", 404, ("cache-control", "no-store")),
    ],
)  # fmt: skip
async def test_paths_and_methods(
    method: str, path: str, status: int, field: tuple[str, str]
) -> None:
    sent: list[dict[str, object]] = []

    async def send(part: object) -> None:
        assert isinstance(part, dict)
        sent.append(part)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    target, _, query = path.partition("?")
    scope = {
        "type": "http", "method": method, "path": target, "query_string": query.encode(),
        "scheme": "http", "headers": [(b"host", b"127.0.0.1:80")],
    }  # fmt: skip
    async with application_of("127.0.0.1:1", base="/console") as app:
        await app(scope, receive, send)
    assert sent[0]["status"] == status
    assert isinstance(rows := sent[0]["headers"], list)
    assert (field[0].encode(), field[1].encode()) in rows


async def test_a_page_with_a_fault_is_answered_with_the_headers_of_all() -> None:
    async with application_of("127.0.0.1:1") as app:
        sent: list[dict[str, object]] = []

        async def send(part: object) -> None:
            assert isinstance(part, dict)
            sent.append(part)

        async def receive() -> dict[str, object]:
            raise ZeroDivisionError

        scope = {
            "type": "http", "method": "POST", "path": "/logout", "query_string": b"",
            "scheme": "http", "headers": [(b"host", b"127.0.0.1:80")],
        }  # fmt: skip
        with pytest.raises(ZeroDivisionError):
            await app(scope, receive, send)
    assert sent[0]["status"] == 500
    assert isinstance(rows := sent[0]["headers"], list)
    assert (b"x-frame-options", b"DENY") in rows


@pytest.mark.parametrize(
    ("host", "port"),
    [("127.0.0.1:80", 80), ("[::1]:80", 80), ("[::1]", 0), ("x", 0), ("x:", 0), ("x:999999", 0)],
)  # fmt: skip
def test_the_port_of_a_host(host: str, port: int) -> None:
    assert request_of(b"", (b"host", host.encode())).port == port


def test_cookies_and_parameters_of_a_request() -> None:
    request = request_of(b"a=1&b=%C3%A4+x&a=2&c=", (b"cookie", b"a=b=c; d"), (b"cookie", b" e = f"))
    assert request.query_params == {"a": "2", "b": "ä x", "c": ""}
    assert request.cookies == {"a": "b=c", "e": "f"}
    assert request_of(b"", (b"a", b"1"), (b"a", b"2")).headers["a"] == "1"


def request_of(query: bytes, *fields: tuple[bytes, bytes]) -> PageRequest:
    """Returns a request with header fields."""

    async def receive() -> dict[str, object]:
        raise AssertionError("the request has no body")

    scope = {"type": "http", "method": "GET", "path": "/", "scheme": "http", "headers": [*fields]}
    return PageRequest({**scope, "query_string": query}, receive)
