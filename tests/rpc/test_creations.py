"""Users make topics and groups by naming them where they may, and so many an hour."""

from typing import Any

import pytest

from pocketmq.model.access import ResourceKind
from pocketmq.model.errors import AccessDenied, CreationsUsedUp, GroupNotFound, TopicNotFound
from pocketmq.rpc.creations import HOUR_MS, Creations
from pocketmq.rpc.guard import Guard
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pb import messaging_pb2 as v2
from pocketmq.rpc.v1.service_table import rules_of
from pocketmq.rpc.v2.service_table import NAME, TABLE
from tests.kit.store_broker import StoreBroker
from tests.kit.users import access_of, call_of, grant_of

LIMIT = 3


class Desk:
    """A broker whose users make topics and groups, three an hour."""

    def __init__(self, broker: StoreBroker, *rules: tuple[str, str]) -> None:
        self.broker, self.now_ms = broker, 1_000
        broker.auto_create_groups = True
        tables = broker.store.tables
        exists = {ResourceKind.TOPIC: tables.topics.find, ResourceKind.GROUP: tables.groups.find}
        creations = Creations(exists, lambda: self.now_ms, lambda: LIMIT)
        access = access_of(*[grant_of("app", *rule) for rule in rules], clock=broker.clock)
        access.take(0)
        guard, by_face = Guard(access, creations), {**rules_of("C"), NAME: TABLE.rules("C")}
        services = [guard.guarded(service, by_face[service.name]) for service in broker.services()]
        self.methods = {row.name: row for service in services for row in service.methods}
        self.official = {row.name: row for row in services[-1].methods}

    async def route(self, topic: str, user: str = "app") -> None:
        """Asks where a topic's messages go, as official clients do."""
        request = v2.QueryRouteRequest(topic=v2.Resource(name=topic))
        await self.official["QueryRoute"].handler(request, _official(user))

    async def assign(self, topic: str, group: str) -> None:
        """Asks for the queues of a push consumer."""
        request = v2.QueryAssignmentRequest(
            topic=v2.Resource(name=topic), group=v2.Resource(name=group)
        )
        await self.official["QueryAssignment"].handler(request, _official("app"))

    async def beat(self, group: str, user: str = "app") -> None:
        """Says that a consumer of a group is alive."""
        request = v2.HeartbeatRequest(group=v2.Resource(name=group))
        await self.official["Heartbeat"].handler(request, _official(user))

    async def commit(self, group: str, user: str = "app") -> None:
        """Commits an offset of a group by our own face."""
        request = pb.CommitOffsetRequest(group=group, topic="orders", offset=0)
        await self.methods["CommitOffset"].handler(request, call_of(user))

    def has(self, name: str) -> bool:
        """Returns whether there is a topic or a group of a name."""
        tables = self.broker.store.tables
        return bool(tables.topics.find(name) or tables.groups.find(name))


def _official(user: str) -> Any:
    return call_of(user, **{"x-mq-client-id": "c"})


@pytest.mark.parametrize("action", ["get", "sub"])
async def test_who_may_not_send_makes_no_topic_by_asking_for_it(
    broker: StoreBroker, action: str
) -> None:
    desk = Desk(broker, (action, "topic:*"))
    await desk.route("orders")
    with pytest.raises(TopicNotFound):
        await desk.route("new")
    assert not desk.has("new")


@pytest.mark.parametrize("action", ["pub", "get,create"])
async def test_who_may_send_or_create_makes_a_topic(broker: StoreBroker, action: str) -> None:
    desk = Desk(broker, (action, "topic:*"), ("sub", "topic:*"), ("sub", "group:*"))
    await desk.route("new")
    assert not desk.has("new")
    await desk.assign("new", "g")
    assert desk.has("new")


async def test_who_may_do_nothing_is_told_that_alone(broker: StoreBroker) -> None:
    with pytest.raises(AccessDenied):
        await Desk(broker).route("new")


async def test_a_group_is_made_by_its_consumers(broker: StoreBroker) -> None:
    desk = Desk(broker, ("sub", "group:*"), ("sub", "topic:orders"))
    await desk.beat("g1")
    await desk.commit("g2")
    assert desk.has("g1")
    assert desk.has("g2")


async def test_offsets_of_a_group_that_is_missing_are_set_by_who_may_make_it(
    broker: StoreBroker,
) -> None:
    desk = Desk(broker, ("update", "group:*"))
    row = desk.methods["SetOffsets"]
    request = row.request(group="new", topic="orders")
    with pytest.raises(GroupNotFound):
        await row.handler(request, call_of("app"))
    assert not desk.has("new")


async def test_a_user_makes_so_many_an_hour_and_names_count_once(broker: StoreBroker) -> None:
    desk = Desk(broker, ("pub", "topic:*"), ("sub", "group:*"))
    await desk.route("t0")
    await desk.route("t0")
    await desk.route("t1")
    await desk.beat("g0")
    with pytest.raises(CreationsUsedUp, match="3 topics and groups"):
        await desk.beat("g1")
    await desk.route("orders")
    assert not desk.has("g1")
    desk.now_ms += HOUR_MS
    await desk.beat("g1")
    assert desk.has("g1")


async def test_an_admin_makes_any_number(broker: StoreBroker) -> None:
    desk = Desk(broker)
    for number in range(LIMIT + 2):
        await desk.route(f"t{number}", "admin")
