"""Settings become addresses of this machine, and a free port stays free until it is taken."""

import socket
from ipaddress import IPv4Address, IPv6Address

import pytest

from pocketmq.config.addresses import advertised_address, held_port, own_address, split_address
from pocketmq.config.sections import BrokerSection
from pocketmq.model.errors import IllegalConfig


def test_an_address_is_a_host_and_a_port() -> None:
    assert split_address("127.0.0.1:8081") == ("127.0.0.1", 8081)
    assert split_address("[::1]:0") == ("::1", 0)


def test_a_port_that_is_given_is_left_to_whoever_listens() -> None:
    with held_port("no.such.host.invalid:8081") as address:
        assert address == "no.such.host.invalid:8081"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0"])
def test_port_0_becomes_a_free_port(host: str) -> None:
    with held_port(f"{host}:0") as address:
        assert address.startswith(f"{host}:")
        assert split_address(address)[1] > 0


def test_nobody_gets_a_port_that_is_held_but_who_knows_it() -> None:
    with held_port("127.0.0.1:0") as address:
        place = split_address(address)
        with pytest.raises(OSError, match="in use"), socket.socket() as other:
            other.bind(place)
        with socket.create_server(place):
            pass


def test_a_host_of_another_machine_is_refused() -> None:
    with pytest.raises(IllegalConfig, match=r"198\.51\.100\.1:0"), held_port("198.51.100.1:0"):
        pass


def test_the_address_bound_is_told_unless_another_is_configured() -> None:
    bound = "127.0.0.1:8081"
    loopback = IPv4Address("127.0.0.1")
    assert advertised_address(BrokerSection(), bound) == (loopback, 8081)
    configured = BrokerSection(advertised_host="10.0.0.7", advertised_port=10_911)
    assert advertised_address(configured, bound) == (IPv4Address("10.0.0.7"), 10_911)
    only_port = BrokerSection(advertised_port=10_911)
    assert advertised_address(only_port, bound) == (loopback, 10_911)


def test_an_ipv6_address_is_told_as_one() -> None:
    assert advertised_address(BrokerSection(), "[::1]:1") == (IPv6Address("::1"), 1)


def test_who_listens_everywhere_tells_the_machines_own_address() -> None:
    address, port = advertised_address(BrokerSection(), "0.0.0.0:8081")
    assert (address, port) == (own_address(), 8081)
    assert not address.is_unspecified


def test_a_host_without_an_address_is_refused() -> None:
    with pytest.raises(IllegalConfig, match="invalid"):
        advertised_address(BrokerSection(), "no.such.host.invalid:1")


def test_an_advertised_address_that_cannot_be_used_is_named_by_its_own_setting() -> None:
    broker = BrokerSection(advertised_host="fe80::1%no-such-interface")
    with pytest.raises(IllegalConfig, match=r"broker\.advertised_host: fe80::1%no-such-interface"):
        advertised_address(broker, "127.0.0.1:8081")


def test_a_machine_without_a_network_is_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: socket.socket, place: object) -> None:
        raise OSError

    monkeypatch.setattr(socket.socket, "connect", fail)
    assert own_address() == IPv4Address("127.0.0.1")
