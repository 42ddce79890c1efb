"""The faces of v1 serve what the proto promises, by RocketMQ's words, closed or open."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from pocketmq.model.errors import Draining, Recovering, UnsupportedFeature
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.service import Service
from pocketmq.rpc.v1.service_table import (
    ACCESS,
    ADMIN,
    ADMIN_TABLE,
    BROKER,
    BROKER_TABLE,
    REPLICATION,
    TABLES,
    closed_faces,
)
from pocketmq.rpc.v2.service_table import TABLE as OFFICIAL
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker

FACES = (*TABLES, OFFICIAL)
PARTS = ("routes", "sending", "receive_message", "acks", "sessions", "transactions", "offsets")


def own(broker: StoreBroker) -> list[Service]:
    """Broker, Admin, Access and Replication, without what official clients come to."""
    return [service for service in broker.services() if service.name.startswith("pocketmq.v1.")]


def test_every_method_of_the_proto_is_served_in_its_class(broker: StoreBroker) -> None:
    faces = (BROKER, ADMIN, ACCESS, REPLICATION)
    for service, descriptor in zip(own(broker), faces, strict=True):
        assert service.name == descriptor.full_name
        assert {row.name for row in service.methods} == set(descriptor.methods_by_name)
        classes = {
            "SendMessage": CallClass.SEND,
            "Recall": CallClass.SEND,
            "PullMessage": CallClass.POLL,
            "Receive": CallClass.POLL,
            "CheckTransactions": CallClass.POLL,
            "EndTransaction": CallClass.SETTLE,
            "Ack": CallClass.SETTLE,
            "ChangeInvisible": CallClass.SETTLE,
            "SendBack": CallClass.SETTLE,
            "ForwardToDeadLetters": CallClass.SETTLE,
        }
        for name in ("PrintClientStack", "VerifyMessage"):
            classes[name] = CallClass.QUESTION
        others = {BROKER: CallClass.QUERY, ACCESS: CallClass.ACCESS}
        other = others.get(descriptor, CallClass.ADMIN)
        assert all(row.call_class is classes.get(row.name, other) for row in service.methods)


def test_methods_go_by_rocketmqs_words_where_it_has_such_a_request(broker: StoreBroker) -> None:
    rows = [row for service in own(broker) for row in service.methods]
    ours = {row.name for row in rows if not row.request_code}
    dead_letters = {"ListDeadLetters", "RedriveDeadLetters", "ForwardToDeadLetters"}
    # RocketMQ has PullMessage too.
    others = {"Explain", "OwnGrants", "ListDelayed", "Flush", "Drain", "PullMessage", "PurgeTopic"}
    others |= {"ReportArchive", "MapStore"}
    transactions = {"ListTransactions", "DescribeTransaction"}
    roles = {row.name for row in REPLICATION.methods}
    assert ours == others | dead_letters | transactions | roles


async def test_a_closed_face_differs_in_its_handlers_only(broker: StoreBroker) -> None:
    closed, opened = (OwnServer(services) for services in (closed_faces(), own(broker)))
    for mine, other in zip(closed_faces(), own(broker), strict=True):
        for row in mine.methods:
            with pytest.raises(Recovering):
                row.handler(row.request(), FakeCall())
        assert {(row.name, row.call_class) for row in mine.methods} == {
            (row.name, row.call_class) for row in other.methods
        }
    for stat, twin in zip(closed.stats, opened.stats, strict=True):
        assert getattr(stat, "series", {}).keys() == getattr(twin, "series", {}).keys()


def test_methods_that_create_what_they_name() -> None:
    creating = {f"{t.descriptor.name}/{row.name}" for t in FACES for row in t.rows if row.creates}
    own = {"SendMessage", "Receive", "PullMessage", "CommitOffset"}
    operators = {"CreateTopic", "CreateGroup", "PullMessage", "SetOffsets", "ResetOffsets"}
    routes = {"QueryRoute", "QueryAssignment", "Heartbeat", "Telemetry"}
    official = {"SendMessage", "ReceiveMessage", "PullMessage", "UpdateOffset", *routes}
    assert creating == {
        *(f"Broker/{name}" for name in own),
        *(f"Admin/{name}" for name in {*operators, "CloneOffsets"}),
        *(f"MessagingService/{name}" for name in official),
    }


def test_a_method_without_a_handler_is_unsupported() -> None:
    service = OFFICIAL.face(SimpleNamespace(**dict.fromkeys(PARTS, Mock())))
    row = next(row for row in service.methods if row.name == "SyncLiteSubscription")
    with pytest.raises(UnsupportedFeature):
        row.handler(row.request(), FakeCall())


def test_only_methods_of_the_usual_class_get_what_stands_around() -> None:
    service = ADMIN_TABLE.face(Mock(), around=lambda handler: around)
    rows = {row.name: row.handler is around for row in service.methods}
    others = {"PullMessage", "PrintClientStack", "VerifyMessage"}
    assert {name for name, is_around in rows.items() if not is_around} == others


def around(request: object, call: object) -> None:
    raise AssertionError("a handler that is not called")


def test_of_methods_that_are_named_only_those_get_what_stands_around() -> None:
    service = BROKER_TABLE.face(Mock(), lambda handler: around, {"QueryByKey"})
    assert [row.name for row in service.methods if row.handler is around] == ["QueryByKey"]


async def test_a_query_by_key_waits_for_its_users_turn(broker: StoreBroker) -> None:
    messaging = own(broker)[0]
    (query,) = [row for row in messaging.methods if row.name == "QueryByKey"]
    turns = broker.store.turns
    turns.timed(lambda: broker.clock.advance(50))
    turns.drain()
    with pytest.raises(Draining):
        await query.handler(query.request(topic="orders", key="k"), FakeCall())
