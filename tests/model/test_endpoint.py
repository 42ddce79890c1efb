"""An endpoint is a host, a port or both, as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model.endpoint import endpoint_from_text, leader_from_text


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("localhost", "localhost:8081"),
        ("broker.local:9000", "broker.local:9000"),
        (" 10.0.0.7 ", "10.0.0.7:8081"),
        ("9000", "127.0.0.1:9000"),
        (":9000", "127.0.0.1:9000"),
        ("::1", "[::1]:8081"),
        ("[::1]", "[::1]:8081"),
        ("[::1]:9000", "[::1]:9000"),
        ("fe80::1%eth0", "[fe80::1%eth0]:8081"),
        ("tls://broker.local", "tls://broker.local:8081"),
        (" tls://[::1]:9000", "tls://[::1]:9000"),
    ],
)
def test_what_is_not_said_is_the_default(text: str, endpoint: str) -> None:
    assert endpoint_from_text(text) == endpoint
    assert endpoint_from_text(endpoint) == endpoint


@pytest.mark.parametrize(
    "text",
    ["", ":", "a:", "a:http", "a b", "http://a:8081", "tls://", "tls://tls://a",
     "unix:/x", "::g", "[::1", "[a]:1", "[::1]9", "\udcff", "[::1]:"],
)  # fmt: skip
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT, such as localhost:8081"):
        endpoint_from_text(text)


@given(st.text(alphabet="ab1:[]./% ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        endpoint = endpoint_from_text(text)
    except ValueError:
        return
    assert endpoint_from_text(endpoint) == endpoint


@pytest.mark.parametrize(
    ("text", "leader"),
    [
        ("broker.local", "broker.local:8081"),
        ("tls://broker.local:9000", "tls://broker.local:9000"),
        (" rocketmq://10.0.0.1", "rocketmq://10.0.0.1:10911"),
        ("rocketmq://[::1]:9", "rocketmq://[::1]:9"),
    ],
)
def test_a_leader_may_be_a_master_of_rocketmq(text: str, leader: str) -> None:
    assert leader_from_text(text) == leader
    assert leader_from_text(leader) == leader


@pytest.mark.parametrize("text", ["rocketmq://", "rocketmq://tls://a", "tls://rocketmq://a"])
def test_schemes_of_leaders_are_not_combined(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|two schemes"):
        leader_from_text(text)


@pytest.mark.parametrize("text", ["a:0", "a:65536", "tls://a:99999", "65536", "[::1]:0"])
def test_a_port_out_of_range_is_named_so(text: str) -> None:
    with pytest.raises(ValueError, match="the port is not in the range 1 to 65535"):
        endpoint_from_text(text)
