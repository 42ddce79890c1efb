"""What a peer text becomes in a record."""

import pytest

from broker.format.hosts import text_from_host
from broker.rpc.call import NO_HOST, host_from_peer


@pytest.mark.parametrize(
    ("peer", "text"),
    [
        ("ipv4:10.1.2.3:4711", "10.1.2.3:4711"),
        ("ipv6:%5B::1%5D:80", "[::1]:80"),
        ("ipv6:[fe80::1%25eth0]:80", "[fe80::1]:80"),
        ("ipv6:%5B::ffff:10.1.2.3%5D:80", "10.1.2.3:80"),
    ],
)
def test_addresses_are_packed(peer: str, text: str) -> None:
    assert text_from_host(host_from_peer(peer)) == text


@pytest.mark.parametrize("peer", ["unix:/run/x", "unix-abstract:x", "", "ipv4:nonsense", "ipv4:"])
def test_peers_without_an_address_have_a_stand_in(peer: str) -> None:
    assert host_from_peer(peer) == NO_HOST
    assert text_from_host(NO_HOST) == "127.0.0.1:0"
