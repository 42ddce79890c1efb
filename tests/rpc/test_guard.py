"""Permissions that each method of each API needs; the guard refuses calls without them.

A method without a row here fails `test_every_method_says_what_it_needs`.
"""

import weakref
from collections.abc import AsyncIterator, Callable
from functools import partial
from random import Random
from typing import Any, Final

import pytest

from pocketmq.model.access import Action, Need, resource_from_text
from pocketmq.model.errors import AccessDenied, AdminsOnly, Recovering, SystemTopic, Unauthenticated
from pocketmq.model.topic import RETRY_PREFIX
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.guard import Guard
from pocketmq.rpc.pb import broker_pb2
from pocketmq.rpc.pb import messaging_pb2 as official_pb
from pocketmq.rpc.permissions import (
    AdminOnly,
    FaceRules,
    NeedTable,
    group_need,
    nothing,
    topic_need,
)
from pocketmq.rpc.service import MalformedRequest, Metadata, Method, MethodKind, Service
from pocketmq.rpc.v1.service_table import BROKER, TABLES, rules_of
from pocketmq.rpc.v1.status import refuse
from pocketmq.rpc.v2.service_table import NAME, TABLE
from pocketmq.services.access.access import Access
from tests.kit.call import FakeCall
from tests.kit.mutated import mutated
from tests.kit.store_broker import CALL, store_broker
from tests.kit.users import access_of, call_of, grant_of, signed

HOST: Final = b"\x0a\0\0\x07" + b"\0\0\0\0"
ADMINS: Final = "admins"
T, G = {"topic": "t"}, {"group": "g"}
READ: Final = "sub group:g; sub topic:t"
RT, RG = {"topic": {"name": "t"}}, {"group": {"name": "g"}}
QUEUE: Final = {**RG, "message_queue": RT}

ROWS: Final[dict[str, list[tuple[dict[str, Any], str]]]] = {
    "Broker/SendMessage": [
        ({"messages": [{"topic": "t", "body": b"x"}]}, "pub topic:t"),
        (
            {"messages": [{"topic": "t", "body": b"x"}, {"topic": "u", "body": b"x"}]},
            "pub topic:t; pub topic:u",
        ),
        ({"messages": [{"topic": "%RETRY%g", "body": b"x"}]}, "pub group:g"),
        (
            {"messages": [{"topic": "t", "transactional": True, "producer_group": "g"}]},
            "pub topic:t; pub group:g",
        ),
        (
            {
                "messages": [
                    {"topic": "t", "body": b"\x8a" * 80},
                    {"topic": "t", "transactional": True, "producer_group": "g"},
                ]
            },
            "pub topic:t; pub group:g",
        ),
        ({"messages": [{"topic": "%DLQ%g", "body": b"x"}]}, "pub group:g"),
    ],
    "Broker/Recall": [(T, "pub topic:t")],
    "Broker/PullMessage": [(T, "sub topic:t"), ({**T, **G}, READ)],
    "Broker/EndTransaction": [(G, "pub group:g")],
    "Broker/CheckTransactions": [(G, "pub group:g")],
    "Broker/Receive": [({**T, **G}, READ)],
    "Broker/Ack": [({**T, **G}, READ)],
    "Broker/ChangeInvisible": [({**T, **G}, READ)],
    "Broker/SendBack": [({**T, **G}, READ)],
    "Broker/ForwardToDeadLetters": [({**T, **G}, READ)],
    "Broker/QueryByKey": [(T, "sub,get topic:t"), ({"topic": "%DLQ%g"}, "sub,get group:g")],
    "Broker/QueryById": [(T, "sub,get topic:t")],
    "Broker/QueryByTime": [(T, "sub,get topic:t")],
    "Broker/QueryOffsets": [(T, "sub,get topic:t")],
    "Broker/CommitOffset": [({**T, **G}, READ)],
    "Broker/FetchOffset": [({**T, **G}, READ)],
    "Admin/CreateTopic": [({"name": "t"}, "create topic:t")],
    "Admin/ListTopics": [({}, "list topic:*")],
    "Admin/DescribeTopic": [({"name": "t"}, "pub,sub,get topic:t")],
    "Admin/UpdateTopic": [({"name": "t"}, "update topic:t")],
    "Admin/DeleteTopic": [({"name": "t"}, "delete topic:t")],
    "Admin/PurgeTopic": [({"name": "t"}, "delete topic:t")],
    "Admin/TopicStats": [({"name": "t"}, "get topic:t"), ({}, "list topic:*")],
    "Admin/CreateGroup": [({"name": "g"}, "create group:g")],
    "Admin/ListGroups": [({}, "list group:*")],
    "Admin/DescribeGroup": [({"name": "g"}, "sub,get group:g")],
    "Admin/UpdateGroup": [({"name": "g"}, "update group:g")],
    "Admin/DeleteGroup": [({"name": "g"}, "delete group:g")],
    "Admin/ListProducers": [(T, "sub,get topic:t")],
    "Admin/ListMembers": [(G, "sub,get group:g")],
    "Admin/PrintClientStack": [(G, "sub,get group:g")],
    "Admin/VerifyMessage": [({**T, **G}, "update group:g; sub,get topic:t")],
    "Admin/ListOffsets": [(G, "sub,get group:g"), ({**T, **G}, "sub,get group:g; sub,get topic:t")],
    "Admin/GroupLag": [
        (G, "sub,get group:g"),
        ({**T, **G}, "sub,get group:g; sub,get topic:t"),
        ({}, "list group:*"),
    ],
    "Admin/SetOffsets": [({**T, **G}, "update group:g; sub,get topic:t")],
    "Admin/ResetOffsets": [({**T, **G}, "update group:g; sub,get topic:t")],
    "Admin/CloneOffsets": [
        ({"source_group": "g", "target_group": "h"}, "get group:g; update group:h")
    ],
    "Admin/PullMessage": [
        (T, "sub,get topic:t"),
        ({"topic": "%DLQ%g"}, "sub,get group:g"),
        ({**T, **G}, "sub,get topic:t; sub,get group:g"),
        ({**T, **G, "commit_offset": 1}, "sub,get topic:t; update group:g"),
        ({**T, **G, "begin": "max"}, "sub,get topic:t; update group:g"),
    ],
    "Admin/QueryByKey": [(T, "sub,get topic:t")],
    "Admin/QueryByTag": [(T, "sub,get topic:t")],
    "Admin/QueryById": [(T, "sub,get topic:t")],
    "Admin/TraceMessage": [(T, "get topic:t"), ({}, "list topic:*")],
    "Admin/ListDeadLetters": [(G, "sub,get group:g"), ({}, "list group:*")],
    "Admin/RedriveDeadLetters": [
        (G, "update group:g"),
        ({**T, **G}, "update group:g; pub topic:t"),
    ],
    "Admin/ListDelayed": [(T, "get topic:t"), ({}, "list topic:*")],
    "Admin/ListTransactions": [
        (G, "get group:g"),
        ({**T, **G}, "get group:g; get topic:t"),
        (T, "get topic:t"),
        ({}, "list topic:*"),
    ],
    "Admin/DescribeTransaction": [({"transaction_id": "x"}, "")],
    "Admin/StoreStatus": [({}, "get cluster:C")],
    "Admin/EffectiveConfig": [({}, "get cluster:C")],
    "Admin/ResumeTransaction": [({"transaction_id": "x"}, "update cluster:C")],
    "Admin/MapStore": [({}, "get cluster:C")],
    "Admin/Flush": [({}, "update cluster:C")],
    "Admin/ReportArchive": [({"upto": 1}, "update cluster:C")],
    "Admin/Drain": [({}, ADMINS)],
    "Access/CreateUser": [({}, ADMINS)],
    "Access/UpdateUser": [({}, ADMINS)],
    "Access/DeleteUser": [({}, ADMINS)],
    "Access/ListUsers": [({}, ADMINS)],
    "Access/AddGrant": [({}, ADMINS)],
    "Access/RemoveGrant": [({}, ADMINS)],
    "Access/ListGrants": [({}, ADMINS)],
    "Access/Explain": [({}, ADMINS)],
    "Access/OwnGrants": [({}, "")],
    "Replication/ReplicationStatus": [({}, "get cluster:C")],
    "Replication/Promote": [({}, ADMINS)],
    "Replication/Follow": [({}, ADMINS)],
    "Replication/RemoveReplica": [({}, ADMINS)],
    "Replication/Resync": [({}, ADMINS)],
    "MessagingService/QueryRoute": [(RT, "pub,sub,get topic:t")],
    "MessagingService/Heartbeat": [({}, ""), (RG, "sub group:g")],
    "MessagingService/SendMessage": [
        ({"messages": [RT]}, "pub topic:t"),
        (
            {"messages": [RT, {"topic": {"resource_namespace": "n", "name": "u"}}]},
            "pub topic:n%u; pub topic:t",
        ),
    ],
    "MessagingService/QueryAssignment": [({**RT, **RG}, READ)],
    "MessagingService/ReceiveMessage": [(QUEUE, READ)],
    "MessagingService/AckMessage": [({**RT, **RG}, READ)],
    "MessagingService/ForwardMessageToDeadLetterQueue": [({**RT, **RG}, READ)],
    "MessagingService/PullMessage": [(QUEUE, READ)],
    "MessagingService/UpdateOffset": [(QUEUE, READ)],
    "MessagingService/GetOffset": [(QUEUE, READ)],
    "MessagingService/QueryOffset": [({"message_queue": RT}, "sub,get topic:t")],
    "MessagingService/EndTransaction": [(RT, "pub topic:t")],
    "MessagingService/Telemetry": [
        ({}, ""),
        ({"settings": {}}, ""),
        ({"settings": {"publishing": {"topics": [{"name": "t"}]}}}, "pub topic:t"),
        ({"settings": {"subscription": {**RG, "subscriptions": [RT]}}}, READ),
    ],
    "MessagingService/NotifyClientTermination": [
        ({}, ""),
        ({"group": {"resource_namespace": "n"}}, ""),
        (RG, "sub group:g"),
    ],
    "MessagingService/ChangeInvisibleDuration": [({**RT, **RG}, READ)],
    "MessagingService/RecallMessage": [(RT, "pub topic:t")],
    "MessagingService/SyncLiteSubscription": [({**RT, **RG}, READ)],
}
"""Of each method requests, by their fields, and what they need."""

FACES: Final = (*TABLES, TABLE)
CASES: Final = [
    (table.descriptor.name, row.name, fields, needed)
    for table in FACES
    for row in table.rows
    for fields, needed in ROWS.get(f"{table.descriptor.name}/{row.name}", [])
]


def text_of(needs: list[Need]) -> str:
    texts = []
    for need in needs:
        actions = ",".join(action.value for action in Action if action in need.actions)
        resource = str(need.resource).replace(f"group:{RETRY_PREFIX}", "group:")
        texts.append(f"{actions} {resource}")
    return "; ".join(texts)


def table(name: str) -> tuple[NeedTable, Service]:
    found = next(table for table in FACES if table.descriptor.name == name)
    return found.rules("C").needs, found.closed_face()


def test_every_method_says_what_it_needs() -> None:
    known = {
        f"{table.descriptor.name}/{name}"
        for table in FACES
        for name in table.descriptor.methods_by_name
    }
    assert ROWS.keys() == known
    for table in FACES:
        assert table.rules("C").needs.keys() == set(table.descriptor.methods_by_name)


@pytest.mark.parametrize(("face", "name", "fields", "needed"), CASES)
def test_a_call_needs_what_its_request_is_about(
    face: str, name: str, fields: dict[str, Any], needed: str
) -> None:
    needs, service = table(face)
    row = next(row for row in service.methods if row.name == name)
    need = needs[name]
    if needed == ADMINS:
        assert isinstance(need, AdminOnly)
        return
    assert not isinstance(need, AdminOnly)
    request = row.reader()(row.request(**fields).SerializeToString())
    found = list(need(request, FakeCall()))
    assert sorted(text_of(found).split("; ")) == sorted(needed.split("; "))


@pytest.mark.parametrize(
    ("face", "name", "fields", "needed"), [case for case in CASES if case[1] != "Telemetry"]
)
def test_nobody_gets_past_without_it(
    face: str, name: str, fields: dict[str, Any], needed: str
) -> None:
    """A closed face says that it is closed to those alone whom the guard lets through."""
    needs, service = table(face)

    def serve(call: Call, *rules: tuple[str, str]) -> Any:
        access = access_of(*(grant_of("app", *rule) for rule in rules))
        guarded = Guard(access).guarded(service, FaceRules(needs))
        row = next(row for row in guarded.methods if row.name == name)
        request = row.reader()(row.request(**fields).SerializeToString())
        with pytest.raises(Exception) as caught:
            row.handler(request, call)
        return type(caught.value)

    assert serve(FakeCall()) is Unauthenticated
    assert serve(call_of("off")) is Unauthenticated
    assert serve(call_of("admin")) is Recovering
    everything = ("all", "*")
    if needed == ADMINS:
        assert serve(call_of(), everything) is AdminsOnly
        return
    assert serve(call_of(), everything) is Recovering
    rules = [tuple(need.split(" ")) for need in needed.split("; ") if need]
    assert serve(call_of(), *rules) is Recovering  # type: ignore[arg-type]
    for missing in rules:
        rest = [rule for rule in rules if rule is not missing]
        assert serve(call_of(), *rest) is AccessDenied  # type: ignore[arg-type]


def test_names_of_the_header_s_namespace_are_asked_for() -> None:
    request = official_pb.QueryRouteRequest(topic={"name": "t"})
    need = TABLE.rules("C").needs["QueryRoute"]
    assert not isinstance(need, AdminOnly)
    (found,) = need(request, FakeCall(metadata={"x-mq-namespace": "n"}))
    assert found.name == "n%t"
    with pytest.raises(SystemTopic):
        need(official_pb.QueryRouteRequest(topic={"name": "SCHEDULE_TOPIC_XXXX"}), FakeCall())


# -- streams and shortcuts -------------------------------------------------------------------------


async def talk(requests: AsyncIterator[Any], call: Call) -> AsyncIterator[Any]:
    async for request in requests:
        yield request


def method_of(**own: Any) -> Method:
    types = (broker_pb2.QueryByIdRequest, broker_pb2.QueryByIdResponse)
    return Method("M", *types, own.pop("handler", talk), CallClass.QUERY, **own)


async def test_each_request_of_a_stream_is_looked_at() -> None:
    access = access_of(grant_of("app", "sub", "topic:t"))
    needs: NeedTable = {"M": lambda request, call: [topic_need(request, (Action.SUB,))]}
    service = Service("S", (method_of(kind=MethodKind.BIDI),), refuse)
    (row,) = Guard(access).guarded(service, FaceRules(needs)).methods
    heard = []

    async def requests() -> AsyncIterator[str]:
        yield "t"
        yield "t"
        roster = access.table.roster
        roster.revoke("app", frozenset({Action.SUB}), roster.grants[0].resource)
        access.refresh()
        yield "t"

    with pytest.raises(AccessDenied):
        async for answer in row.handler(requests(), call_of()):
            heard.append(answer)
    assert heard == ["t", "t"]
    with pytest.raises(Unauthenticated):
        row.handler(requests(), FakeCall())


class Large:
    """A request whose memory is wanted back."""


async def test_a_request_of_a_stream_is_not_kept_until_the_next_one_comes() -> None:
    access = access_of(grant_of("app", "sub", "topic:t"))
    needs: NeedTable = {"M": lambda request, call: [topic_need("t", (Action.SUB,))]}
    kept = []

    async def requests() -> AsyncIterator[Large]:
        request = Large()
        made = weakref.ref(request)
        yield request
        del request
        kept.append(made())

    async def count(requests: AsyncIterator[Any], call: Call) -> AsyncIterator[int]:
        async for request in requests:
            del request
            yield 1

    row = method_of(kind=MethodKind.BIDI, handler=count)
    (row,) = Guard(access).guarded(Service("S", (row,), refuse), FaceRules(needs)).methods
    assert [one async for one in row.handler(requests(), call_of())] == [1]
    assert kept == [None]


async def test_who_is_gone_is_heard_no_more() -> None:
    access = access_of()
    (row,) = (
        Guard(access)
        .guarded(
            Service("S", (method_of(kind=MethodKind.BIDI),), refuse), FaceRules({"M": nothing})
        )
        .methods
    )

    async def requests() -> AsyncIterator[str]:
        yield "before"
        access.table.roster.remove("app")
        access.refresh()
        yield "after"

    heard = []
    with pytest.raises(Unauthenticated):
        async for answer in row.handler(requests(), call_of()):
            heard.append(answer)
    assert heard == ["before"]


def revoked(access: Access) -> None:
    access.table.roster.revoke("app", frozenset({Action.SUB}), resource_from_text("topic:t"))
    access.refresh()


def removed(access: Access) -> None:
    access.table.roster.remove("app")
    access.refresh()


LOST: Final = [(revoked, AccessDenied), (removed, Unauthenticated)]


@pytest.mark.parametrize(("lose", "outcome"), LOST)
async def test_who_may_no_more_is_told_nothing_more(lose: Any, outcome: Any) -> None:
    """Down a stream on which nothing else is asked for."""
    access = access_of(grant_of("app", "sub", "topic:t"))

    async def told(requests: AsyncIterator[Any], call: Call) -> AsyncIterator[Any]:
        async for request in requests:
            yield request
        yield "news"
        yield "secret news"

    async def requests() -> AsyncIterator[str]:
        yield "t"
        yield "thanks"  # needs nothing

    def needed(request: str, call: Call) -> list[Need]:
        return [topic_need("t", (Action.SUB,))] if request == "t" else []

    row = method_of(kind=MethodKind.BIDI, handler=told)
    (row,) = Guard(access).guarded(Service("S", (row,), refuse), FaceRules({"M": needed})).methods
    heard = []
    with pytest.raises(outcome):
        async for answer in row.handler(requests(), call_of()):
            heard.append(answer)
            if answer == "news":
                lose(access)
    assert heard == ["t", "thanks", "news"]


@pytest.mark.parametrize(("lose", "outcome"), LOST)
@pytest.mark.parametrize(
    ("kind", "call_class"),
    [
        (MethodKind.UNARY, CallClass.POLL),
        (MethodKind.SERVER_STREAM, CallClass.POLL),
        (MethodKind.UNARY, CallClass.QUESTION),
    ],
)
async def test_who_waits_for_messages_gets_none_that_come_when_he_may_no_more(
    kind: MethodKind, call_class: CallClass, lose: Any, outcome: Any
) -> None:
    access = access_of(grant_of("app", "sub", "topic:t"))

    async def one(request: Any, call: Call) -> str:
        lose(access)
        return "message"

    async def several(request: Any, call: Call) -> AsyncIterator[str]:
        lose(access)
        yield "message"

    types = (broker_pb2.QueryByIdRequest, broker_pb2.QueryByIdResponse)
    handler = one if kind is MethodKind.UNARY else several
    method = Method("M", *types, handler, call_class, kind=kind)
    needs: NeedTable = {"M": lambda request, call: [topic_need("t", (Action.SUB,))]}
    (row,) = Guard(access).guarded(Service("S", (method,), refuse), FaceRules(needs)).methods
    answer = row.handler("t", call_of())
    with pytest.raises(outcome):
        await (answer if kind is MethodKind.UNARY else anext(answer))


def own_send(topic: str) -> bytes:
    message = broker_pb2.Message(topic=topic, body=b"x")
    return broker_pb2.SendMessageRequest(messages=[message]).SerializeToString()


def own_end(group: str) -> bytes:
    request = broker_pb2.EndTransactionRequest(group=group)
    request.decisions.add(transaction_id="1.2.KEY", resolution=broker_pb2.COMMIT)
    return request.SerializeToString()


def official_send(*topics: str) -> bytes:
    messages = [official_pb.Message(topic={"name": topic}, body=b"x") for topic in topics]
    return official_pb.SendMessageRequest(messages=messages).SerializeToString()


@pytest.mark.parametrize(
    ("face", "name", "raw", "metadata", "outcome"),
    [
        (BROKER.full_name, "EndTransaction", own_end("g"), signed(), b"done"),
        (BROKER.full_name, "EndTransaction", own_end("t"), signed(), AccessDenied),
        (BROKER.full_name, "EndTransaction", own_end("t"), signed("admin"), b"done"),
        (BROKER.full_name, "EndTransaction", own_end("g"), {}, Unauthenticated),
        (BROKER.full_name, "EndTransaction", own_end("g") + b"\x0a\x01t", signed(), None),
        (BROKER.full_name, "SendMessage", own_send("t"), signed(), b"done"),
        (BROKER.full_name, "SendMessage", own_send("u"), signed(), AccessDenied),
        (BROKER.full_name, "SendMessage", own_send("u"), signed("admin"), b"done"),
        (BROKER.full_name, "SendMessage", own_send("t"), {}, Unauthenticated),
        (BROKER.full_name, "SendMessage", own_send("t"), signed("app", "guess"), Unauthenticated),
        (BROKER.full_name, "SendMessage", own_send("t" * 200), signed(), None),
        (BROKER.full_name, "SendMessage", b"\x10\x01", signed(), None),
        (NAME, "SendMessage", official_send("t"), signed(), b"done"),
        (NAME, "SendMessage", official_send("u"), signed(), AccessDenied),
        (NAME, "SendMessage", official_send("t", "u"), signed(), b"done"),
        (
            NAME, "SendMessage", official_send("t"),
            {**signed(), "x-mq-namespace": "n"}, AccessDenied,
        ),
    ],
)  # fmt: skip
def test_a_shortcut_is_taken_by_who_may(
    face: str, name: str, raw: bytes, metadata: dict[str, str], outcome: Any
) -> None:
    def shortcut(raw: bytes, host: bytes, metadata: Metadata) -> bytes:
        return b"done"

    guard = Guard(access_of(grant_of("app", "pub", "topic:t"), grant_of("app", "pub", "group:g")))
    by_name = {**rules_of("C"), NAME: TABLE.rules("C")}[face].quick
    rows = tuple(
        Method(**{**vars(method_of(shortcut=shortcut)), "name": quick}) for quick in by_name
    )
    rules = FaceRules(dict.fromkeys(by_name, nothing), by_name)
    served = guard.guarded(Service("S", rows, refuse), rules).methods
    quick = next(row.shortcut for row in served if row.name == name)
    assert quick is not None
    for _ in range(2):
        if outcome is None or isinstance(outcome, bytes):
            assert quick(raw, HOST, metadata.get) == outcome
        else:
            with pytest.raises(outcome):
                quick(raw, HOST, metadata.get)


async def test_decisions_are_told_the_same_whichever_way_they_go() -> None:
    """Of plain requests and those that only look so, by who may decide for some producers."""
    random = Random(7)
    plain = own_end("payers"), own_end("strangers")
    # Of a group that is given twice the last one counts.
    twice = plain[1] + plain[0][:8], plain[0] + plain[1][:11]
    changed = [mutated(random, random.choice(plain)) for _ in range(500)]
    access = access_of(grant_of("app", "pub", "group:payers"))
    async with store_broker() as broker:
        messaging = broker.services()[0]
        guarded = Guard(access).guarded(messaging, rules_of("C")[messaging.name])
        row = next(row for row in guarded.methods if row.name == "EndTransaction")
        assert row.shortcut is not None
        shortcut, read = row.shortcut, row.reader()

        def serve(raw: bytes) -> None:
            row.handler(read(raw), call_of()).close()

        outcomes = set()
        for raw in (*plain, *twice, *changed):
            quick = refusal(partial(shortcut, raw, CALL.peer_host, signed().get))
            usual = refusal(partial(serve, raw))
            assert quick in (usual, None), raw
            outcomes.add((quick, usual))
        assert {(None, None), (AccessDenied, AccessDenied), (None, AccessDenied)} <= outcomes


def refusal(serve: Callable[[], Any]) -> type[Exception] | None:
    """Returns how a call is refused at once, None where it is not."""
    try:
        serve()
    except (AccessDenied, Unauthenticated, MalformedRequest) as error:
        return type(error)
    return None


def test_a_shortcut_that_nobody_knows_the_topic_of_is_not_taken() -> None:
    row = method_of(handler=lambda request, call: b"usual", shortcut=lambda *given: b"done")
    (guarded,) = (
        Guard(access_of()).guarded(Service("S", (row,), refuse), FaceRules({"M": nothing})).methods
    )
    assert guarded.shortcut is None


def test_a_face_with_a_method_that_says_nothing_is_no_face() -> None:
    with pytest.raises(AssertionError, match="without permission rules"):
        Guard(access_of()).guarded(Service("S", (method_of(),), refuse), FaceRules({}))


def test_topics_of_a_group_are_the_group() -> None:
    assert topic_need("%DLQ%g", (Action.SUB,)) == group_need("g", (Action.SUB,))
