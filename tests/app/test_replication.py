"""The settings of replication, turned on whole brokers."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from struct import Struct

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from harness.inside import opened_broker
from pocketmq.client import ClientError, Message
from pocketmq.files.disk import Disk
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.replication import ReplicationStatus
from pocketmq.services.replication.handshake import LeaderAnswer, encode_answer
from pocketmq.services.replication.roles import HEALTHY_LAG_BYTES
from pocketmq.store.tables.terms import Fence, TermTable
from tests.cli.command_line import run
from tests.kit.store_broker import connected
from tests.running_broker import broker_with
from tests.sim.clock import FakeClock

HEAD, REPORT = Struct(">qi"), Struct(">q")


pytestmark = pytest.mark.timeout(40)


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


@pytest.mark.knob("replication.in_sync_replicas", "replication.count_legacy_acks")
@pytest.mark.parametrize(("is_counted", "status"), [(True, "OK"), (False, "REPLICA_NOT_AVAILABLE")])
async def test_a_message_is_acknowledged_once_a_slave_that_counts_has_it(
    tmp_path: Path, is_counted: bool, status: str
) -> None:
    port = free_port()
    settings = (
        f"replication.listen=127.0.0.1:{port}", "replication.in_sync_replicas=2",
        f"replication.count_legacy_acks={str(is_counted).lower()}",
        "replication.ack_timeout_ms=500ms",
    )  # fmt: skip
    async with broker_with(tmp_path, *settings) as broker:
        refused = pytest.raises(ClientError, match="0 of 1 followers")
        with nullcontext() if is_counted else refused:
            await broker.client.admin.create_topic("orders")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REPORT.pack(0))
        replication = broker.client.admin.replication
        while not any(r.acknowledged_offset == 0 for r in (await replication.status()).replicas):
            pass
        sending = asyncio.create_task(broker.client.send(Message("orders", b"copied")))
        if is_counted:
            begin, size_bytes = HEAD.unpack(await reader.readexactly(HEAD.size))
            await reader.readexactly(size_bytes)
            writer.write(REPORT.pack(begin + size_bytes))
        assert (await sending).status.name == status
        writer.transport.abort()


@pytest.mark.knob("replication.ack_timeout_ms")
async def test_a_producer_is_told_of_a_slow_follower_in_that_time(tmp_path: Path) -> None:
    port = free_port()
    settings = (
        f"replication.listen=127.0.0.1:{port}", "replication.in_sync_replicas=2",
        "replication.count_legacy_acks=true", "replication.ack_timeout_ms=20ms",
    )  # fmt: skip
    async with broker_with(tmp_path, *settings) as broker:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REPORT.pack(0))
        receipt = await broker.client.send(Message("orders", b"copied"))
        while receipt.status.name == "REPLICA_NOT_AVAILABLE":  # It is not known yet.
            receipt = await broker.client.send(Message("orders", b"copied"))
        assert receipt.status.name == "FLUSH_REPLICA_TIMEOUT"
        writer.transport.abort()


@pytest.mark.knob("replication.all_in_sync")
@pytest.mark.parametrize("is_all", [False, True])
async def test_all_followers_are_waited_for_or_as_many_as_needed(
    tmp_path: Path, is_all: bool
) -> None:
    assignments = [
        f"store.directory={tmp_path}", "replication.in_sync_replicas=2",
        f"replication.all_in_sync={str(is_all).lower()}",
    ]  # fmt: skip
    async with opened_broker(assignments, FakeClock()) as (store, parts, _):
        store.marks.append(100, 1)
        store.marks.commit(100, 1)
        store.marks.flush(100, 1)
        parts.leader.confirming.sends(100, 1)
        parts.leader.confirming.look([("fast", 100), ("slow", 0)])
        assert store.marks.visible().value == (0 if is_all else 100)


async def played_leader(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers a hello as a leader whose log has 5 bytes more than a follower may lack."""
    await reader.read(1 << 16)
    writer.write(
        encode_answer(LeaderAnswer(0, "s1", 0, 0, HEALTHY_LAG_BYTES + 5, "b", "c", "10.0.0.1:8081"))
    )
    await reader.read()
    writer.transport.abort()


async def test_a_follower_that_lags_too_far_is_no_healthy_replica(tmp_path: Path) -> None:
    async with await asyncio.start_server(played_leader, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        async with broker_with(tmp_path, f"replication.leader={host}:{port}") as broker:
            while not (await broker.client.admin.replication.status()).connected:
                pass
            async with connected(broker.addresses["grpc"]) as channel:
                check = channel.unary_unary(
                    "/grpc.health.v1.Health/Check",
                    HealthCheckRequest.SerializeToString, HealthCheckResponse.FromString,
                )  # fmt: skip
                answer = await check(HealthCheckRequest(service="replica"), timeout=10)
            assert answer.status == HealthCheckResponse.NOT_SERVING


async def test_a_drain_ends_the_broker(tmp_path: Path) -> None:
    async with broker_with(tmp_path) as broker:
        await broker.client.admin.drain()
        assert await asyncio.wait_for(broker.serving, 10) == 0


async def test_a_broker_changes_its_role_there_and_back_on_the_same_port(tmp_path: Path) -> None:
    async with broker_with(tmp_path) as broker:
        replication = broker.client.admin.replication
        await broker.client.send(Message("orders", b"of the first term"))
        await replication.follow("127.0.0.1:1", force=True)
        found = await in_role("follower", replication.status)
        assert (found.leader, found.connected) == ("127.0.0.1:1", False)
        async with asyncio.timeout(20):
            while not found.trouble:
                found = await replication.status()
        assert found.trouble == "connection refused"
        with pytest.raises(ClientError, match=r"127\.0\.0\.1:1"):
            await broker.client.send(Message("orders", b"refused"))
        epoch, begin = await replication.promote()
        assert (epoch, begin) == (1, found.appended_offset)
        await in_role("leader", replication.status)
        receipt = await broker.client.send(Message("orders", b"of the second term"))
        assert receipt.physical_offset == begin
        assert not broker.serving.done()


@pytest.mark.parametrize("is_copied", [True, False])
async def test_a_promotion_fences_the_old_leader_which_then_follows(
    tmp_path: Path, is_copied: bool
) -> None:
    """Also one that shares no record with its follower."""
    async with broker_with(tmp_path / "a") as old:
        follows = f"replication.leader={old.addresses['grpc']}"
        async with broker_with(tmp_path / "b", follows) as new:
            roles, others = old.client.admin.replication, new.client.admin.replication
            await until_so(others.status, lambda found: found.connected)
            if is_copied:
                await old.client.send(Message("orders", b"of both"))
                await until_so(others.status, lambda found: found.appended_offset > 0)
            with pytest.raises(ClientError, match="is alive; demote that one first"):
                await others.promote()
            _, begin = await others.promote(force=True)
            if not is_copied:
                with suppress(ClientError):
                    await old.client.send(Message("orders", b"of the old one alone"))
            fenced = await in_role("fenced", roles.status)
            assert (fenced.leader, fenced.fenced_from) == (new.addresses["grpc"], begin)
            with pytest.raises(
                ClientError, match=f"send them to its leader, {new.addresses['grpc']}"
            ):
                await old.client.send(Message("orders", b"refused"))
            await in_role("leader", others.status)
            receipt = await new.client.send(Message("orders", b"of the new leader"))
            assert receipt.physical_offset == begin
            assert is_copied == (begin > 0)
            await roles.follow(new.addresses["grpc"])
            found = await until_so(roles.status, lambda found: found.connected)
            assert (found.role, found.epoch) == ("follower", 1)
            await until_so(roles.status, lambda found: found.appended_offset > begin)


@pytest.mark.parametrize("is_cut", [False, True])
async def test_messages_that_only_a_former_leader_has_are_listed(
    tmp_path: Path, is_cut: bool
) -> None:
    """Behind its fence, and then among the bytes that it set aside."""
    place = tmp_path / "a"
    async with broker_with(place) as old:
        follows = f"replication.leader={old.addresses['grpc']}"
        async with broker_with(tmp_path / "b", follows) as new:
            await until_so(new.client.admin.replication.status, lambda found: found.connected)
        for number in range(3):
            await old.client.send(Message("orders", b"%d" % number, keys=[f"k{number}"]))
        await old.client.send(Message("others", b"x"))
        await old.client.send(Message("orders", b"later", delay_ms=3_600_000))
    async with broker_with(tmp_path / "b", follows) as new:
        epoch, begin = await new.client.admin.replication.promote()
        TermTable(Disk(), place).shut(Fence(epoch, begin, new.addresses["grpc"]))
        if is_cut:
            await in_role("leader", new.client.admin.replication.status)
            await new.client.send(Message("orders", b"of the new leader"))
            async with broker_with(place) as old:
                roles = old.client.admin.replication
                await roles.follow(new.addresses["grpc"])
                await until_so(roles.status, lambda found: found.connected)
    found = run("store", "diverged", str(place), "--topic", "orders", "-o", "jsonl").rows
    assert [(row["body_text"], row["keys"]) for row in found] == [
        ("0", ["k0"]), ("1", ["k1"]), ("2", ["k2"])
    ]  # fmt: skip
    assert {*found[0]} >= {"topic", "queue_id", "queue_offset", "message_id", "store_timestamp_ms"}
    assert run("store", "diverged", str(place), "--count").document == {"messages": 4}
    assert run("store", "diverged", str(place), "--count", "--system").document == {"messages": 5}
    assert len(run("store", "diverged", str(place), "-n", "2", "-o", "jsonl").rows) == 2


def test_a_store_that_never_diverged_has_no_such_messages(tmp_path: Path) -> None:
    async def fill() -> None:
        async with broker_with(tmp_path) as broker:
            await broker.client.send(Message("orders", b"x"))

    asyncio.run(fill())
    assert run("store", "diverged", str(tmp_path)).code == 3
    (tmp_path / "pocketmq" / "terms.json").write_text('{"fence": [1]}')
    assert "no offset" in run("store", "diverged", str(tmp_path)).err


async def test_a_fence_outlasts_a_restart(tmp_path: Path) -> None:
    terms = TermTable(Disk(), tmp_path)
    terms.shut(Fence(3, 900, "10.0.0.2:8081"))
    async with broker_with(tmp_path) as broker:
        found = await broker.client.admin.replication.status()
        assert (found.role, found.leader) == ("fenced", "10.0.0.2:8081")
        with pytest.raises(ClientError, match=r"send them to its leader, 10\.0\.0\.2:8081"):
            await broker.client.send(Message("orders", b"refused"))


async def until_so(
    ask: Callable[[], Awaitable[ReplicationStatus]], is_so: Callable[[ReplicationStatus], bool]
) -> ReplicationStatus:
    """Asks until a status is as wanted; a broker that changes its role gives no answer."""
    while True:
        with suppress(ClientError):
            if is_so(found := await ask()):
                return found


async def in_role(role: str, ask: Callable[[], Awaitable[ReplicationStatus]]) -> ReplicationStatus:
    """Asks until the broker has a role."""
    return await until_so(ask, lambda found: found.role == role)
