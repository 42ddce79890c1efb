"""PROXY headers: every good one is read to its end, no other is taken for one."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.rpc.own.proxy_protocol import (
    SIGNATURE,
    SIZE_MAX,
    TEXT_SIZE_MAX,
    ProxyError,
    ProxyHeader,
    read_proxy_header,
)

PORTS = st.integers(0, 65_535)
ADDRESSES = st.ip_addresses(v=4) | st.ip_addresses(v=6)


def shown(address: IPv4Address | IPv6Address, port: int) -> str:
    host = str(address) if address.version == 4 else f"%5B{address}%5D"
    return f"ipv{address.version}:{host}:{port}"


def reached(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Returns the address that the client of an address reached."""
    return ip_address("198.51.100.1" if address.version == 4 else "2001:db8::1")


def local(address: IPv4Address | IPv6Address) -> str:
    return "198.51.100.1:443" if address.version == 4 else "[2001:db8::1]:443"


def text(address: IPv4Address | IPv6Address, port: int) -> bytes:
    other = reached(address)
    return f"PROXY TCP{address.version} {address} {other} {port} 443\r\n".encode()


def binary(
    address: IPv4Address | IPv6Address, port: int, tail: bytes = b"", command: int = 0x21
) -> bytes:
    family = 0x11 if address.version == 4 else 0x21
    body = address.packed + reached(address).packed + pack(">HH", port, 443) + tail
    return SIGNATURE + pack(">BBH", command, family, len(body)) + body


@given(ADDRESSES, PORTS, st.binary(max_size=60), st.booleans(), st.binary(max_size=40))
def test_a_header_is_read_to_its_end_however_it_comes(
    address: IPv4Address | IPv6Address, port: int, more: bytes, is_text: bool, tlvs: bytes
) -> None:
    header = text(address, port) if is_text else binary(address, port, tlvs)
    found = ProxyHeader(len(header), shown(address, port), local(address))
    assert read_proxy_header(header + more) == found
    for size in range(len(header)):
        assert read_proxy_header(header[:size]) is None


@given(st.binary(max_size=SIZE_MAX))
def test_other_bytes_are_refused_or_wait_for_more(data: bytes) -> None:
    for start in (b"", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11"):
        try:
            header = read_proxy_header((start + data)[:SIZE_MAX])
        except ProxyError:
            continue
        assert header is None or header.size <= SIZE_MAX


@pytest.mark.parametrize(
    "header", [b"PROXY UNKNOWN\r\n", b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n",
               binary(ip_address("192.0.2.1"), 1, command=0x20),
               SIGNATURE + b"\x21\x31\0\x04abcd"],
)  # fmt: skip
def test_a_balancers_own_connections_name_nobody(header: bytes) -> None:
    assert read_proxy_header(header + b"GET") == ProxyHeader(len(header), "")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n",
        b"PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 nobody 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 65536 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 -1 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 1 65536\r\n",
        b"PROXY TCP4 192.0.2.1 2001:db8::1 1 2\r\n",
        b"PROXY " + b"x" * TEXT_SIZE_MAX,
        SIGNATURE + b"\x11\x11\0\x0c" + bytes(12),  # version 1
        SIGNATURE + b"\x22\x11\0\x0c" + bytes(12),  # neither LOCAL nor PROXY
        SIGNATURE + b"\x21\x11\0\x08" + bytes(8),  # too short for two addresses
        SIGNATURE + b"\x21\x11\xff\xff",
    ],
)
def test_a_connection_that_begins_otherwise_is_refused(data: bytes) -> None:
    with pytest.raises(ProxyError):
        read_proxy_header(data)
