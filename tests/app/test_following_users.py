"""A follower and the user that signs for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pocketmq.client import AsyncClient, Message
from tests.app.test_following import caught_up, following
from tests.running_broker import RunningBroker, broker_with

OLD: Final = "the-secret-of-repl"
NEW: Final = "the-next-secret-of-repl"

pytestmark = pytest.mark.timeout(60)


class Pair(NamedTuple):
    """A leader that checks users, and its follower, whose hello the admin repl signs."""

    leader: RunningBroker
    follower: RunningBroker
    secret_file: Path

    @property
    def access(self) -> Any:
        """The leader's users."""
        return self.leader.client.admin.access

    async def state(self, is_wanted: Callable[[bool, str], bool]) -> None:
        """Returns once the follower is, or is not, connected as wanted."""
        async with asyncio.timeout(20):
            while True:
                found = await self.follower.client.admin.replication.status()
                if is_wanted(found.connected, found.trouble):
                    return


@asynccontextmanager
async def pair(directory: Path) -> AsyncIterator[Pair]:
    secret_file = directory / "repl.secret"
    secret_file.write_text(OLD)
    (directory / "admin.secret").write_text("the-secret-of-admin")
    signed = ("access.check=on", f"access.admin_secret_path={directory / 'admin.secret'}")
    given = ("replication.user=repl", f"replication.secret_path={secret_file}")
    async with broker_with(directory / "a", *signed) as leader:
        address = leader.addresses["grpc"]
        admin = AsyncClient(address, access_key="admin", secret_key="the-secret-of-admin")
        async with admin:
            leader = leader._replace(client=admin)
            await admin.admin.access.create_user("repl", OLD, admin=True)
            async with broker_with(directory / "b", following(leader), *given) as follower:
                made = Pair(leader, follower, secret_file)
                await admin.send(Message("orders", b"before"))
                await caught_up(leader, follower)
                yield made


CHANGES: Final[dict[str, Callable[[Any], Any]]] = {
    "disabled": lambda access: access.update_user("repl", enabled=False),
    "removed": lambda access: access.delete_user("repl"),
    "no admin": lambda access: access.update_user("repl", admin=False),
    "secret": lambda access: access.update_user("repl", secret=NEW),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_follower_whose_user_is_gone_copies_nothing_more(
    tmp_path: Path, change: str
) -> None:
    async with pair(tmp_path) as brokers:
        await CHANGES[change](brokers.access)
        await brokers.leader.client.send(Message("orders", b"not for the follower"))
        text = "check replication.user and the file of replication.secret_path"
        await brokers.state(lambda is_connected, why: not is_connected and text in why)
        ends = [
            (await one.client.admin.store_status()).appended_offset
            for one in (brokers.leader, brokers.follower)
        ]
        assert ends[1] < ends[0]
        rows = (await brokers.leader.client.admin.replication.status()).replicas
        assert [one.connected for one in rows] == [False], "its log is kept for an hour"


async def test_a_follower_reads_a_changed_secret_without_a_restart(tmp_path: Path) -> None:
    async with pair(tmp_path) as brokers:
        await brokers.access.update_user("repl", secret=NEW)
        await brokers.state(lambda is_connected, why: "signature is wrong" in why)
        brokers.secret_file.write_text(NEW)
        await brokers.state(lambda is_connected, why: is_connected)
        await brokers.leader.client.send(Message("orders", b"after"))
        await caught_up(brokers.leader, brokers.follower)


async def test_a_follower_stays_while_its_user_keeps_its_rights(tmp_path: Path) -> None:
    async with pair(tmp_path) as brokers:
        await brokers.access.create_user("other", "the-secret-of-other", admin=True)
        await brokers.access.update_user("other", enabled=False)
        await brokers.leader.client.send(Message("orders", b"after"))
        await caught_up(brokers.leader, brokers.follower)
        found = await brokers.leader.client.admin.replication.status()
        assert [one.connected for one in found.replicas] == [True]
