"""Classic clients of a running broker: on its port and two below, unless they are switched off."""

import asyncio
import socket
from pathlib import Path

import pytest

from pocketmq.app.parts import settings_change
from pocketmq.config.live import LiveConfig
from pocketmq.config.load import load
from pocketmq.wire.remoting import Command, CommandReader, encode
from tests.running_broker import broker_with

QUERY = encode(Command(105, {"topic": "TBW102"}, opaque=3))


async def reply_of(address: str) -> Command | None:
    """Returns the reply to a query of a route, None if the connection is closed."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(QUERY)
    async with asyncio.timeout(20):
        head = await reader.read(4)
        rest = await reader.readexactly(int.from_bytes(head)) if head else b""
    writer.close()
    found = CommandReader(lambda code: 0).receive(head + rest)
    assert len(found) < 2
    return found[0] if found and isinstance(found[0], Command) else None


def free_pair() -> int:
    """Returns a port that is free together with the one two below."""
    while True:
        with socket.socket() as above, socket.socket() as below:
            above.bind(("127.0.0.1", 0))
            port: int = above.getsockname()[1]
            try:
                below.bind(("127.0.0.1", port - 2))
            except OSError:
                continue
            return port


@pytest.mark.knob("rpc.classic")
@pytest.mark.parametrize(("value", "is_served"), [("auto", True), ("on", True), ("off", False)])
async def test_they_are_served_unless_they_are_off(
    tmp_path: Path, value: str, is_served: bool
) -> None:
    async with broker_with(tmp_path, f"rpc.classic={value}") as broker:
        reply = await reply_of(broker.addresses["grpc"])
    assert (reply is not None) == is_served


@pytest.mark.knob("rpc.classic_vip")
@pytest.mark.parametrize("value", ["true", "false"])
async def test_the_port_two_below_is_theirs_too(tmp_path: Path, value: str) -> None:
    port = free_pair()
    given = (f"rpc.listen=127.0.0.1:{port}", f"rpc.classic_vip={value}")
    async with broker_with(tmp_path, *given) as broker:
        below = f"127.0.0.1:{port - 2}" if value == "true" else None
        assert broker.addresses["classic_vip"] == below
        try:
            reply = await reply_of(f"127.0.0.1:{port - 2}")
        except ConnectionRefusedError:
            reply = None
        assert await reply_of(f"127.0.0.1:{port}") is not None
    assert (reply is not None) == (value == "true")


async def test_a_port_two_below_that_is_taken_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_pair()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port - 2))
        other.listen()
        async with broker_with(tmp_path, f"rpc.listen=127.0.0.1:{port}"):
            assert await reply_of(f"127.0.0.1:{port}") is not None
    doubts = [vars(one)["doubt"] for one in caplog.records if one.getMessage() == "config.suspect"]
    assert len(doubts) == 1
    assert f"127.0.0.1:{port - 2} is not served" in doubts[0]
    assert "rpc.classic_vip" in doubts[0]


async def test_an_advertised_address_is_what_clients_get(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "broker.advertised_port=4711") as broker:
        reply = await reply_of(broker.addresses["grpc"])
    assert reply is not None
    assert b'{"0":"127.0.0.1:4711"}' in reply.body


@pytest.mark.parametrize(
    ("check", "is_checked", "is_possible"),
    [("off", False, True), ("auto", False, False), ("users", False, False), ("auto", True, True)],
)
def test_settings_are_changed_by_admins_or_where_access_control_is_off(
    check: str, is_checked: bool, is_possible: bool
) -> None:
    live = LiveConfig(load(assignments=[f"access.check={check}"]))
    assert (settings_change(live, is_checked=is_checked) is not None) == is_possible
