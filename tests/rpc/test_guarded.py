"""Refusals on the wire for official clients and our own, by each transport."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from pocketmq.client import AsyncClient, Message, errors
from pocketmq.rpc.guard import Guard
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v1.service_table import rules_of
from pocketmq.rpc.v2.service_table import MESSAGING, NAME, TABLE
from tests.kit.store_broker import ServerClass, StoreBroker, connected, running
from tests.kit.users import SECRET, access_of, grant_of, signed

CLIENT = {"x-mq-client-id": "c@1", "x-mq-language": "PYTHON", "x-mq-client-version": "5"}
ORDERS = pb.Resource(name="orders")
QUEUE = pb.MessageQueue(topic=ORDERS)
BILLING = pb.Resource(name="billing")


def _raw(request: Any) -> bytes:
    written: bytes = request.SerializeToString()
    return written


class Desk:
    """A broker whose user app may send and receive orders."""

    def __init__(self, broker: StoreBroker, address: str, channel: grpc.aio.Channel) -> None:
        self.broker = broker
        self.address = address
        self.channel = channel

    async def ask(self, name: str, request: Any, metadata: dict[str, str]) -> list[Any]:
        """Returns all answers to an official client's call."""
        method = MESSAGING.methods_by_name[name]
        kinds = {
            (False, False): self.channel.unary_unary,
            (False, True): self.channel.unary_stream,
            (True, True): self.channel.stream_stream,
        }
        make = kinds[method.client_streaming, method.server_streaming]
        answer_type = getattr(pb, method.output_type.name)
        stub: Any = make(
            f"/{NAME}/{name}",
            request_serializer=_raw,
            response_deserializer=answer_type.FromString,
        )
        call = stub(
            iter([request]) if method.client_streaming else request,
            metadata=tuple({**CLIENT, **metadata}.items()), timeout=20,
        )  # fmt: skip
        if not method.server_streaming:
            return [await call]
        return [answer async for answer in call]

    def client(self, key: str = "", secret: str = SECRET) -> AsyncClient:
        """Returns a client of our own that signs with a user's keys."""
        return AsyncClient(self.address, retry_ms=0, access_key=key, secret_key=secret)


@pytest.fixture
async def desk(server_class: ServerClass, broker: StoreBroker) -> AsyncIterator[Desk]:
    rules = [grant_of("app", "pub,sub", "topic:orders"), grant_of("app", "sub", "group:billing")]
    access = access_of(*rules)
    access.take(0)  # the clock of the broker stands still, that of its clients does not
    guard = Guard(access)
    broker.auto_create_groups = True
    by_face = {**rules_of("C"), NAME: TABLE.rules("C")}
    services = [guard.guarded(service, by_face[service.name]) for service in broker.services()]
    async with running(server_class(services)) as address, connected(address) as channel:
        yield Desk(broker, address, channel)


def sent(topic: str = "orders") -> pb.SendMessageRequest:
    properties = pb.SystemProperties(message_id="0102FC00000001167A0B125C4B00000000")
    message = pb.Message(topic={"name": topic}, body=b"x", system_properties=properties)
    return pb.SendMessageRequest(messages=[message])


def settings(group: str) -> pb.TelemetryCommand:
    subscription = pb.Subscription(group=pb.Resource(name=group), subscriptions=[{"topic": ORDERS}])
    return pb.TelemetryCommand(
        settings=pb.Settings(client_type=pb.SIMPLE_CONSUMER, subscription=subscription)
    )


REQUESTS = {
    "QueryRoute": pb.QueryRouteRequest(topic=ORDERS),
    "SendMessage": sent(),
    "ReceiveMessage": pb.ReceiveMessageRequest(
        group=BILLING,
        message_queue=pb.MessageQueue(topic=ORDERS, id=-1),
        batch_size=1,
        invisible_duration={"seconds": 30},
    ),
    "AckMessage": pb.AckMessageRequest(group=BILLING, topic=ORDERS),
    "Telemetry": settings("billing"),
    "Heartbeat": pb.HeartbeatRequest(group=BILLING),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_calls_that_nobody_signed_are_unauthorized_in_one_answer(
    desk: Desk, name: str
) -> None:
    for metadata in ({}, signed("app", "guess"), signed("nobody")):
        (answer,) = await desk.ask(name, REQUESTS[name], metadata)
        assert answer.status.code == pb.UNAUTHORIZED
        assert "give the client an access key" in answer.status.message


@pytest.mark.parametrize(
    ("name", "request_", "text"),
    [
        ("QueryRoute", pb.QueryRouteRequest(topic={"name": "others"}), "pub 'topic:others'"),
        ("SendMessage", sent("others"), "pub 'topic:others'"),
        (
            "ReceiveMessage",
            pb.ReceiveMessageRequest(group={"name": "g"}, message_queue=QUEUE, batch_size=1),
            "sub 'group:g'",
        ),
        ("AckMessage", pb.AckMessageRequest(group={"name": "g"}, topic=ORDERS), "sub 'group:g'"),
        ("Telemetry", settings("g"), "sub 'group:g'"),
        ("Heartbeat", pb.HeartbeatRequest(group={"name": "g"}), "sub 'group:g'"),
    ],
)
async def test_what_is_not_granted_is_forbidden_and_says_what_would_grant_it(
    desk: Desk, name: str, request_: Any, text: str
) -> None:
    answer = (await desk.ask(name, request_, signed("app")))[0]
    assert answer.status.code == pb.FORBIDDEN
    assert f"user app may not {text}: no rule allows it" in answer.status.message
    assert f"pocketmq acl grant app {text}" in answer.status.message


async def test_what_is_granted_is_done(desk: Desk) -> None:
    for name in ("QueryRoute", "SendMessage", "Heartbeat", "Telemetry"):
        answer = (await desk.ask(name, REQUESTS[name], signed("app")))[0]
        assert answer.status.code == pb.OK, answer
    await desk.broker.talking.settled()
    found = await desk.ask("ReceiveMessage", REQUESTS["ReceiveMessage"], signed("app"))
    assert [one.message.body for one in found if one.HasField("message")] == [b"x"]


async def test_clients_of_our_own_are_told_by_class(desk: Desk) -> None:
    async with desk.client() as nobody:
        with pytest.raises(errors.Unauthenticated) as refused:
            await nobody.admin.list_topics()
        assert "has no signature" in str(refused.value)
    async with desk.client("app", "guess") as guessing:
        with pytest.raises(errors.Unauthenticated):
            await guessing.send(Message("orders", b"x"))
    async with desk.client("app") as app:
        assert (await app.send(Message("orders", b"x"))).topic == "orders"
        with pytest.raises(errors.AccessDenied) as denied:
            await app.send(Message("others", b"x"))
        assert denied.value.user == "app"
        with pytest.raises(errors.AccessDenied):
            await app.admin.delete_topic("orders")
        with pytest.raises(errors.AdminsOnly):
            await app.admin.access.list_users()
    async with desk.client("admin") as admin:
        assert [topic.name for topic in (await admin.admin.list_topics()).items] == ["orders"]


async def test_health_and_reflection_are_for_all(desk: Desk) -> None:
    from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

    check: Any = desk.channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=_raw,
        response_deserializer=HealthCheckResponse.FromString,
    )
    assert (await check(HealthCheckRequest())).status == HealthCheckResponse.NOT_SERVING
