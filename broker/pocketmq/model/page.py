"""Interface between the HTTP server and the modules that produce its pages."""

from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from time import gmtime
from typing import Final, NamedTuple
from urllib.parse import unquote

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"
)  # fmt: skip


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
        return [
            ("content-type", self.content_type),
            ("content-length", str(len(self.body))),
            ("date", http_date()),
            *([("www-authenticate", self.challenge)] if self.challenge else []),
        ]


def http_date(time_s: float | None = None) -> str:
    """Returns a time, by default the present, as in a Date field: "Sun, 06 Nov 1994 08:49:37 GMT".

    email.utils has such a function, but takes 1 ms and 0.3 MiB for its import.
    """
    when = gmtime(time_s)
    day, month = _DAYS[when.tm_wday], _MONTHS[when.tm_mon - 1]
    clock = f"{when.tm_hour:02}:{when.tm_min:02}:{when.tm_sec:02}"
    return f"{day}, {when.tm_mday:02} {month} {when.tm_year:04} {clock} GMT"


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
