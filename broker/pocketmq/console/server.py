"""Serves the console: a listening socket, uvicorn, and the sources of data."""

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from uvicorn.config import Config
from uvicorn.server import Server

from pocketmq.client import AsyncClient
from pocketmq.console.application import application
from pocketmq.console.asset_files import VERSION
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
COLLECT: Final = (100, 2, 1)
"""Thresholds of the garbage collector, for less memory: each page leaves 160 objects in cycles.
5,000 objects live, which it visits in 1 ms."""
STOP_S: Final = 1
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
    gc.set_threshold(*COLLECT)
    asyncio.run(_serve(served, listener, started))


async def _serve(served: Served, listener: socket.socket, started: Callable[[str], None]) -> None:
    console = console_of(served)
    app = application(console, is_private=served.is_private, token=served.token)
    path = f"{console.base}/" + (f"enter?token={console.entrance}" if console.entrance else "")
    server = _Server(settings_of(app), partial(started, path), ends_idle=bool(served.token))
    server.is_busy = lambda: console.copy is not None and console.copy.is_running
    try:
        await server.serve(sockets=[listener])
    finally:
        if console.copy is not None:
            await console.copy.close()
        for source in console.visitors.sources:
            await source.close()


def settings_of(app: object) -> Config:
    """Returns uvicorn's settings for the console."""
    return Config(
        app,  # type: ignore[arg-type]
        http="h11", ws="none", loop="asyncio", lifespan="off", log_config=None, access_log=False,
        server_header=False, date_header=False, timeout_graceful_shutdown=STOP_S,
        timeout_keep_alive=30, h11_max_incomplete_event_size=64 * 1024, proxy_headers=False,
    )  # fmt: skip


class _Server(Server):
    """The server of one console; with `ends_idle` it ends when idle, or without its parent."""

    def __init__(self, config: Config, started: Callable[[], None], *, ends_idle: bool) -> None:
        super().__init__(config)
        self._tell = started
        self._ends_idle = ends_idle
        self._parent = os.getppid()
        self._used_s = time.monotonic()
        self._count = 0
        self.is_busy: Callable[[], bool] = lambda: False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to serve, then reports it."""
        await super().startup(sockets)
        self._tell()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ends at signals; with `ends_idle` ignores Ctrl-C, which ends the broker, then this."""
        with super().capture_signals():
            if self._ends_idle:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            yield

    async def on_tick(self, counter: int) -> bool:
        """Returns whether to end."""
        now_s, state = time.monotonic(), self.server_state
        assert now_s >= self._used_s, "the clock was set back"
        if state.connections or state.total_requests != self._count or self.is_busy():
            self._used_s, self._count = now_s, state.total_requests
        is_over = now_s - self._used_s > IDLE_S or os.getppid() != self._parent
        return await super().on_tick(counter) or (self._ends_idle and is_over)
