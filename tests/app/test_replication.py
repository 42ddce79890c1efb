"""The settings of replication, turned on whole brokers."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from struct import Struct

import pytest

from harness.inside import opened_broker
from pocketmq.client import Message
from pocketmq.model.message import OFFSET_MAX
from tests.running_broker import broker_with
from tests.sim.clock import FakeClock

HEAD, REPORT = Struct(">qi"), Struct(">q")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.knob("replication.listen", "replication.peers")
@pytest.mark.parametrize(("peers", "is_served"), [("127.0.0.1", True), ("10.0.0.0/8", False)])
async def test_a_slave_of_a_named_network_gets_the_log(
    tmp_path: Path, peers: str, is_served: bool
) -> None:
    port = free_port()
    settings = (f"replication.listen=127.0.0.1:{port}", f"replication.peers={peers}")
    async with broker_with(tmp_path, *settings) as broker:
        await broker.client.send(Message("orders", b"copied"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REPORT.pack(0))
        if is_served:
            begin, size_bytes = HEAD.unpack(await reader.readexactly(HEAD.size))
            content = await reader.readexactly(size_bytes)
            assert (begin, b"copied" in content) == (0, True)
        else:
            with suppress(ConnectionResetError):  # What was sent to a closed connection resets it.
                assert await reader.read() == b""
        writer.transport.abort()


@pytest.mark.knob("replication.lag_max_bytes")
@pytest.mark.parametrize(("limit", "floor"), [("1KiB", 0), ("1", OFFSET_MAX)])
async def test_the_log_is_kept_for_a_slave_up_to_the_limit(
    tmp_path: Path, limit: str, floor: int
) -> None:
    assignments = [f"store.directory={tmp_path}", f"replication.lag_max_bytes={limit}"]
    async with opened_broker(assignments, FakeClock()) as (store, parts, _):
        assert parts.leader.floor() == OFFSET_MAX
        stream = parts.leader.connect("127.0.0.1:5000")
        parts.leader.receive(stream, REPORT.pack(0))
        store.marks.append(100, 1)
        store.marks.commit(100, 1)
        store.marks.flush(100, 1)
        assert parts.leader.floor() == floor
        parts.leader.disconnect(stream, "the test ends")
