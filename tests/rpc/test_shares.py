"""One user's calls under way leave room for other users' and for admins', on each transport."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from pocketmq.client import AsyncClient, ClientError, PullQuery
from pocketmq.rpc.admission import DEFAULT_LIMITS, CallClass
from pocketmq.rpc.guard import Guard
from pocketmq.rpc.v1.service_table import rules_of
from pocketmq.rpc.v2.service_table import NAME, TABLE
from pocketmq.services.access.access import Access
from tests.kit.store_broker import ServerClass, StoreBroker, running
from tests.kit.users import SECRET, access_of, grant_of

SLOTS = 16
SHARE = 12


class Users:
    """A broker with users, of which some hold calls."""

    def __init__(self, broker: StoreBroker, address: str, stack: AsyncExitStack) -> None:
        self.broker = broker
        self._address = address
        self._stack = stack
        self._calls: list[asyncio.Future[Any]] = []

    async def client(self, user: str) -> AsyncClient:
        """Returns a client that signs as a user, on a connection of its own."""
        client = AsyncClient(self._address, retry_ms=0, access_key=user, secret_key=SECRET)
        return await self._stack.enter_async_context(client)

    async def park(self, user: str, count: int) -> list[asyncio.Future[Any]]:
        """Begins so many polls of a user that wait for messages, on two connections."""
        clients = [await self.client(user), await self.client(user)]
        begun = len(self._calls)
        for number in range(count):
            poll = clients[number % 2].pull(PullQuery("orders", 0, 0, wait_ms=20_000))
            self._calls.append(asyncio.ensure_future(poll))
        while not self._are_settled():  # noqa: ASYNC110 - the server runs on this loop
            await asyncio.sleep(0)
        return self._calls[begun:]

    def _are_settled(self) -> bool:
        ended = sum(call.done() for call in self._calls)
        return ended + self.broker.pull.waiter_count == len(self._calls)

    async def end(self) -> None:
        """Ends all that waits."""
        self.broker.pull.drain()
        await asyncio.gather(*self._calls, return_exceptions=True)


@pytest.fixture
async def users(server_class: ServerClass, broker: StoreBroker) -> AsyncIterator[Users]:
    access = access_of(grant_of("app", "pub,sub,get", "topic:orders"))
    access.take(0)
    _second_user(access)
    guard, limits = Guard(access), {**DEFAULT_LIMITS, CallClass.POLL: SLOTS}
    by_face = {**rules_of("C"), NAME: TABLE.rules("C")}
    services = [guard.guarded(service, by_face[service.name]) for service in broker.services()]
    async with (
        running(server_class(services, limits=limits)) as address,
        AsyncExitStack() as stack,
    ):
        one = Users(broker, address, stack)
        yield one
        await one.end()


def _second_user(access: Access) -> None:
    roster = access.table.roster
    roster.add(roster.users["app"]._replace(access_key="other"))
    roster.grant(grant_of("other", "pub,sub,get", "topic:orders"))
    access.refresh()


def _refused(calls: list[asyncio.Future[Any]]) -> list[Any]:
    ended = [call for call in calls if call.done() and not call.cancelled()]
    return [call.exception() for call in ended]


async def test_a_user_who_parks_all_it_can_leaves_a_quarter(users: Users) -> None:
    refused = _refused(await users.park("app", SLOTS + 4))
    assert len(refused) == SLOTS + 4 - SHARE
    assert {(one.status, one.reason) for one in refused} == {("RESOURCE_EXHAUSTED", "ShareTaken")}
    assert "user app" in str(refused[0])
    assert _refused(await users.park("other", 2)) == []


async def test_an_admin_polls_when_users_have_all_slots_but_theirs(users: Users) -> None:
    await users.park("app", SLOTS)
    await users.park("other", SLOTS)
    assert _refused(await users.park("admin", 2)) == []


async def test_calls_that_end_give_their_user_room(users: Users) -> None:
    first = await users.park("app", SHARE)
    for call in first:
        call.cancel()
    await asyncio.wait(first)
    while users.broker.pull.waiter_count:  # noqa: ASYNC110 - the server runs on this loop
        await asyncio.sleep(0)
    assert _refused(await users.park("app", SHARE)) == []


async def test_other_classes_serve_a_user_who_parks(users: Users) -> None:
    await users.park("app", SLOTS)
    client = await users.client("app")
    with pytest.raises(ClientError, match="12 of the 16 places of class poll"):
        await client.pull(PullQuery("orders", 0, 0, wait_ms=20_000))
    assert (await client.query_offsets("orders", 0)).max_offset == 0
