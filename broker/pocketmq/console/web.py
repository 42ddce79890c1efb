"""Requests for pages of the console, and their answers.

A page is a coroutine function (Visit) -> Response. `Visit.render` makes HTML from a template, with
the texts of every page: the visitor, the navigation, the token of forms. An action is a page of the
method POST; it runs only if the form has the visitor's token.
"""

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

from jinja2 import (
    Environment,
    FileSystemBytecodeCache,
    FileSystemLoader,
    StrictUndefined,
    __version__,
)
from jinja2.bccache import Bucket
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from pocketmq.client import AsyncClient, ClientError
from pocketmq.console import plots, texts
from pocketmq.console.offers import Offers
from pocketmq.console.store_copy import StoreCopy
from pocketmq.console.visitors import Visitor, Visitors
from pocketmq.console.working import worked
from pocketmq.model.endpoint import DEFAULT_HOST, DEFAULT_PORT

TEMPLATES: Final = Path(__file__).parent / "templates"
OPTIONS: Final[dict[str, Any]] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
"""Options of templates that change their compiled form."""
FORM_SIZE_MAX: Final = 24 * 1024 * 1024
"""Upper limit of a form; percent-encoding triples a body of 4 MiB."""
FIELDS_MAX: Final = 1_000
SEE_OTHER: Final = 303
PATIENCE_S: Final = 0.15
SAVED_MAX: Final = 20
"""Upper limit of notes that wait for the page after an action."""


class NavigationEntry(NamedTuple):
    """An entry of the navigation; the keys "g" and `key` open it.

    action, kind   what a visitor must be allowed on some name, to see the entry; "": nothing
    """

    path: str
    title: str
    key: str
    action: str = ""
    kind: str = ""


NO_ENTRY: Final = NavigationEntry("", "", "")


class FormTooLarge(Exception):
    """A form is larger than the console reads."""


@dataclass
class Console:
    """One console: its visitors, and what all its pages share.

    endpoint    the broker, "host:port"
    routes      its pages
    directory   the store directory; "": a broker is shown
    base        path under which all pages are, without the last "/"
    version     part of the URLs of scripts and styles
    entrance    token that opens a directory
    needs_login   whether visitors without a session may only read
    patience_s    time for which a page waits for counts that the broker may be slow to get
    copy        the copy of the broker's store; None: the console makes none
    """

    visitors: Visitors[AsyncClient]
    endpoint: str
    navigation: tuple[NavigationEntry, ...]
    routes: "Sequence[Route]"
    directory: str = ""
    base: str = ""
    version: str = ""
    entrance: str = ""
    needs_login: bool = False
    patience_s: float = PATIENCE_S
    copy: StoreCopy | None = None
    environment: Environment = field(init=False)

    def __post_init__(self) -> None:
        assert not self.base.endswith("/"), "the base ends with /"
        self.environment = Environment(
            loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, **OPTIONS,
            bytecode_cache=bytecode_cache(),
        )  # fmt: skip
        self.environment.filters |= {
            "shown": texts.shown, "plain": texts.plain, "count": texts.count, "size": texts.size,
            "counted": texts.counted, "rate": texts.rate, "moment": texts.moment,
            "exact": texts.exact,
            "duration": texts.duration, "preview": texts.preview, "address": texts.address,
            "breakable": texts.breakable,
        }  # fmt: skip
        self.environment.globals |= {"plots": plots, "url": self.url, "cli": self.command}

    def section(self, path: str) -> NavigationEntry:
        """Returns the entry of the navigation that a page belongs to."""
        return next((one for one in self.navigation if _belongs(path, one.path)), NO_ENTRY)

    def url(self, path: str, **query: object) -> str:
        """Returns the URL of a page; parameters that are None or "" are left out."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{self.base}{path}" + (f"?{urlencode(given, errors='replace')}" if given else "")

    def command(self, *words: object) -> str:
        """Returns the command line with the same effect as an action."""
        usual = f"{DEFAULT_HOST}:{DEFAULT_PORT}"
        named = () if self.endpoint in ("", usual) else ("--endpoint", self.endpoint)
        return texts.command("pocketmq", *words, *named)


class _RenderedPage(Response):
    """A page whose text is made when it is sent, off the event loop."""

    media_type = "text/html"

    def __init__(self, make: Callable[[], str], status: int) -> None:
        super().__init__(b"", status)
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert not self.body, "a page is made once"
        self.body = await worked(lambda: self._make().encode())
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


class Visit:
    """A request for a page."""

    __slots__ = ("client", "console", "form", "now_ms", "offers", "request", "url", "visitor")

    def __init__(self, request: Request, console: Console, visitor: Visitor[AsyncClient]) -> None:
        self.request = request
        self.console = console
        self.visitor = visitor
        self.client = visitor.source
        self.url = console.url
        self.offers = Offers()
        self.form: Mapping[str, str] = {}
        self.now_ms = time.time_ns() // 1_000_000

    # --- the request ------------------------------------------------------------------------------

    def text(self, name: str, default: str = "") -> str:
        """Returns a parameter of the form, else of the URL."""
        return self.form.get(name, self.request.query_params.get(name, default))

    def number(self, name: str, default: int = 0, largest: int = 10**18) -> int:
        """Returns a parameter as a number from 0 on; the default if it is none."""
        assert default <= largest, "the default is too large"
        given = self.text(name)
        if not (given.isascii() and given.isdecimal() and len(given) < 20):
            return default
        return min(int(given), largest)

    def exact_number(self, name: str, default: int = 0, largest: int = 10**18) -> int:
        """Returns a parameter of an action as a number from 0 on; the default if it is empty.

        Errors   ClientError: it is no such number
        """
        found = self.number(name, -1, largest)
        if self.has(name) and (found < 0 or found != int(self.text(name))):
            raise _refused(f"{name} is {self.text(name)!r}, not a number from 0 to {largest}")
        return found if self.has(name) else default

    def choice(self, name: str, known: Collection[str]) -> str:
        """Returns a parameter of an action, which is one of the known texts.

        Errors   ClientError: it is none of them
        """
        found = self.text(name)
        if found not in known:
            raise _refused(f"{name} is {found!r}, not one of {', '.join(known)}")
        return found

    @property
    def is_live(self) -> bool:
        """Whether the request reloads a part of a page, which it does at intervals."""
        return self.request.url.path.endswith("/live")

    def has(self, name: str) -> bool:
        """Returns whether a parameter is given and not empty."""
        return bool(self.text(name))

    async def read_form(self) -> None:
        """Reads the form of an action.

        Errors   FormTooLarge
        """
        body = bytearray()
        async for part in self.request.stream():
            body += part
            if len(body) > FORM_SIZE_MAX:
                raise FormTooLarge
        try:
            pairs = parse_qsl(
                body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX
            )
        except ValueError as error:
            raise FormTooLarge from error
        self.form = dict(pairs)

    # --- the answer -------------------------------------------------------------------------------

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """Returns a page made from a template."""
        made = self.console.environment.get_template(template)
        path = self.request.url.path.removeprefix(self.console.base) or "/"
        entries = self._entries()
        return _RenderedPage(partial(
            made.render,
            page=self, visitor=self.visitor, console=self.console, path=path,
            section=self.console.section(path), may=self.offers.may, may_any=self.offers.may_any,
            entries=entries, shortcuts=json.dumps({one.key: one.path for one in entries}),
            notes=self._taken_notes(), ago=partial(texts.ago, now_ms=self.now_ms), **values,
        ), status)  # fmt: skip

    def _entries(self) -> list[NavigationEntry]:
        """Returns the entries of the navigation that the visitor may use."""
        sees = self.offers.sees_any
        return [
            one for one in self.console.navigation if not one.action or sees(one.action, one.kind)
        ]

    def redirect(self, path: str, **query: object) -> Response:
        """Returns the answer that leads a browser to another page."""
        return RedirectResponse(self.url(path, **query), SEE_OTHER)

    def note(self, text: str, command: str = "") -> None:
        """Keeps the result of an action for the visitor's next page.

        command   command line with the same effect
        """
        saved = self.visitor.memory.setdefault("notes", {})
        saved.setdefault(self.visitor.number, []).append((text, command))
        while len(saved) > SAVED_MAX:
            del saved[next(iter(saved))]

    def _taken_notes(self) -> list[tuple[str, str]]:
        saved = self.visitor.memory.get("notes", {})
        return list(saved.pop(self.visitor.number, []))


class _TemplateCache(FileSystemBytecodeCache):
    """Compiled templates in files, without those that a full disk does not take."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def bytecode_cache(folder: Path = TEMPLATES / "__pycache__") -> FileSystemBytecodeCache | None:
    """Returns the cache of compiled templates beside them; None if it cannot be written.

    A console that need not compile its templates takes a MiB less of memory.
    """
    if sys.dont_write_bytecode:
        return None
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    digest = sha256(repr(sorted(OPTIONS.items())).encode()).hexdigest()[:8]
    pattern = f"%s.{sys.implementation.cache_tag}-{__version__}-{digest}.jinja"
    is_writable = os.access(folder, os.W_OK | os.X_OK)
    return _TemplateCache(str(folder), pattern) if is_writable else None


def _refused(why: str) -> ClientError:
    return ClientError("IllegalForm", f"{why}; go back and correct it", status="INVALID_ARGUMENT")


def _belongs(path: str, entry: str) -> bool:
    """Returns whether a page belongs to an entry, as /topic/plan belongs to /topics."""
    first = f"/{path.split('/')[1]}"
    return first == entry or f"{first}s" == entry


Handler = Callable[[Visit], Awaitable[Response]]


class Route(NamedTuple):
    """A page: its path, its function, and whether it is an action."""

    path: str
    handler: Handler
    is_action: bool = False
