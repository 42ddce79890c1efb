"""The port of slaves: sockets over a real store whose disk is simulated."""

import asyncio
import logging
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest

from pocketmq.model.errors import AddressUnavailable
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.step import Now
from pocketmq.rpc.replication.slave_port import SlavePort
from pocketmq.services.replication.leader import KEEP_MS
from pocketmq.services.replication.protocol import HEARTBEAT_MS, SILENCE_MAX_MS
from tests.kit.gauges import shown_by
from tests.kit.slaves import LAG_MAX, LOCAL, Pair, serving
from tests.kit.store_language import turns, until


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with serving() as made:
        yield made


async def test_a_slave_gets_what_is_there_and_what_comes(pair: Pair) -> None:
    await pair.broker.add("orders", b"before")
    slave = await pair.slave()
    await slave.copy_upto(pair.broker.store.flushed)
    await pair.broker.add("orders", b"after", queue_id=1)
    await slave.copy_upto(pair.broker.store.flushed)
    assert slave.log == pair.log
    assert slave.log.count(b"before") == slave.log.count(b"after") == 1
    await until(lambda: pair.leader.rows()[0].lag_bytes == 0)


async def test_a_slave_gets_nothing_that_is_not_flushed(pair: Pair) -> None:
    slave = await pair.slave()
    await pair.broker.talking.send("orders", "unflushed", wait=False)
    assert pair.broker.store.appended > pair.broker.store.flushed == 0
    assert pair.leader.next_piece(next(iter(pair.leader.streams()))) is None
    await pair.broker.store.flush()
    await slave.copy_upto(pair.broker.store.flushed)
    assert b"unflushed" in slave.log


def lag_seconds(pair: Pair) -> float:
    """Returns what metrics show for the only slave."""
    (seconds,) = shown_by(pair.leader.stats, "pocketmq_replica_lag_seconds").values()
    return seconds


async def test_the_lag_of_a_slave_is_the_time_since_it_had_all(pair: Pair) -> None:
    slave = await pair.slave()
    pair.pass_time(2_000)
    assert lag_seconds(pair) == 0
    await pair.broker.add("orders", b"a")
    first = pair.broker.store.flushed
    await slave.take_upto(first)
    pair.pass_time(1_000)
    await pair.broker.add("orders", b"b")
    second = pair.broker.store.flushed
    await slave.take_upto(second)
    pair.pass_time(500)
    assert lag_seconds(pair) == 1.5
    slave.report(first)
    await until(lambda: pair.leader.rows()[0].acknowledged == first)
    pair.pass_time(500)
    assert lag_seconds(pair) == 2.0, "since a is not since b"
    slave.report(second)
    await until(lambda: pair.leader.rows()[0].acknowledged == second)
    assert lag_seconds(pair) == 0


async def test_files_are_copied_with_the_blanks_at_their_ends(pair: Pair) -> None:
    size = pair.broker.store.log.file_size_bytes
    for number in range(5):
        await pair.broker.add("orders", bytes([65 + number]) * (size // 2 - 300))
    slave = await pair.slave()
    await slave.copy_upto(pair.broker.store.flushed)
    assert len(slave.log) > 2 * size
    files = range(0, len(slave.log), size)
    held = b"".join(pair.broker.store.log.read(base, size) for base in files)
    assert slave.log == held[: len(slave.log)]


async def test_a_quiet_leader_sends_heartbeats(pair: Pair) -> None:
    await pair.broker.add("orders", b"a")
    end = pair.broker.store.flushed
    slave = await pair.slave(end)
    for _ in range(3):
        pair.pass_time(HEARTBEAT_MS)
        assert await slave.frame() == (end, b"")
        slave.report(end)


async def test_the_step_of_an_idle_leader_is_called_when_a_slave_comes(pair: Pair) -> None:
    asked = pair.leader.step(Now(0, 0))
    assert asked.mark is not None
    called = asyncio.ensure_future(asked.mark.reached(asked.value))
    await pair.slave()
    assert await called is True
    now_ms = pair.broker.clock.monotonic_ms()
    again = pair.leader.step(Now(now_ms, 0))
    assert again.at_ms is not None
    assert again.at_ms <= now_ms + HEARTBEAT_MS


async def test_a_silent_slave_is_disconnected(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    slave = await pair.slave()
    with caplog.at_level(logging.WARNING):
        pair.pass_time(SILENCE_MAX_MS + 1)
        assert await slave.is_cut()
    assert "silent" in caplog.records[-1].reason  # type: ignore[attr-defined]


async def test_a_slave_that_stops_reading_is_disconnected(pair: Pair) -> None:
    for _ in range(60):
        await pair.broker.add("orders", bytes(200_000))
    await pair.slave()
    sent = -1
    while sent < (sent := pair.leader.rows()[0].sent):  # Until the sockets are full.
        await turns(200)
    assert sent < pair.broker.store.flushed, "all of it was taken"
    pair.pass_time(SILENCE_MAX_MS + 1)
    async with asyncio.timeout(5):
        await until(lambda: not pair.leader.streams())


async def test_a_stop_does_not_wait_for_a_slave_that_stops_reading(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(60):
        await pair.broker.add("orders", bytes(200_000))
    await pair.slave()
    await turns(2_000)
    async with asyncio.timeout(5):
        await pair.port.close()
    assert not pair.leader.streams()
    assert [one.message for one in caplog.records] == ["replica.disconnected"]


async def test_a_slave_that_lies_is_disconnected_and_counts_for_nothing(pair: Pair) -> None:
    slave = await pair.slave()
    slave.report(2**60)
    assert await slave.is_cut()
    assert all(not row.is_connected for row in pair.leader.rows())


async def test_a_slave_with_more_is_refused_and_the_log_says_why(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    slave = await pair.slave(first=None)
    slave.report(5)
    assert await slave.is_cut()
    refused = [one for one in caplog.records if one.message == "replica.refused"]
    assert "this broker only up to 0" in refused[0].reason  # type: ignore[attr-defined]
    assert pair.leader.rows() == []


async def test_addresses_outside_the_networks_are_refused() -> None:
    async with serving(allowed=(ip_network("10.0.0.0/8"),)) as pair:
        slave = await pair.slave(first=None)
        assert await slave.is_cut()
        assert pair.leader.rows() == []


async def test_the_log_is_kept_for_slaves_within_bounds(pair: Pair) -> None:
    assert pair.leader.floor() == OFFSET_MAX
    await pair.broker.add("orders", b"a")
    end = pair.broker.store.flushed
    slave = await pair.slave()
    await slave.copy_upto(end)
    await until(lambda: pair.leader.floor() == end)
    slave.writer.close()
    await until(lambda: not pair.leader.rows()[0].is_connected)
    assert pair.leader.floor() == end, "it may come back"
    pair.broker.clock.advance(KEEP_MS)
    assert pair.leader.floor() == OFFSET_MAX, "it does not come back"


async def test_a_slave_that_lags_too_far_is_not_waited_for(pair: Pair) -> None:
    await pair.broker.add("orders", b"a")
    begin = pair.broker.store.flushed
    slave = await pair.slave()
    await slave.copy_upto(begin)
    await until(lambda: pair.leader.floor() == begin)
    await pair.broker.add("orders", bytes(LAG_MAX))
    assert pair.leader.rows()[0].lag_bytes > LAG_MAX
    assert pair.leader.floor() == OFFSET_MAX


async def test_a_slave_that_returned_on_a_new_connection_is_kept_once(pair: Pair) -> None:
    await pair.broker.add("orders", b"a")
    end = pair.broker.store.flushed
    first = await pair.slave()
    second = await pair.slave(end)
    await until(lambda: len(pair.leader.rows()) == 2)
    await until(lambda: any(row.acknowledged == end for row in pair.leader.rows()))
    first.writer.close()
    await until(lambda: len(pair.leader.rows()) == 1)
    assert pair.leader.floor() == end
    second.writer.close()


async def test_a_port_in_use_is_reported(pair: Pair) -> None:
    address = f"127.0.0.1:{pair.port.number}"
    with pytest.raises(AddressUnavailable, match=f"replication.listen: '{address}' cannot.*in use"):
        await SlavePort(LOCAL).start(pair.leader, address)
