"""Requests of browsers and their answers, in the form of ASGI.

A server (http_server.py) calls an application with the scope of a request, a function that receives
the body, and one that sends the parts of the answer.
Source   the HTTP part of the ASGI specification
"""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
)
from contextlib import aclosing, suppress
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl, quote

Scope = MutableMapping[str, Any]
Part = MutableMapping[str, Any]
"""A part of a request or of an answer; ASGI calls it a message."""
Receive = Callable[[], Awaitable[Part]]
Send = Callable[[Part], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

START: Final = "http.response.start"
BODY: Final = "http.response.body"
REQUEST: Final = "http.request"
DISCONNECT: Final = "http.disconnect"
KEPT_IN_URLS: Final = ":/%#?=@[]!$&'()*+,;"
"""Characters of a URL that have a meaning, or are percent-encoded already."""


class BrowserLeft(Exception):
    """The browser has closed its connection before the end of its request."""


class PageRequest:
    """A request of a browser.

    path   without percent-encoding and query
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        assert scope["type"] == "http", "only HTTP is served"
        self.scope = scope
        self._receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode("latin-1")
        self.scheme: str = scope["scheme"]

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The header fields, names in lower case; of fields with the same name the first."""
        return fields_of(self.scope)

    @cached_property
    def query_params(self) -> Mapping[str, str]:
        """The parameters of the URL; of parameters with the same name the last."""
        return dict(parse_qsl(self.query, keep_blank_values=True))

    @cached_property
    def cookies(self) -> Mapping[str, str]:
        """The cookies; of cookies with the same name the last."""
        rows = [value for name, value in self.scope["headers"] if name == b"cookie"]
        pairs = [pair.partition("=") for pair in b";".join(rows).decode("latin-1").split(";")]
        return {name.strip(): value.strip() for name, separator, value in pairs if separator}

    @property
    def port(self) -> int:
        """The port of the Host header; 0: it names none."""
        host = self.headers.get("host", "").rpartition("@")[2]
        text = host.rpartition("]")[2].rpartition(":")[2] if ":" in host else ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0

    async def stream(self) -> AsyncIterator[bytes]:
        """Yields the parts of the body.

        Errors   BrowserLeft
        """
        is_whole = False
        while not is_whole:
            part = await self._receive()
            if part["type"] == DISCONNECT:
                raise BrowserLeft
            yield part.get("body", b"")
            is_whole = not part.get("more_body", False)


class Response:
    """An answer with a body that is known.

    media_type   "text/…" gets the charset UTF-8
    headers      names in lower case
    """

    media_type = ""

    def __init__(
        self, content: bytes | str = b"", status: int = 200, media_type: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.status = int(status)
        self.body = content.encode() if isinstance(content, str) else content
        self.headers = dict(headers or {})
        self.set_cookies: list[str] = []
        kind = media_type or self.media_type
        is_plain = kind.startswith("text/") and "charset=" not in kind
        if kind:
            self.headers.setdefault("content-type", f"{kind}; charset=utf-8" if is_plain else kind)

    def set_cookie(self, name: str, value: str, path: str, *, is_secure: bool) -> None:
        """Adds a cookie that scripts do not see, and that no other site makes a browser send."""
        assert not {*name, *value, *path} & {*';, "\\\r\n'}, "the cookie needs quotes"
        text = f"{name}={value}; HttpOnly; Path={path}; SameSite=strict"
        self.set_cookies.append(f"{text}; Secure" if is_secure else text)

    def start(self) -> Part:
        """Returns the first part: status and header fields."""
        rows = [*self.headers.items(), *(("set-cookie", text) for text in self.set_cookies)]
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in rows]
        return {"type": START, "status": self.status, "headers": headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the answer."""
        self.headers["content-length"] = str(len(self.body))
        await send(self.start())
        await send({"type": BODY, "body": self.body})


class TextResponse(Response):
    """An answer of plain text."""

    media_type = "text/plain"


class Redirect(Response):
    """An answer that leads a browser to another URL."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(b"", status, headers={"location": quote(url, safe=KEPT_IN_URLS)})


class StreamedResponse(Response):
    """An answer whose texts are sent as they are made, until the browser leaves."""

    def __init__(self, texts: AsyncGenerator[str, None], media_type: str) -> None:
        super().__init__(b"", media_type=media_type)
        self._texts = texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the answer."""
        await send(self.start())
        sending = asyncio.Task(self._send(send))
        leaving = asyncio.Task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    async def _send(self, send: Send) -> None:
        async with aclosing(self._texts) as texts:
            async for text in texts:
                await send({"type": BODY, "body": text.encode(), "more_body": True})
        await send({"type": BODY, "body": b""})


def fields_of(scope: Scope) -> Mapping[str, str]:
    """Returns the header fields of a request; of fields with the same name the first."""
    rows = reversed(scope["headers"])
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in rows}


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != DISCONNECT:
        pass
