"""Serves the console: a listening socket, its server, and the sources of data."""

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pocketmq.client import AsyncClient
from pocketmq.console.application import application
from pocketmq.console.asset_files import VERSION
from pocketmq.console.http_server import HttpServer
from pocketmq.console.pages import NAVIGATION, ROUTES
from pocketmq.console.store_copy import StoreCopy
from pocketmq.console.visitors import Visitors
from pocketmq.console.web import PATIENCE_S, Console
from pocketmq.console.working import share_processor

if TYPE_CHECKING:
    from pocketmq.tools.store_browser import StoreBrowser

TIMEOUT_MS: Final = 10_000
IDLE_S: Final = 600.0
"""Time in seconds without a request after which the console of a broker ends."""
LOOK_S: Final = 0.5
"""Interval in seconds at which the console of a broker looks whether it is used."""
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
STOP_S: Final = 1.0
"""Time in seconds for which a stop waits for the requests in progress."""


class Served(NamedTuple):
    """The broker of a console, and the way to reach the console.

    endpoint     the broker, "host:port" or "tls://host:port"
    base         path under which all pages are, without the last "/"
    browser      the reader of a store directory; None: the console shows a broker
    is_private   whether others cannot read the connections
    token        secret of the broker that passes connections on; "": connections come from browsers
    needs_login  whether callers without a login may only read
    patience_s   time for which a page waits for counts that the broker may be slow to get
    backup_path  directory for a copy of the store, of a broker on this machine; "": none
    """

    endpoint: str
    base: str = ""
    browser: "StoreBrowser | None" = None
    is_private: bool = True
    token: str = ""
    needs_login: bool = False
    patience_s: float = PATIENCE_S
    backup_path: str = ""


def console_of(served: Served) -> Console:
    """Returns a console for a broker or a directory; no connection is made."""

    if served.browser is not None:
        # The offline tools and their imports take several times the memory of the rest.
        from pocketmq.console.directory import DirectoryClient
        from pocketmq.console.pages.offline import OFFLINE_NAVIGATION, OFFLINE_ROUTES

        offline: Any = DirectoryClient(served.browser)
        return Console(
            Visitors(lambda access_key, secret: offline), "", OFFLINE_NAVIGATION, OFFLINE_ROUTES,
            base=served.base,
            directory=str(served.browser.directory), version=VERSION, entrance=token_urlsafe(),
            patience_s=served.patience_s,
        )  # fmt: skip

    def make(access_key: str, secret: str) -> AsyncClient:
        return AsyncClient(
            served.endpoint, timeout_ms=TIMEOUT_MS, retry_ms=0, access_key=access_key,
            secret_key=secret,
        )  # fmt: skip

    return Console(
        Visitors(make), served.endpoint, NAVIGATION, ROUTES, base=served.base, version=VERSION,
        needs_login=served.needs_login, patience_s=served.patience_s,
        copy=StoreCopy(served.backup_path) if served.backup_path else None,
    )  # fmt: skip


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens; port 0: a free port.

    Errors   OSError
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def inherited(number: int) -> socket.socket:
    """Returns the listening socket of a file descriptor."""
    return socket.socket(fileno=number)


def address_of(listener: socket.socket) -> str:
    """Returns the address of a socket, "host:port"."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches a host's address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def run(served: Served, listener: socket.socket, started: Callable[[str], None]) -> None:
    """Serves until SIGTERM or Ctrl-C; with a token until SIGTERM, idleness or the broker's end.

    started   gets the path to open, once requests are answered
    """
    share_processor()
    gc.collect()
    gc.freeze()  # Imported objects live until the end: the garbage collector need not visit them.
    asyncio.run(_serve(served, listener, started))


async def _serve(served: Served, listener: socket.socket, started: Callable[[str], None]) -> None:
    console = console_of(served)
    server = HttpServer(application(console, is_private=served.is_private, token=served.token))
    path = f"{console.base}/" + (f"enter?token={console.entrance}" if console.entrance else "")
    try:
        with stopping(*((signal.SIGTERM,) if served.token else STOP_SIGNALS)) as stop:
            await server.start(listener)
            started(path)
            if served.token:
                await _unused(console, server, stop)
            else:
                await stop.wait()
            await server.stop(STOP_S)
    finally:
        if console.copy is not None:
            await console.copy.close()
        for source in console.visitors.sources:
            await source.close()


@contextmanager
def stopping(*numbers: signal.Signals) -> Iterator[asyncio.Event]:
    """Yields an event that signals set; afterwards those that came have their usual effect."""
    stop, came = asyncio.Event(), list[signal.Signals]()
    loop, before = asyncio.get_running_loop(), [signal.getsignal(number) for number in numbers]

    def note(number: signal.Signals) -> None:
        came.append(number)
        stop.set()

    for number in numbers:
        loop.add_signal_handler(number, note, number)
    try:
        yield stop
    finally:
        for number, usual in zip(numbers, before, strict=True):
            loop.remove_signal_handler(number)
            signal.signal(number, usual)
    for number in came:
        signal.raise_signal(number)


async def _unused(console: Console, server: HttpServer, stop: asyncio.Event) -> None:
    """Waits until the console of a broker must end: stopped, idle, or without its broker."""
    parent, used_s, count = os.getppid(), time.monotonic(), -1
    while not stop.is_set():
        now_s = time.monotonic()
        assert now_s >= used_s, "the clock was set back"
        is_busy = console.copy is not None and console.copy.is_running
        if server.connections or server.request_count != count or is_busy:
            used_s, count = now_s, server.request_count
        if now_s - used_s > IDLE_S or os.getppid() != parent:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await stop.wait()
