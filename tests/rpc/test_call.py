"""Encoding of a peer's address in records, and the id of a call."""

from contextvars import copy_context

import pytest

from pocketmq.format.addresses import text_from_host
from pocketmq.rpc.call import NO_HOST, begin_request, current_request_id, host_from_peer


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


class Asked:
    """A call whose client sent this id; counts how often it is asked for it."""

    def __init__(self, given: str | None) -> None:
        self.given = given
        self.count = 0

    def metadata(self, name: str) -> str | None:
        assert name == "x-request-id"
        self.count += 1
        return self.given


def id_of(call: Asked) -> str:
    """Returns the id of a call as those see it who serve it."""

    def serve() -> str:
        begin_request(call.metadata)
        assert call.count == 0
        assert current_request_id() == current_request_id()
        return current_request_id()

    return copy_context().run(serve)


def test_a_call_goes_by_the_id_its_client_gave() -> None:
    call = Asked("order 42/try-1")
    assert id_of(call) == "order 42/try-1"
    assert call.count == 1
    assert current_request_id() == ""


@pytest.mark.parametrize("given", [None, "", "x" * 129, "a\nb", "grün", "\x7f"])
def test_a_call_without_a_usable_id_gets_one(given: str | None) -> None:
    first, second = id_of(Asked(given)), id_of(Asked(given))
    assert first != second
    assert given not in (first, second)
    assert first.isascii()
