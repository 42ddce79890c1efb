"""The ports a broker listens on, as its sockets report them, and which machines reach each.

A supervisor may hand over a socket, a host name may resolve to any address, a proxy may pass
connections on. So nothing is decided by the setting `rpc.listen`: the address is that of the bound
socket.
"""

import logging
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from pocketmq.app.inherited import COUNT, address_of
from pocketmq.config.addresses import held_port, is_loopback, split_address
from pocketmq.config.sections import Config
from pocketmq.metrics.http1 import HttpPort, Site
from pocketmq.model.errors import IllegalConfig
from pocketmq.rpc.own.server import OwnServer

if TYPE_CHECKING:
    from pocketmq.rpc.grpcio.server import GrpcioServer

logger = logging.getLogger(__name__)

RPC: Final = "rpc.listen"
HTTP: Final = "http.listen"


class BoundAddress(NamedTuple):
    """One bound address.

    setting   that chose it, or LISTEN_FDS
    address   "host:port" as the socket reports it
    """

    setting: str
    address: str


class Ports(NamedTuple):
    """All ports of a broker.

    grpc     "host:port" for clients, the host as configured
    bound    every address that is listened on
    http     the port of pages; None: there is none of its own
    """

    grpc: str
    bound: tuple[BoundAddress, ...]
    http: HttpPort | None

    @property
    def hosts(self) -> list[str]:
        """Hosts by which clients reach gRPC: names for a certificate."""
        rpc = [one.address for one in self.bound if one.setting != HTTP]
        return [split_address(address)[0] for address in (self.grpc, *rpc)]

    @property
    def pages(self) -> str:
        """The address of pages, "host:port"."""
        return self.grpc if self.http is None else self.http.address

    async def close(self) -> None:
        """Closes the port of pages; the server closes its own sockets."""
        if self.http is not None:
            await self.http.close()

    def opened(self, config: Config) -> list[tuple[str, str]]:
        """Returns the ports that other machines reach: the setting of each, and why it is open.

        A loopback address is open where others are passed on to it: by a balancer with PROXY
        headers, or by a reverse proxy, whose address clients get from `broker.advertised_host`.
        """
        found: list[tuple[str, str]] = []
        for setting, address in self.bound:
            if not is_loopback(address):
                found.append((setting, f"{address} is reached from other machines"))
            elif setting != HTTP and (why := _passed_on(config)):
                found.append((setting, f"{address} is reached through a proxy, as {why}"))
        return found

    def in_clear(self, config: Config) -> list[str]:
        """Returns the addresses that serve users without TLS.

        The port of clients counts even on loopback, the port of pages only where others reach it.
        """
        return [
            address
            for setting, address in self.bound
            if not (is_loopback(address) if setting == HTTP else config.rpc.tls_only)
        ]


def _passed_on(config: Config) -> str:
    """Returns the setting by which connections from elsewhere are passed on, "" for none."""
    host = config.broker.advertised_host
    if config.rpc.proxy_protocol:
        return "rpc.proxy_protocol = true"
    return f"broker.advertised_host = {host}" if host and not is_loopback(f"{host}:0") else ""


def bind(
    config: Config,
    server: "GrpcioServer | OwnServer",
    listening: socket.socket | None,
    site: Site,
) -> Ports:
    """Listens on the socket that was handed over, else as configured; serves no call yet.

    Errors   AddressUnavailable, IllegalConfig
    """
    if listening is not None and RPC in config.origins:
        doubt = f"{RPC} does not count: {COUNT} handed {address_of(listening)} over"
        logger.warning("config.suspect", extra={"doubt": doubt})
    if listening is None:
        with held_port(config.rpc.listen) as address:
            server.add_port(address)
        setting = RPC
    elif isinstance(server, OwnServer):
        server.add_socket(listening)
        setting, address = COUNT, address_of(listening)
    else:
        listening.close()
        why = "only our own transport takes a socket that was handed over (LISTEN_FDS)"
        raise IllegalConfig(field="rpc.transport", why=why)
    bound = [BoundAddress(setting, one) for one in _addresses(server, address)]
    http = HttpPort(site, config.http.listen) if config.http.listen else None
    if http is not None:
        bound.append(BoundAddress(HTTP, http.address))
    assert bound, "a server listens somewhere"
    return Ports(address, tuple(bound), http)


def _addresses(server: "GrpcioServer | OwnServer", address: str) -> Iterable[str]:
    """Returns the listening sockets; gRPC's library reports none, and listens on all addresses."""
    if isinstance(server, OwnServer):
        return map(address_of, server.sockets)
    host, port = split_address(address)
    with suppress(OSError):
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [f"[{place[0]}]:{port}" for *_, place in found]
    return [address]
