"""Two brokers as processes: the leader is killed, and its follower's store is opened to lead."""

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pocketmq.client import AsyncClient, ClientError, GroupSettings, Message, ReceiveQuery
from pocketmq.store.tables.copied_files import COPIED, JOURNAL, ORDERS
from tests.e2e.daemon import Daemon, bodies_of

HOUR_MS = 3_600_000
FIFO = ReceiveQuery("workers", "steps", max_messages=1, invisible_ms=HOUR_MS, wait_ms=5_000)


async def use(endpoint: str) -> None:
    """Does something that ends in each table."""
    async with AsyncClient(endpoint, retry_ms=0) as client:
        admin = client.admin
        await admin.create_topic("orders", queue_count=1)
        await admin.create_topic("steps", queue_count=1, type_name="fifo")
        await admin.create_topic("gone", queue_count=1)
        await admin.create_group("workers", GroupSettings(fifo=True))
        await admin.access.create_user("ann", "secret-of-ann")
        for number in range(5):
            await client.send(Message("orders", b"%d" % number))
            await client.send(Message("steps", b"%d" % number, message_group="one"))
        await client.send(Message("gone", b"x"))
        await admin.delete_topic("gone")
        await client.commit_offset("readers", "orders", 0, 3)
        await client.send(Message("orders", b"later", delay_ms=HOUR_MS))
        await client.send(Message("orders", b"soon", delay_ms=1_500))
        for _ in range(2):
            (leased,) = await client.receive(FIFO)
            await client.ack("workers", "steps", [leased.receipt_handle])
        await client.receive(FIFO)


async def state(endpoint: str) -> dict[str, Any]:
    """Returns what clients see of all that."""
    async with AsyncClient(endpoint, retry_ms=0) as client:
        users, _ = await client.admin.access.list_users()
        return {
            "topics": [one[:5] for one in (await client.admin.list_topics())[0]],
            "groups": [one.name for one in (await client.admin.list_groups())[0]],
            "users": [one.access_key for one in users],
            "offset": await client.fetch_offset("readers", "orders", 0),
            "delayed": [one.message_id for one in (await client.admin.list_delayed())[0]],
        }


def tables(store: Path) -> dict[str, bytes]:
    return {name: (store / name).read_bytes() for name in COPIED if (store / name).exists()}


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, what


def refusal(leader: Daemon) -> str:
    """Returns why a leader does not acknowledge a new topic, "" if a follower has its tables."""

    async def create() -> str:
        async with AsyncClient(leader.endpoint, retry_ms=0) as client:
            try:
                await client.admin.create_topic("first", queue_count=1)
            except ClientError as error:
                return error.reason
        return ""

    return asyncio.run(create())


def test_what_a_killed_leader_acknowledged_is_in_the_store_of_its_follower(tmp_path: Path) -> None:
    with Daemon(tmp_path / "a", "--set", "replication.in_sync_replicas=2") as leader:
        assert refusal(leader) == "NotReplicated"
        with Daemon(tmp_path / "b", "--set", f"replication.leader={leader.endpoint}") as follower:
            wait_for(lambda: not refusal(leader), "the leader's follower does not become current")
            asyncio.run(use(leader.endpoint))
            delivered = partial(bodies_of, leader.endpoint, "orders")
            wait_for(lambda: b"soon" in delivered(), "a delayed message does not come")
            before = asyncio.run(state(leader.endpoint))
            leader.signal(signal.SIGKILL)
            assert follower.stop() == 0
    assert {ORDERS, JOURNAL} < tables(follower.store).keys()
    with Daemon(tmp_path / "b") as promoted:
        assert asyncio.run(state(promoted.endpoint)) == before
        assert bodies_of(promoted.endpoint, "orders") == [b"0", b"1", b"2", b"3", b"4", b"soon"]
        asyncio.run(go_on(promoted.endpoint))


async def go_on(endpoint: str) -> None:
    """Goes on where the leader was killed: one message of the group is leased, two are settled."""
    async with AsyncClient(endpoint, retry_ms=0) as client:
        assert await client.receive(replace(FIFO, wait_ms=0)) == []
        await client.send(Message("orders", b"5"))
