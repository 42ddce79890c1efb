"""The listening ports of a broker, and whether other machines reach them.

A supervisor may pass a socket, a host name may resolve to any address, a proxy may forward
connections. So whether other machines reach a port depends on its bound or resolved addresses and
on the settings of a proxy, not on the text of `rpc.listen`.
"""

import logging
import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final, NamedTuple

from pocketmq.app.inherited import COUNT, address_of
from pocketmq.app.stage import Handover
from pocketmq.config.addresses import held_port, is_loopback, split_address
from pocketmq.config.sections import Config
from pocketmq.metrics.http_port import HttpPort
from pocketmq.metrics.site import Site
from pocketmq.model.errors import AddressUnavailable, IllegalConfig
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.replication.slave_port import SlavePort
from pocketmq.services.replication.leader import Leader

if TYPE_CHECKING:
    from pocketmq.rpc.grpcio.server import GrpcioServer

logger = logging.getLogger(__name__)

RPC: Final = "rpc.listen"
HTTP: Final = "http.listen"
VIP_DISTANCE: Final = 2
"""The VIP channel's port is this much below the broker's."""


class BoundAddress(NamedTuple):
    """One bound address.

    setting   setting of the address, or LISTEN_FDS
    address   "host:port" of the socket
    """

    setting: str
    address: str


class Ports(NamedTuple):
    """All ports of a broker.

    grpc     "host:port" as configured, with the bound port instead of 0; or the address of a passed
             socket
    bound    every listening address
    http     the separate HTTP port of pages; None if `grpc` serves the pages
    slaves   the port of slave brokers, not open yet
    """

    grpc: str
    bound: tuple[BoundAddress, ...]
    http: HttpPort | None
    slaves: SlavePort

    @property
    def hosts(self) -> list[str]:
        """Hosts of the gRPC port, for the certificate."""
        rpc = [one.address for one in self.bound if one.setting != HTTP]
        return [split_address(address)[0] for address in (self.grpc, *rpc)]

    @property
    def pages(self) -> str:
        """Address of the pages, "host:port"."""
        return self.grpc if self.http is None else self.http.address

    @property
    def classic_vip(self) -> str | None:
        """Address of the VIP channel, "host:port"; None: it is not open."""
        port = split_address(self.grpc)[1] - VIP_DISTANCE
        calls = (one.address for one in self.bound if one.setting != HTTP)
        return next((one for one in calls if split_address(one)[1] == port), None)

    async def close(self) -> None:
        """Closes the ports of pages and slaves; the server closes its own sockets."""
        await self.slaves.close()
        if self.http is not None:
            await self.http.close()

    async def serve_slaves(self, config: Config, leader: Leader) -> None:
        """Opens the port of slaves, if its address is set.

        Errors   AddressUnavailable
        """
        if config.replication.listen:
            await self.slaves.start(leader, config.replication.listen)

    def opened(self, config: Config) -> list[tuple[str, str]]:
        """Returns (setting, reason) of the ports that other machines can reach.

        A loopback address is reachable through a balancer with PROXY headers, or through a reverse
        proxy, whose address `broker.advertised_host` gives to clients.
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

        The gRPC port counts, even on loopback, unless rpc.tls_only is set. The port of pages counts
        if it is not on loopback.
        """
        return [
            address
            for setting, address in self.bound
            if not (is_loopback(address) if setting == HTTP else config.rpc.tls_only)
        ]


def _passed_on(config: Config) -> str:
    host = config.broker.advertised_host
    if config.rpc.proxy_protocol:
        return "rpc.proxy_protocol = true"
    return f"broker.advertised_host = {host}" if host and not is_loopback(f"{host}:0") else ""


def bind(
    config: Config,
    server: "GrpcioServer | OwnServer",
    listening: socket.socket | None,
    site: Site,
    handover: Handover,
) -> Ports:
    """Listens on the kept or the inherited socket, else as configured; does not accept calls yet.

    Errors   AddressUnavailable, IllegalConfig
    """
    kept = handover.taken()
    if kept is not None:
        listening = kept
    elif listening is not None and RPC in config.origins:
        doubt = f"{RPC} has no effect: {COUNT} passed {address_of(listening)}"
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
        why = 'only the transport "own" accepts a passed socket (LISTEN_FDS)'
        raise IllegalConfig(field="rpc.transport", why=why)
    if config.rpc.classic_vip and config.rpc.offers_classic and isinstance(server, OwnServer):
        _bind_below(server, config.rpc.listen if listening is None else address)
    bound = [BoundAddress(setting, one) for one in _addresses(server, address)]
    http = HttpPort(site, handover.pages or config.http.listen) if config.http.listen else None
    if http is not None:
        bound.append(BoundAddress(HTTP, http.address))
    assert bound, "the server has no listening address"
    if isinstance(server, OwnServer):
        handover.keep(server.sockets[0], http.address if http is not None else "")
    networks = [ip_network(part) for part in config.replication.peers.split(",") if part]
    return Ports(address, tuple(bound), http, SlavePort(networks))


def _bind_below(server: OwnServer, listen: str) -> None:
    """Also listens on the port minus VIP_DISTANCE; logs a warning if that port is not available.

    Source   MixAll.brokerVIPChannel: some clients subtract 2 from the port of the route
    """
    host, port = listen.rpartition(":")[::2]
    address = f"{host}:{int(port) - VIP_DISTANCE}"
    if int(port) <= VIP_DISTANCE:
        return
    try:
        server.add_port(address)
    except AddressUnavailable as error:
        doubt = (
            f"{address} is not served, as {error.why}: free it, or set rpc.classic_vip = false if "
            "no classic client uses the VIP channel"
        )
        logger.warning("config.suspect", extra={"doubt": doubt})


def _addresses(server: "GrpcioServer | OwnServer", address: str) -> Iterable[str]:
    if isinstance(server, OwnServer):
        return map(address_of, server.sockets)
    host, port = split_address(address)
    with suppress(OSError):
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [f"[{place[0]}]:{port}" for *_, place in found]
    return [address]
