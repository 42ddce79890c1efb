"""Hosts as records keep them: address bytes and an i32 port, 8 bytes for IPv4, 20 for IPv6.

Source: MessageExt.socketAddress2ByteBuffer.
"""

import struct
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

IPV4_HOST_SIZE: Final = 8
IPV6_HOST_SIZE: Final = 20

_PORT = struct.Struct(">i")


@lru_cache(maxsize=4096)
def host_from_text(text: str) -> bytes:
    """Return the packed form of "ip:port" or "[v6]:port".

    Errors   ValueError when the text is neither, or the port is outside 0..65535
    """
    address_text, separator, port_text = text.rpartition(":")
    if not separator or not port_text.isdecimal() or int(port_text) > 65535:
        raise ValueError(f"{text!r} is not ip:port")
    if address_text.startswith("[") and address_text.endswith("]"):
        address_text = address_text[1:-1].partition("%")[0]
    return pack_host(ip_address(address_text), int(port_text))


def pack_host(address: IPv4Address | IPv6Address, port: int) -> bytes:
    """Return address bytes followed by the port; an IPv4-mapped IPv6 address becomes IPv4."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed + _PORT.pack(port)


@lru_cache(maxsize=4096)
def text_from_host(host: bytes) -> str:
    """Return "ip:port" or "[v6]:port" of a packed host."""
    (port,) = _PORT.unpack_from(host, len(host) - 4)
    if len(host) == IPV4_HOST_SIZE:
        return f"{IPv4Address(host[:4])}:{port}"
    return f"[{IPv6Address(host[:16])}]:{port}"
