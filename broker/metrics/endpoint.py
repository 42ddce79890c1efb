"""The HTTP port: /metrics, /livez, /readyz, /startupz, /version.

Imported only once the gRPC port is open, since starlette and uvicorn take a tenth of a second to
load. Runs on the caller's loop, leaves signals alone and logs no access. What probes are told:

state        livez   startupz   readyz
starting     200     200        503
recovering   200     200        503      it advances, so it must not be killed
running      200     200        200
disk_full    200     200        200      reading is served; sends resume by themselves
read_only    200     200        200      reading is served; store.write says the rest
damaged      200     200        200      the same; an operator has to look
draining     200     200        503
failed       503     503        503      the process ends by itself
"""

import platform
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from broker import native
from broker.metrics.exposition import Exposition
from broker.model.errors import IllegalConfig

READY_STATES: Final = frozenset({"running", "disk_full", "read_only", "damaged"})
RECOVERING: Final = "recovering"
FAILED: Final = "failed"


class Health:
    """What the probes are told.

    read_state      returns the store's state
    read_progress   returns the share of recovery that is done, 0 to 1
    """

    __slots__ = ("_read_progress", "_read_state")

    def __init__(
        self,
        read_state: Callable[[], str],
        *,
        read_progress: Callable[[], float] | None = None,
    ) -> None:
        self._read_state = read_state
        self._read_progress = read_progress

    @property
    def state(self) -> str:
        """The store's state."""
        return self._read_state()

    @property
    def is_alive(self) -> bool:
        """Whether the process should go on living."""
        return self.state != FAILED

    @property
    def is_ready(self) -> bool:
        """Whether clients should come."""
        return self.state in READY_STATES

    def report(self) -> dict[str, str | float]:
        """Return what a probe's answer says: the state, and how far recovery has come."""
        state = self.state
        if state == RECOVERING and self._read_progress is not None:
            return {"state": state, "progress": round(self._read_progress(), 3)}
        return {"state": state}


def application(
    exposition: Exposition,
    health: Health,
    version: Mapping[str, object],
    refresh: Callable[[], Awaitable[None]] | None = None,
) -> Starlette:
    """Return the five pages as an ASGI application; `refresh` is awaited before a scrape."""

    async def metrics(request: Request) -> Response:
        if refresh is not None:
            await refresh()
        page, content_type = exposition.page(request.headers.get("accept", ""))
        return Response(page, headers={"content-type": content_type})

    def answer(is_good: bool) -> Response:
        return JSONResponse(health.report(), status_code=200 if is_good else 503)

    async def live(request: Request) -> Response:
        return answer(health.is_alive)

    async def ready(request: Request) -> Response:
        return answer(health.is_ready)

    async def show_version(request: Request) -> Response:
        told = {"python": platform.python_version(), "modules": native.form()}
        return JSONResponse({**version, **told})

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/livez", live),
            Route("/startupz", live),
            Route("/readyz", ready),
            Route("/version", show_version),
        ]
    )


class HttpServer:
    """Serves an application on "HOST:PORT"; port 0 takes any that is free.

    Life     made (listening), `run` until `end` is called
    Errors   IllegalConfig when the address cannot be listened on
    """

    __slots__ = ("_listener", "_server", "address")

    def __init__(self, application: Starlette, address: str) -> None:
        self._listener = _listen(address)
        self.address = _address_of(self._listener)
        """The address bound."""
        self._server = _Server(
            uvicorn.Config(
                application,
                http="h11",
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )

    async def run(self) -> None:
        """Serve until `end` is called."""
        await self._server.serve([self._listener])

    def end(self) -> None:
        """Let `run` return, within a second."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        why = f"{address} cannot be listened on: {error.strerror}"
        raise IllegalConfig(field="http.listen", why=why) from error


def _address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
