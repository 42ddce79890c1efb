"""The HTTP port: /metrics, /livez, /readyz, /startupz, /version.

Imported only once the gRPC port is open, since starlette and uvicorn take a tenth of a second to
load. Runs on the caller's loop, leaves signals alone and logs no access.
"""

import platform
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from broker.metrics.exposition import Exposition
from broker.metrics.health import Health
from broker.model.errors import IllegalConfig


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
        return JSONResponse({**version, "python": platform.python_version()})

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
