"""The addresses a broker listens on decide whether callers are authenticated, not its settings."""

import re
import socket
from pathlib import Path

import pytest

from pocketmq.app.ports import BoundAddress, Ports
from pocketmq.app.stage import Stage
from pocketmq.client import AsyncClient, Message
from pocketmq.client.client_error import ClientError
from pocketmq.config.load import load
from pocketmq.model.access import User
from pocketmq.model.errors import IllegalConfig
from pocketmq.rpc.replication.slave_port import SlavePort
from pocketmq.tools.users import changed_roster
from tests.kit.users import SECRET
from tests.running_broker import broker_with

LOOPBACK = "127.0.0.1:8081"


def handed(host: str) -> Stage:
    """Returns a stage whose socket a supervisor bound to this host, on any port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return Stage(listening=socket.create_server((host, 0), family=family))


def why_open(address: str, *assignments: str, setting: str = "rpc.listen") -> str:
    """Returns why a port is open, "" for one that only this machine reaches."""
    ports = Ports("localhost:8081", (BoundAddress(setting, address),), None, SlavePort(()))
    found = ports.opened(load(assignments=assignments))
    assert all(key == setting for key, _ in found)
    return "; ".join(why for _, why in found)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_a_socket_handed_over_that_others_reach_needs_users(
    tmp_path: Path, host: str
) -> None:
    with pytest.raises(IllegalConfig) as caught:
        async with broker_with(tmp_path, stage=handed(host)):
            pass
    assert re.match(r"setting LISTEN_FDS: \S+ is reached from other machines", str(caught.value))
    assert f"pocketmq user add admin --admin --store {tmp_path}" in str(caught.value)
    assert "--insecure" in str(caught.value)


async def test_a_stranger_makes_no_user_through_a_socket_handed_over(tmp_path: Path) -> None:
    with changed_roster(tmp_path) as roster:
        roster.add(User("admin", SECRET, is_admin=True))
    async with broker_with(tmp_path, stage=handed("0.0.0.0")) as broker:
        with pytest.raises(ClientError, match="no signature"):
            await broker.client.admin.access.create_user("mallory", "m" * 24, admin=True)
        endpoint = broker.addresses["grpc"]
        async with AsyncClient(endpoint, access_key="admin", secret_key=SECRET) as admin:
            users, _ = await admin.admin.access.list_users()
            assert [user.access_key for user in users] == ["admin"]


async def test_a_loopback_socket_is_asked_by_nobody_whatever_the_setting_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = handed("127.0.0.1")
    async with broker_with(
        tmp_path, "rpc.listen=0.0.0.0:0", "rpc.classic_vip=false", stage=stage
    ) as broker:
        assert await broker.client.send_many([Message("orders", b"x")])
    doubts = [vars(one)["doubt"] for one in caplog.records if one.getMessage() == "config.suspect"]
    address = broker.addresses["grpc"]
    assert doubts == [f"rpc.listen has no effect: LISTEN_FDS passed {address}"]


@pytest.mark.parametrize("address", [LOOPBACK, "127.8.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"])
def test_loopback_is_this_machine_alone(address: str) -> None:
    assert not why_open(address)
    assert not why_open(address, "broker.advertised_host=127.0.0.1")


@pytest.mark.parametrize(
    "address", ["0.0.0.0:1", "[::]:1", "[::ffff:0.0.0.0]:1", "10.0.0.7:1", "[fe80::1%eth0]:1"]
)
@pytest.mark.parametrize("setting", ["rpc.listen", "LISTEN_FDS", "http.listen"])
def test_any_other_address_is_reached_from_elsewhere(address: str, setting: str) -> None:
    assert why_open(address, setting=setting) == f"{address} is reached from other machines"


@pytest.mark.parametrize(
    "assignment", ["rpc.proxy_protocol=true", "broker.advertised_host=192.0.2.7"]
)
def test_loopback_behind_a_proxy_is_reached_from_elsewhere(assignment: str) -> None:
    assert assignment.partition("=")[0] in why_open(LOOPBACK, assignment)
    assert not why_open(LOOPBACK, assignment, setting="http.listen")


async def test_the_names_of_the_certificate_are_those_of_the_socket(tmp_path: Path) -> None:
    given = ("rpc.listen=192.0.2.9:8081",)
    async with broker_with(tmp_path, *given, stage=handed("127.0.0.5")):
        pass
    from pocketmq.app.certificate import shown

    tls = tmp_path / "pocketmq" / "tls"
    names = shown(tls / "certificate.pem", tls / "key.pem").names
    assert "127.0.0.5" in names
    assert "192.0.2.9" not in names


@pytest.mark.parametrize("transport", ["own", "grpcio"])
async def test_a_name_counts_as_what_it_resolves_to(tmp_path: Path, transport: str) -> None:
    given = ("rpc.listen=localhost:0", f"rpc.transport={transport}")
    async with broker_with(tmp_path, *given) as broker:
        assert broker.addresses["grpc"].startswith("localhost:")
        assert await broker.client.send_many([Message("orders", b"x")])
