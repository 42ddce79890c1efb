"""Packed hosts: address and port of both families, from text and back."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.format.hosts import (
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    host_from_text,
    pack_host,
    text_from_host,
)

PAIRS = [
    ("192.168.1.10:10911", "c0a8010a" + "00002a9f"),
    ("127.0.0.1:54321", "7f000001" + "0000d431"),
    ("0.0.0.0:0", "00000000" + "00000000"),
    ("255.255.255.255:65535", "ffffffff" + "0000ffff"),
    ("[::1]:10911", "00000000000000000000000000000001" + "00002a9f"),
    ("[fe80::1]:54321", "fe800000000000000000000000000001" + "0000d431"),
]


@pytest.mark.parametrize(("text", "packed"), PAIRS)
def test_a_host_as_text_and_as_bytes(text: str, packed: str) -> None:
    assert host_from_text(text).hex() == packed
    assert text_from_host(bytes.fromhex(packed)) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
        ("[fe80::1%eth0]:80", "[fe80::1]:80"),
        ("[0:0:0:0:0:0:0:1]:80", "[::1]:80"),
        ("10.0.0.1:080", "10.0.0.1:80"),
    ],
)
def test_other_ways_to_write_a_host(text: str, same: str) -> None:
    assert host_from_text(text) == host_from_text(same)


@pytest.mark.parametrize(
    "text",
    [
        "", ":", "10.0.0.1", "10.0.0.1:", ":80", "localhost:80", "10.0.0.1:65536", "10.0.0.1:-1",
        "10.0.0.1:+80", "10.0.0.1: 80", "10.0.0.1:8_0", "10.0.0.1:0x50", "10.0.0.256:80",
        "10.0.0:80", "[::1]", "[::1]:", "[::1:80", "::1]:80", "[]:80", "10.0.0.1:²",
    ],
)  # fmt: skip
def test_other_text_is_no_host(text: str) -> None:
    with pytest.raises(ValueError):
        host_from_text(text)


@given(st.ip_addresses(), st.integers(0, 65_535))
def test_every_host_comes_back(address: IPv4Address | IPv6Address, port: int) -> None:
    packed = pack_host(address, port)
    mapped = getattr(address, "ipv4_mapped", None) is not None
    assert len(packed) == (IPV4_HOST_SIZE if mapped or address.version == 4 else IPV6_HOST_SIZE)
    assert host_from_text(text_from_host(packed)) == packed


def test_a_mapped_address_is_the_address_it_maps() -> None:
    assert pack_host(ip_address("::ffff:1.2.3.4"), 5) == pack_host(ip_address("1.2.3.4"), 5)


def test_a_port_of_another_writer_is_shown_as_it_stands() -> None:
    assert text_from_host(bytes.fromhex("7f000001" + "0001ffff")) == "127.0.0.1:131071"
