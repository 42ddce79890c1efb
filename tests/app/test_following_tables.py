"""Tables of a whole broker on its follower: while it serves, after a break, and once it leads."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from pocketmq.client import Message
from pocketmq.client.client_error import ClientError
from pocketmq.store.tables.copied_files import COPIED, OFFSETS
from tests.app.test_following import following
from tests.running_broker import broker_with


def tables(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in COPIED if (directory / name).exists()}


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Returns once something is so; a broker that changes its role gives no answer."""
    async with asyncio.timeout(20):
        while True:
            with suppress(ClientError):
                if await is_so():
                    return
            await asyncio.sleep(0)


async def current(tmp_path: Path) -> None:
    """Returns once the follower's tables are its leader's."""

    async def is_current() -> bool:
        return tables(tmp_path / "a") == tables(tmp_path / "b")

    await until(is_current)


async def test_a_follower_has_what_changed_while_it_was_away_and_leads_with_it(
    tmp_path: Path,
) -> None:
    async with broker_with(tmp_path / "a") as leader:
        client = leader.client
        await client.admin.create_topic("orders", queue_count=1)
        for number in range(3):
            await client.send(Message("orders", b"%d" % number))
        await client.commit_offset("readers", "orders", 0, 1)
        async with broker_with(tmp_path / "b", following(leader)):
            await current(tmp_path)
        await client.admin.create_topic("second", queue_count=3)
        await client.admin.access.create_user("ann", "secret-of-ann")
        await client.commit_offset("readers", "orders", 0, 2)
        async with broker_with(tmp_path / "b", following(leader)) as follower:
            await current(tmp_path)
            admin = follower.client.admin

            async def knows_ann() -> bool:
                users, _ = await admin.access.list_users()
                return [user.access_key for user in users] == ["ann"]

            await until(knows_ann)
            leader.stop.set_result("test")
            await leader.serving
            await admin.replication.promote(force=True)

            async def leads() -> bool:
                return (await admin.replication.status()).role == "leader"

            await until(leads)
            assert await follower.client.fetch_offset("readers", "orders", 0) == 2
            await admin.create_topic("third")
            await follower.client.commit_offset("readers", "orders", 0, 3)
            assert b"orders@readers" in tables(tmp_path / "b")[OFFSETS]
