"""Pages that are read over HTTP, as their servers and their makers see them."""

from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import unquote


class Answer(NamedTuple):
    """A page as it is sent.

    challenge   schemes by which a reader may authenticate; "" where none is needed
    """

    status: int
    content_type: str
    body: bytes
    challenge: str = ""

    def fields(self) -> list[tuple[str, str]]:
        """Returns its header fields, names in lower case."""
        return [
            ("content-type", self.content_type),
            ("content-length", str(len(self.body))),
            ("date", formatdate(usegmt=True)),
            *([("www-authenticate", self.challenge)] if self.challenge else []),
        ]


ReadPage = Callable[[str, Mapping[bytes, bytes], str, bool], Awaitable[Answer]]
"""Returns a page, never raises: given path and query, the client's fields with names in lower case,
its address as gRPC writes it, and whether the connection has TLS."""


def bare_address(host: str) -> IPv4Address | IPv6Address:
    """Returns an address without its zone, an IPv4 one as such where IPv6 carries it.

    Errors   ValueError for a name
    """
    address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_loopback_peer(peer: str) -> bool:
    """Returns whether a peer, as gRPC writes it, is on this machine."""
    host = unquote(peer.partition(":")[2]).rpartition(":")[0]
    try:
        return bare_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
