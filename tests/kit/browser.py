"""A visitor of the console without a browser: requests to its application, cookies and forms.

async with console_of(broker) as visitor:
    page = await visitor.get("/topics")
    await visitor.post("/topic/create", name="orders")
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.types import ASGIApp, Message

from pocketmq.cli.store.access import Given
from pocketmq.console.application import application
from pocketmq.console.server import Served
from pocketmq.console.server import console_of as made
from pocketmq.console.web import Console
from pocketmq.tools.store_browser import StoreBrowser

PATIENCE_S: Final = 60.0
"""Pages of tests wait for all counts, also on a busy machine."""
HOST: Final = "127.0.0.1:5558"
TOKEN = re.compile(r'name="token" value="([^"]*)"')
TAG = re.compile(r"<[^>]*>")


class BrowserShown(NamedTuple):
    """An answer: its status, headers, and body as text."""

    status: int
    headers: dict[str, str]
    html: str

    @property
    def text(self) -> str:
        """The text of a page without its elements, blanks joined."""
        return " ".join(unescape(TAG.sub(" ", self.html.replace("<wbr>", ""))).split())

    @property
    def place(self) -> str:
        """The target of a redirect."""
        return self.headers.get("location", "")


class BrowserVisit:
    """Requests of one visitor, who keeps cookies and the last token."""

    def __init__(self, app: ASGIApp, host: str = HOST) -> None:
        self._app = app
        self.host = host
        self.cookies: dict[str, str] = {}
        self.token = ""

    async def get(self, target: str, **headers: str) -> BrowserShown:
        """Returns the answer to a GET of a path with a query."""
        shown = await self._ask("GET", target, b"", headers)
        found = TOKEN.search(shown.html)
        self.token = found[1] if found else self.token
        return shown

    async def watch(self, target: str, until: str) -> BrowserShown:
        """Returns the answer to a GET up to a text, after which the visitor leaves."""
        return await self._ask("GET", target, b"", {}, until)

    async def post(self, path: str, **form: str) -> BrowserShown:
        """Returns the answer to a form with the visitor's token."""
        if not self.token:
            await self.get("/login")
        return await self.post_raw(path, urlencode({"token": self.token} | form))

    async def post_raw(
        self, path: str, body: str, headers: dict[str, str] | None = None
    ) -> BrowserShown:
        """Returns the answer to a POST with an arbitrary body."""
        return await self._ask("POST", path, body.encode(), headers or {})

    async def _ask(
        self, method: str, target: str, body: bytes, given: dict[str, str], until: str = ""
    ) -> BrowserShown:
        path, _, query = target.partition("?")
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        fields = {"host": self.host, "cookie": cookie, **given}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
            "query_string": query.encode(), "server": ("127.0.0.1", 5558),
            "client": ("127.0.0.1", 4711),
            "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        }  # fmt: skip
        sent: list[Message] = []
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        gone = asyncio.Event()

        async def receive() -> Message:
            if parts:
                return parts.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)
            if until and until.encode() in b"".join(part.get("body", b"") for part in sent):
                gone.set()

        await self._app(scope, receive, send)
        headers: dict[str, str] = {}
        for name, value in sent[0]["headers"]:
            if name == b"set-cookie":
                pair = value.decode().partition(";")[0]
                self.cookies[pair.partition("=")[0]] = pair.partition("=")[2]
            headers[name.decode()] = value.decode()
        content = b"".join(part.get("body", b"") for part in sent[1:])
        return BrowserShown(sent[0]["status"], headers, content.decode("utf-8", "replace"))


def console_for(directory: Path) -> Console:
    """Returns a console for a store directory."""
    browser = StoreBrowser(*Given(directory, True, ()).opened(with_index=True))
    return made(Served("", browser=browser, patience_s=PATIENCE_S))


@asynccontextmanager
async def directory_of(directory: Path) -> AsyncIterator[BrowserVisit]:
    """Opens a console for a store directory, and yields a visitor with the token."""
    console = console_for(directory)
    visitor = BrowserVisit(application(console))
    assert (await visitor.get("/topics")).status == 403
    assert (await visitor.get(f"/enter?token={console.entrance}")).place == "/"
    yield visitor


@asynccontextmanager
async def console_of(endpoint: str, **served: Any) -> AsyncIterator[BrowserVisit]:
    """Opens a console for a broker, and yields its first visitor."""
    async with application_of(endpoint, **served) as app:
        yield BrowserVisit(app)


@asynccontextmanager
async def application_of(endpoint: str, **served: Any) -> AsyncIterator[ASGIApp]:
    """Opens a console for a broker; yields its application."""
    console = made(Served(endpoint, **{"patience_s": PATIENCE_S, **served}))
    try:
        yield application(
            console, is_private=served.get("is_private", True), token=served.get("token", "")
        )
    finally:
        for source in [*console.visitors.sources, *console.visitors.ended]:
            await source.close()
