"""Interface between the HTTP server and the modules that produce its pages."""

from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import unquote


class Answer(NamedTuple):
    """A page to send.

    challenge   accepted authentication schemes; "" if no authentication is needed
    needs_http1   whether the page is served over HTTP/1.1 only
    """

    status: int
    content_type: str
    body: bytes
    challenge: str = ""
    needs_http1: bool = False

    def fields(self) -> list[tuple[str, str]]:
        """Returns the header fields, names in lower case."""
        from email.utils import formatdate  # 1 ms and 0.3 MiB, which a start does not take

        return [
            ("content-type", self.content_type),
            ("content-length", str(len(self.body))),
            ("date", formatdate(usegmt=True)),
            *([("www-authenticate", self.challenge)] if self.challenge else []),
        ]


ReadPage = Callable[[str, Mapping[bytes, bytes], str, bool], Awaitable[Answer]]
"""(path with query, header fields, client's address, whether the connection uses TLS) -> the page.
Names of header fields are in lower case; the address is in gRPC's notation. The function never
raises."""


def bare_address(host: str) -> IPv4Address | IPv6Address:
    """Returns an address without its zone; an IPv4-mapped IPv6 address becomes IPv4.

    Errors   ValueError: the text is not an IP address
    """
    address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_loopback_peer(peer: str) -> bool:
    """Returns whether a peer, in gRPC's notation, is on this machine."""
    host = unquote(peer.partition(":")[2]).rpartition(":")[0]
    try:
        return bare_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
