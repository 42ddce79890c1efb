"""Where topics are, as official clients are told."""

from typing import Any

import pytest

from pocketmq.model.topic import TopicConfig
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.resources import resource_of, wrapped
from pocketmq.rpc.v2.routes import Routes, endpoints_of
from pocketmq.services.sessions.sessions import Sessions
from tests.kit.official import DIALLED, OfficialDesk, name

TYPES = {
    "NORMAL": [pb.NORMAL],
    "FIFO": [pb.FIFO],
    "DELAY": [pb.DELAY],
    "TRANSACTION": [pb.TRANSACTION],
    "PRIORITY": [pb.PRIORITY],
    "LITE": [pb.LITE],
    "ELSEWHERE": [pb.NORMAL],
    "MIXED": [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION],
}


async def made(desk: OfficialDesk, topic: str, **attributes: str) -> None:
    types = {name.replace("_", "."): value for name, value in attributes.items()}
    await desk.broker.store.tables.topics.create(topic, queue_count=2, attributes=types)


def route(topic: str, **fields: Any) -> pb.QueryRouteRequest:
    return pb.QueryRouteRequest(topic=name(topic), **fields)


@pytest.mark.parametrize(("type_name", "accepted"), TYPES.items())
async def test_a_route_is_one_queue_that_takes_its_topics_kinds(
    desk: OfficialDesk, type_name: str, accepted: list[int]
) -> None:
    await made(desk, "t", message_type=type_name)
    answer = await desk.ask("QueryRoute", route("t", endpoints=DIALLED))
    (queue,) = answer.message_queues
    assert answer.status.code == pb.OK
    assert (queue.topic.name, queue.id, queue.permission) == ("t", 0, pb.READ_WRITE)
    assert (queue.broker.name, queue.broker.id) == ("broker-a", 0)
    assert queue.broker.endpoints == DIALLED
    assert list(queue.accept_message_types) == accepted


async def test_a_topic_without_a_type_takes_normal_messages(desk: OfficialDesk) -> None:
    answer = await desk.ask("QueryRoute", route("orders"))
    assert list(answer.message_queues[0].accept_message_types) == [pb.NORMAL]


@pytest.mark.parametrize(
    "dialled",
    [
        pb.Endpoints(),
        pb.Endpoints(scheme=pb.IPv4),
        pb.Endpoints(scheme=pb.IPv4, addresses=[pb.Address(port=80)]),
        pb.Endpoints(addresses=[pb.Address(host="10.0.0.1", port=80)]),
    ],
    ids=["nothing", "no address", "no host", "no scheme"],
)
async def test_who_does_not_say_what_it_dialled_is_told_the_brokers_own_address(
    desk: OfficialDesk, dialled: pb.Endpoints
) -> None:
    answer = await desk.ask("QueryRoute", route("orders", endpoints=dialled))
    assert answer.message_queues[0].broker.endpoints == endpoints_of("10.0.0.9:8081")


@pytest.mark.parametrize(
    ("address", "scheme", "host"),
    [
        ("10.0.0.1:80", pb.IPv4, "10.0.0.1"),
        ("[::1]:80", pb.IPv6, "::1"),
        ("::1:80", pb.IPv6, "::1"),
        ("mq.example.com:80", pb.DOMAIN_NAME, "mq.example.com"),
    ],
)
def test_addresses_have_a_scheme(address: str, scheme: pb.AddressScheme, host: str) -> None:
    assert endpoints_of(address) == pb.Endpoints(
        scheme=scheme, addresses=[pb.Address(host=host, port=80)]
    )


async def test_what_may_be_done_is_told(desk: OfficialDesk) -> None:
    await desk.broker.store.tables.topics.create("readonly", queue_count=1, permission=4)
    answer = await desk.ask("QueryRoute", route("readonly"))
    assert answer.message_queues[0].permission == pb.READ


async def test_a_topic_that_is_stored_in_another_way_has_no_route(desk: OfficialDesk) -> None:
    topic = desk.broker.store.tables.topics.find("orders")
    assert topic is not None
    topic.unsupported = "queue.type=BatchCQ"
    answer = await desk.ask("QueryRoute", route("orders"))
    assert answer.status.code != pb.OK
    assert "BatchCQ" in answer.status.message
    assert not answer.message_queues


async def test_the_route_of_a_missing_topic_is_that_it_would_have_and_makes_none(
    desk: OfficialDesk,
) -> None:
    answer = await desk.ask("QueryRoute", route("fresh"))
    assert list(answer.message_queues[0].accept_message_types) == [pb.NORMAL]
    assert desk.broker.store.tables.topics.find("fresh") is None
    rules = desk.broker.send._rules._replace(default_type="MIXED")
    desk.broker.send.take(rules)
    answer = await desk.ask("QueryRoute", route("fresh"))
    assert list(answer.message_queues[0].accept_message_types) == TYPES["MIXED"]


async def test_a_consumer_makes_a_missing_topic(desk: OfficialDesk) -> None:
    topics = desk.broker.store.tables.topics
    desk.broker.auto_create_groups = True
    request = pb.QueryAssignmentRequest(topic=name("pushed"), group=name("g"), endpoints=DIALLED)
    await desk.ask("QueryAssignment", request)
    assert topics.find("pushed") is not None
    rules = desk.broker.send._rules._replace(auto_create_topics=False)
    desk.broker.send.take(rules)
    assert await desk.code("QueryRoute", route("missing")) == "TOPIC_NOT_FOUND"
    assert await desk.code("QueryRoute", route("%DLQ%nobody")) == "TOPIC_NOT_FOUND"


@pytest.mark.parametrize(
    ("topic", "queue_type", "queue_id"), [("n", "NORMAL", -1), ("f", "FIFO", 0)]
)
async def test_an_assignment_is_any_queue_or_the_one_in_order(
    desk: OfficialDesk, topic: str, queue_type: str, queue_id: int
) -> None:
    await made(desk, topic, message_type=queue_type)
    request = pb.QueryAssignmentRequest(topic=name(topic), group=name("g"), endpoints=DIALLED)
    answer = await desk.ask("QueryAssignment", request)
    (assignment,) = answer.assignments
    assert assignment.message_queue.id == queue_id
    assert assignment.message_queue.broker.endpoints == DIALLED


async def test_a_group_that_does_not_exist_is_assigned_nothing(desk: OfficialDesk) -> None:
    request = pb.QueryAssignmentRequest(topic=name("orders"), group=name("nobody"))
    assert await desk.code("QueryAssignment", request) == "CONSUMER_GROUP_NOT_FOUND"


async def test_a_namespace_is_part_of_the_name_and_is_echoed(desk: OfficialDesk) -> None:
    topic = pb.Resource(resource_namespace="shop", name="t")
    answer = await desk.ask("QueryRoute", pb.QueryRouteRequest(topic=topic))
    assert answer.message_queues[0].topic == topic
    desk.broker.auto_create_groups = True
    request = pb.QueryAssignmentRequest(topic=topic, group=name("g"))
    await desk.ask("QueryAssignment", request)
    assert desk.broker.store.tables.topics.find("shop%t") is not None
    call = desk.call(x_mq_namespace="mall")
    request = pb.QueryAssignmentRequest(topic=name("t"), group=name("g"))
    await desk.ask("QueryAssignment", request, call)
    assert desk.broker.store.tables.topics.find("mall%t") is not None


@pytest.mark.parametrize(
    ("stored", "namespace", "called"),
    [
        ("shop%t", "shop", ("shop", "t")),
        ("%DLQ%shop%g", "shop", ("shop", "%DLQ%g")),
        ("shop%t", "", ("", "shop%t")),
        ("shop%t", "mall", ("", "shop%t")),
        ("shop", "shop", ("", "shop")),
    ],
)
def test_a_client_is_told_names_as_it_has_them(
    stored: str, namespace: str, called: tuple[str, str]
) -> None:
    found = resource_of(stored, namespace)
    assert (found.resource_namespace, found.name) == called
    assert wrapped(found.name, found.resource_namespace) == stored


@pytest.mark.parametrize(
    ("language", "has_stream", "pauses"),
    [("PYTHON", False, [0.05]), ("PYTHON", True, []), ("JAVA", False, [])],
)
async def test_the_client_for_python_waits_for_its_first_route(
    desk: OfficialDesk, language: str, has_stream: bool, pauses: list[float]
) -> None:
    """It ends where the answer is there before it has said what to do with it."""
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    find = desk.broker.store.tables.topics.existing

    async def make(topic: str) -> TopicConfig:
        raise AssertionError(f"nobody makes {topic}")

    async def ensure(group: str) -> None:
        raise AssertionError(f"nobody asks for {group}")

    sessions = Sessions(lambda *_: None, lambda *_: None)
    if has_stream:
        sessions.open_stream("host@1@2@x", lambda _: True)
    routes = Routes("broker-a", "10.0.0.9:8081", find, make, ensure, sessions, pause)
    call = desk.call(x_mq_language=language)
    answer = await routes.query_route(route("orders"), call)
    assert answer.message_queues[0].topic.name == "orders"
    assert paused == pauses
