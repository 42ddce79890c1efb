"""A socket that a supervisor hands over is taken once, by the process it is for, or refused."""

import os
import socket
from pathlib import Path

import pytest

from pocketmq.app.inherited import address_of, inherited_socket
from pocketmq.app.stage import Stage
from pocketmq.client import Message
from pocketmq.model.errors import IllegalConfig
from tests.running_broker import broker_with

ME = str(os.getpid())


def test_the_socket_is_taken_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        handed = os.dup(listening.fileno())
        environment = {"LISTEN_FDS": "1", "LISTEN_PID": ME, "LISTEN_FDNAMES": "x", "HOME": "/"}
        found = inherited_socket(environment, handed)
        assert found is not None
        assert address_of(found) == f"127.0.0.1:{listening.getsockname()[1]}"
        assert not os.get_inheritable(found.fileno())
        found.close()
    assert environment == {"HOME": "/"}
    assert inherited_socket(environment) is None


def test_what_is_for_somebody_else_is_left_alone() -> None:
    for count, process in (("1", "1"), ("", ME), ("0", ME)):
        assert inherited_socket({"LISTEN_FDS": count, "LISTEN_PID": process}) is None


@pytest.mark.parametrize("count", ["2", "many"])
def test_more_than_one_is_refused(count: str) -> None:
    with pytest.raises(IllegalConfig, match=r"accepts one, for rpc\.listen"):
        inherited_socket({"LISTEN_FDS": count, "LISTEN_PID": ME})


def test_what_is_no_socket_or_does_not_listen_is_refused(tmp_path: Path) -> None:
    given = {"LISTEN_FDS": "1", "LISTEN_PID": ME}
    with (tmp_path / "file").open("w") as file, pytest.raises(IllegalConfig, match="descriptor"):
        inherited_socket(dict(given), file.fileno())
    with socket.socket() as idle, pytest.raises(IllegalConfig, match="no socket that listens"):
        inherited_socket(dict(given), idle.fileno())


async def test_a_broker_serves_who_comes_to_it(tmp_path: Path) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listening:
        stage = Stage(listening=listening.dup())
        async with broker_with(tmp_path / "store", stage=stage) as broker:
            assert broker.addresses["grpc"] == f"[::1]:{listening.getsockname()[1]}"
            assert await broker.client.send_many([Message("orders", b"x")])


async def test_only_our_own_transport_takes_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stage = Stage(listening=listening.dup())
        with pytest.raises(IllegalConfig, match="LISTEN_FDS"):
            async with broker_with(tmp_path / "store", "rpc.transport=grpcio", stage=stage):
                pass
