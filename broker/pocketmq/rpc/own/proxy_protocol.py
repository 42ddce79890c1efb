"""The PROXY protocol, versions 1 and 2: a load balancer sends the address of its client.

    1   PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\\r\\n       at most 107 bytes
    2   12 bytes of signature · version and command · family · length (2) · addresses · TLVs

Source: The PROXY protocol, versions 1 & 2 (HAProxy, 2020).
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import unpack_from
from typing import Final, NamedTuple

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
HEADER_SIZE: Final = 16
TEXT_SIZE_MAX: Final = 107
SIZE_MAX: Final = 536
"""Longest header accepted, in bytes: addresses of any family and some TLVs."""
_TEXT_START: Final = b"PROXY "
_LOCAL, _PROXY = 0x20, 0x21
_WIDTHS: Final = {1: 4, 2: 16}
"""Family -> bytes of an address."""


class ProxyError(ValueError):
    """A connection without a valid PROXY header."""


class ProxyHeader(NamedTuple):
    """Length of a header, and the two addresses that it contains.

    peer    the client's address, as gRPC writes it; "" if the balancer itself opened the
            connection, or if the header has no IPv4 or IPv6 addresses
    local   the address that the client reached, "host:port"; "" if `peer` is ""
    """

    size: int
    peer: str
    local: str = ""


def read_proxy_header(data: bytes) -> ProxyHeader | None:
    """Returns the header at the start of a connection, None if more bytes are needed.

    data     the first bytes of the connection, at most SIZE_MAX
    Errors   ProxyError: the bytes are not the start of a valid header
    """
    if data.startswith(SIGNATURE[: len(data)]):
        return _binary(data)
    if data.startswith(_TEXT_START[: len(data)]):
        return _text(data)
    raise ProxyError("the connection does not begin with a PROXY header")


def _text(data: bytes) -> ProxyHeader | None:
    line, end, _ = data[:TEXT_SIZE_MAX].partition(b"\r\n")
    if not end:
        if len(data) >= TEXT_SIZE_MAX:
            raise ProxyError(f"the PROXY line has no end within {TEXT_SIZE_MAX} bytes")
        return None
    size = len(line) + len(end)
    words = line.decode("ascii", "replace").split(" ")
    if words[1:2] == ["UNKNOWN"]:
        return ProxyHeader(size, "")
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise ProxyError(
            "the PROXY line does not have the form TCP4 or TCP6, two addresses, two ports"
        )
    try:
        address, port = ip_address(words[2]), int(words[4])
        reached, its_port = ip_address(words[3]), int(words[5])
    except ValueError as error:
        raise ProxyError("the PROXY line has an invalid address or port") from error
    version = int(words[1][-1])
    if not 0 <= min(port, its_port) <= max(port, its_port) <= 0xFFFF or not (
        address.version == reached.version == version
    ):
        raise ProxyError("the PROXY line has an address of another IP version, or an invalid port")
    return ProxyHeader(size, _peer(address, port), _text_of(reached, its_port))


def _binary(data: bytes) -> ProxyHeader | None:
    if len(data) < HEADER_SIZE:
        return None
    command, family, length = unpack_from(">BBH", data, len(SIGNATURE))
    size = HEADER_SIZE + length
    if command not in (_LOCAL, _PROXY):
        raise ProxyError("the PROXY header has an unknown version or command")
    if size > SIZE_MAX:
        raise ProxyError(f"the PROXY header has {size} bytes, more than {SIZE_MAX}")
    if len(data) < size:
        return None
    width = _WIDTHS.get(family >> 4, 0)
    if command == _LOCAL or not width:
        return ProxyHeader(size, "")
    if length < 2 * width + 4:
        raise ProxyError("the PROXY header is too short for its addresses")
    made = IPv4Address if width == 4 else IPv6Address
    middle, end = HEADER_SIZE + width, HEADER_SIZE + 2 * width
    port, its_port = unpack_from(">HH", data, end)
    local = _text_of(made(data[middle:end]), its_port)
    return ProxyHeader(size, _peer(made(data[HEADER_SIZE:middle]), port), local)


def _peer(address: IPv4Address | IPv6Address, port: int) -> str:
    if address.version == 4:
        return f"ipv4:{address}:{port}"
    return f"ipv6:%5B{address}%5D:{port}"


def _text_of(address: IPv4Address | IPv6Address, port: int) -> str:
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"
