"""A port of HTTP/1.1 for a site, apart from the port of clients."""

import asyncio
import socket

from pocketmq.metrics.site import Site, SiteConnection
from pocketmq.model.errors import AddressUnavailable


def connection_to(site: Site, peer: str = "") -> SiteConnection:
    """Returns the protocol for a client's connection; peer "": the address of the socket."""
    from pocketmq.metrics.http1 import HttpConnection  # 5 ms and 0.4 MiB, for the first connection

    return HttpConnection(site, peer)


class HttpPort:
    """Serves a site on "HOST:PORT"; port 0 binds a free port.

    Life     created (listening), `start`, `close`
    Errors   AddressUnavailable
    """

    __slots__ = ("_listener", "_server", "_site", "address")

    def __init__(self, site: Site, address: str) -> None:
        self._site = site
        self._listener = _listen(address)
        self._server: asyncio.Server | None = None
        self.address = _address_of(self._listener)

    async def start(self) -> None:
        """Starts to accept connections."""
        assert self._listener.fileno() >= 0, "the port is closed"
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: connection_to(self._site), sock=self._listener
        )

    async def close(self) -> None:
        """Stops listening, and closes all connections."""
        if self._server is not None:
            # Accepted connections begin in the next loop iterations. If the server were closed
            # before, asyncio would never close them.
            asyncio.get_running_loop().remove_reader(self._listener)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        self._site.close()
        if self._server is None:
            self._listener.close()
        else:
            self._server.close()
            await asyncio.sleep(0)  # Sockets are closed in the next loop iteration.


def _listen(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        why = str(error.strerror).partition(" (")[0]  # Python adds the address, which is logged
        raise AddressUnavailable(field="http.listen", address=address, why=why) from error


def _address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
