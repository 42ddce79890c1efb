"""Resolves settings to the listening address and the address that clients get."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from pocketmq.config.sections import BrokerSection
from pocketmq.model.errors import AddressUnavailable, IllegalConfig
from pocketmq.model.page import bare_address

ELSEWHERE: Final = ("198.51.100.1", 9)
"""Address without a host (RFC 5737); the route to it shows this machine's own address."""

Address = IPv4Address | IPv6Address


def split_address(address: str) -> tuple[str, int]:
    """Returns host and port of "HOST:PORT"; brackets of an IPv6 host are removed."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(bound: str) -> bool:
    """Returns whether an address "HOST:PORT" is a loopback IP address; False for a name."""
    try:
        return bare_address(split_address(bound)[0]).is_loopback
    except ValueError:
        return False


@contextmanager
def held_port(listen: str) -> Iterator[str]:
    """Yields an address with the given port, or for port 0 with a free port, which is reserved.

    The caller may listen on the port within the block: sockets with SO_REUSEADDR can share a
    port as long as only one of them listens.

    Errors   AddressUnavailable: port 0 was given for a host that is not this machine
    """
    host, port = split_address(listen)
    if port:
        yield listen
        return
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as holder:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(place)
            yield f"{listen.rpartition(':')[0]}:{holder.getsockname()[1]}"
    except OSError as error:
        why = str(error.strerror)
        raise AddressUnavailable(field="rpc.listen", address=listen, why=why) from error


def advertised_address(broker: BrokerSection, bound: str) -> tuple[Address, int]:
    """Returns the (address, port) that clients get and that messages contain.

    These are broker.advertised_host and broker.advertised_port. A setting that is empty or 0 is
    replaced by its part of the bound address, and 0.0.0.0 or :: by this machine's address.

    Errors   IllegalConfig: the host cannot be resolved
    """
    bound_host, port = split_address(bound)
    host, key = bound_host, "rpc.listen"
    if broker.advertised_host:
        host, key = broker.advertised_host, "broker.advertised_host"
    try:
        place = socket.getaddrinfo(host, None)[0][4][0]
    except OSError as error:
        why = f"{host} cannot be resolved: {error.strerror}"
        raise IllegalConfig(field=key, why=why) from error
    address = bare_address(str(place))
    if address.is_unspecified:
        address = own_address()
    return address, broker.advertised_port or port


def own_address() -> Address:
    """Returns this machine's address in its network, 127.0.0.1 without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(ELSEWHERE)  # sends nothing
        except OSError:
            return IPv4Address("127.0.0.1")
        return IPv4Address(probe.getsockname()[0])
