"""Which records a whole broker keeps, whatever its limits of the log."""

import asyncio
from pathlib import Path

from pocketmq.client import Message
from tests.app.test_following import caught_up, fill, following
from tests.running_broker import RunningBroker, broker_with

LIMITS = (
    "retention.mode=on", "retention.size_bytes=128KiB", "retention.interval_ms=20ms",
    "store.view_flush_thorough_interval_ms=20ms",
)  # fmt: skip


async def begin_of(broker: RunningBroker) -> int:
    """Returns the physical offset at which a broker's log begins."""
    return (await broker.client.admin.store_status()).min_offset


async def test_a_follower_deletes_what_its_leader_has_deleted(tmp_path: Path) -> None:
    async with (
        broker_with(tmp_path / "a", *LIMITS) as leader,
        broker_with(tmp_path / "b", following(leader), *LIMITS) as follower,
    ):
        await fill(leader, 200)
        await caught_up(leader, follower)
        async with asyncio.timeout(20):
            while not all([await begin_of(one) for one in (leader, follower)]):
                pass


async def test_a_message_that_waits_for_a_delay_level_keeps_its_file(tmp_path: Path) -> None:
    async with broker_with(tmp_path, *LIMITS) as broker:
        await broker.client.send(Message("orders", b"late", delay_level=16))
        await fill(broker, 200)
        async with asyncio.timeout(20):
            while "delayed message" not in await broker.page("/readyz"):
                pass
        assert await begin_of(broker) == 0


async def test_what_a_follower_lacks_is_kept_and_named(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "a", *LIMITS) as leader:
        async with broker_with(tmp_path / "b", following(leader)) as follower:
            await fill(leader, 20)
            await caught_up(leader, follower)
        await fill(leader, 200)
        async with asyncio.timeout(20):
            while "held by follower at offset" not in await leader.page("/readyz"):
                pass
        assert await begin_of(leader) == 0
