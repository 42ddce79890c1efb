"""A broker with users and grants, called without a transport.

async with authorised_broker("pub,sub,get topic:mine", "sub group:mine") as desk:
    await desk.ask("Admin/ListDelayed", topic="mine")          as the user app
    await desk.ask("Admin/ListDelayed", user="admin")
    desk.access.table.roster.revoke(...); desk.access.refresh()
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

from pocketmq.model.access import User, actions_from_text, resource_from_text
from pocketmq.model.errors import BrokerError
from pocketmq.model.ownership import owner_groups
from pocketmq.rpc.guard import Guard
from pocketmq.rpc.service import Method, Service
from pocketmq.rpc.v1.service_table import rules_of
from pocketmq.rpc.v2.service_table import NAME, TABLE
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.users import SECRET, access_of, grant_of, signed

CLIENT = {"x-mq-language": "JAVA", "x-mq-client-version": "5.0.7"}


class AuthorisedBroker:
    """A broker behind its guard; methods are named as in "Admin/ListTopics"."""

    def __init__(self, broker: StoreBroker, *grants: str) -> None:
        self.broker = broker
        self.store = broker.store
        self.access = access_of(*[grant_of("app", *grant.split()) for grant in grants])
        self.access.take(0)
        tables = self.store.tables
        self.access.know_owners(
            lambda name: owner_groups(name, tables.groups.find, tables.topics.find)
        )
        guard, by_face = Guard(self.access), {**rules_of("DefaultCluster"), NAME: TABLE.rules("C")}
        self.methods: dict[str, Method] = {}
        self.services: list[Service] = []
        for service in broker.services():
            face = service.name.rpartition(".")[2]
            guarded = guard.guarded(service, by_face[service.name])
            self.services.append(guarded)
            self.methods |= {f"{face}/{method.name}": method for method in guarded.methods}

    def call(self, user: str = "app", *, time_left_ms: int = 0, client_id: str = "c@1") -> FakeCall:
        """Returns a call of a user, whose deadline has passed, so that polls return at once."""
        given = {**CLIENT, **signed(user), "x-mq-client-id": client_id}
        return FakeCall(metadata=given, time_left_ms=time_left_ms)

    async def ask(self, name: str, user: str = "app", /, **fields: Any) -> Any:
        """Returns the answer of a unary method, or a list of those of a stream.

        Errors   BrokerError kinds
        """
        method = self.methods[name]
        return await self.serve(method, method.request(**fields), self.call(user))

    async def serve(self, method: Method, request: Any, call: FakeCall) -> Any:
        """Serves a request as a transport does, its bytes read and its answer written."""
        read, write = method.reader(), method.encoded
        raw = read(request.SerializeToString())
        given = _one(raw) if method.kind.has_requests else raw
        found = method.handler(given, call)
        if hasattr(found, "__aiter__"):
            answers = [one async for some in found for one in write(some)]
            return [method.response.FromString(one) for one in answers]
        answer = await found if isawaitable(found) else found
        raw = answer if isinstance(answer, bytes) else write(answer)[0]
        return method.response.FromString(raw)

    async def refusal(self, name: str, user: str = "app", /, **fields: Any) -> str:
        """Returns the reason why a call is refused; "" if it is allowed."""
        try:
            await self.ask(name, user, **fields)
        except BrokerError as error:
            return error.reason
        return ""

    def grant(self, *grants: str) -> None:
        """Adds a grant of the user app."""
        for grant in grants:
            self.access.table.roster.grant(grant_of("app", *grant.split()))
        self.access.refresh()

    def revoke(self, grant: str) -> None:
        """Removes a grant of the user app."""
        actions, resource = grant.split()
        roster = self.access.table.roster
        roster.revoke(
            "app", actions_from_text(actions), resource_from_text(resource), is_allowed=True
        )
        self.access.refresh()

    def change(self, how: str) -> None:
        """Changes the user app: "off", "secret", "removed", "made again", or "grants"."""
        roster = self.access.table.roster
        grants = roster.grants_of("app")
        match how:
            case "off":
                roster.change("app", is_enabled=False)
            case "secret":
                roster.change("app", secret=SECRET[::-1])
            case "grants":
                roster.grants.clear()
            case _:
                roster.remove("app")
        self.access.refresh()
        if how == "made again":
            roster.add(User("app", SECRET))
            for grant in grants:
                roster.grant(grant)
            self.access.refresh()


CHANGES = ("off", "secret", "removed", "made again", "grants")


async def _one(request: Any) -> AsyncIterator[Any]:
    yield request


@asynccontextmanager
async def authorised_broker(*grants: str) -> AsyncIterator[AuthorisedBroker]:
    """Opens a broker whose user app has these grants, such as "pub topic:orders"."""
    async with store_broker() as broker:
        yield AuthorisedBroker(broker, *grants)
