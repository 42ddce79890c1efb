"""Packed hosts of both families; ids of places in the log, and unique keys that do not repeat."""

from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.addresses import (
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    UniqueKeyMaker,
    host_from_text,
    offset_message_id,
    pack_host,
    parse_offset_message_id,
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


IDS = [
    ("192.168.1.10:10911", 0, "C0A8010A00002A9F0000000000000000"),
    ("192.168.1.10:10911", 0x2BC, "C0A8010A00002A9F00000000000002BC"),
    ("[fe80::1]:10911", 0x1000, "FE80000000000000000000000000000100002A9F0000000000001000"),
    ("127.0.0.1:0", 2**63 - 1, "7F000001000000007FFFFFFFFFFFFFFF"),
]


def ms(year: int, month: int, day: int, hour: int = 0, milliseconds: int = 0) -> int:
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * 1_000 + milliseconds


def maker(address: bytes = b"\x7f\x00\x00\x01") -> UniqueKeyMaker:
    return UniqueKeyMaker(address=address, process_id=0x1_2345, random_bytes=b"\xa1\xb2\xc3\xd4")


def stamp(key: str) -> int:
    return int(key[20:28], 16)


@pytest.mark.parametrize(("host", "physical_offset", "text"), IDS)
def test_an_offset_id_is_host_and_offset_in_hex(host: str, physical_offset: int, text: str) -> None:
    assert offset_message_id(host_from_text(host), physical_offset) == text
    assert parse_offset_message_id(text) == (host_from_text(host), physical_offset)


@given(
    st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20)),
    st.integers(0, 2**63 - 1),
)
def test_every_offset_id_comes_back(host: bytes, physical_offset: int) -> None:
    text = offset_message_id(host, physical_offset)
    assert len(text) in (32, 56)
    assert parse_offset_message_id(text) == (host, physical_offset)
    assert parse_offset_message_id(text.lower()) == (host, physical_offset)


@pytest.mark.parametrize(
    "text",
    [
        "", "C0A8010A00002A9F000000000000000", "C0A8010A00002A9F00000000000000000",
        "C0A8010A00002A9F0000000000000000" + "0" * 8, "C0A8010A00002A9F 00000000000000 ",
        "C0A8010A00002A9F000000000000000G", "C0A8010A00002A9F000000000000000\n",
        "C0A8010A00002A9F00000000000000٣0", "C0A8010A00002A9F8000000000000000",
        "C0A8010A00002A9FFFFFFFFFFFFFFFFF",
    ],
)  # fmt: skip
def test_another_text_is_no_offset_id(text: str) -> None:
    assert parse_offset_message_id(text) is None


def test_a_unique_key_tells_where_and_when_it_was_made() -> None:
    key = maker().make(ms(2026, 11, 21, milliseconds=7))
    assert key == (
        "7F000001"  # address
        "2345"  # process id, its low 16 bits
        "A1B2C3D4"  # random
        "66FF3007"  # 20 days and 7 ms since the month began
        "0001"  # counter
    )
    assert stamp(key) == 20 * 86_400_000 + 7


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        (bytes.fromhex("fe800000000000000000000000000001"), "FE800000"),
        (b"\x01", "01000000"),
        (b"", "00000000"),
    ],
)
def test_four_bytes_of_any_address_are_used(address: bytes, prefix: str) -> None:
    key = maker(address).make(ms(2026, 1, 1))
    assert key[:8] == prefix
    assert len(key) == 32


def test_keys_differ_though_the_counter_goes_round() -> None:
    keys = maker()
    made = [keys.make(1_700_000_000_000) for _ in range(65_536)]
    assert len(set(made)) == 65_536
    second = keys.make(1_700_000_000_001)
    assert made[0][28:] == second[28:]
    assert made[0] != second


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ms(2026, 11, 30, 23, 3_599_999), ms(2026, 12, 1)),
        (ms(2026, 12, 31, 23, 3_599_999), ms(2027, 1, 1)),
        (ms(2028, 2, 29, 23, 3_599_999), ms(2028, 3, 1)),
    ],
)
def test_the_stamp_starts_again_with_the_month(before: int, after: int) -> None:
    keys = maker()
    assert stamp(keys.make(before)) > 28 * 86_400_000
    assert stamp(keys.make(after)) == 0


def test_a_clock_that_goes_back_over_the_month_is_followed() -> None:
    keys = maker()
    keys.make(ms(2026, 12, 1))
    assert stamp(keys.make(ms(2026, 11, 30, 23, 3_599_999))) == 30 * 86_400_000 - 1
