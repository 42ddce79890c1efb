"""Methods of one request answer the same whether they begin at once or in a task."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pytest
from google.protobuf.descriptor import FieldDescriptor

from pocketmq.rpc.call import REQUEST_ID_KEY
from pocketmq.rpc.guard import Guard
from pocketmq.rpc.pb import admin_pb2
from pocketmq.rpc.service import Method, Service
from pocketmq.rpc.v1.service_table import rules_of
from pocketmq.rpc.v2.service_table import NAME, TABLE
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.users import access_of, grant_of, signed
from tests.rpc.own.pair import Pair

CLIENT: Final = (
    ("x-mq-client-id", "host@1@2@x"), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.2.0"),
)  # fmt: skip
TEXTS: Final = {"sound": "orders", "unknown": "nobody", "illegal": "no such name!"}
NUMBERS: Final = {"sound": 1, "unknown": 7, "illegal": -1}
DEPTH_MAX: Final = 3
LASTING: Final = frozenset({"wait_ms", "long_polling_timeout", "time_left_ms"})
"""Fields that are left out: no call waits here."""
CHANGING: Final = frozenset({"StoreStatus", "EffectiveConfig"})
"""Methods whose answers tell of the process and the time it has run."""
TIMED: Final = frozenset({"ReceiveMessage"})
"""Methods whose last message is the time."""


class Asked(NamedTuple):
    """One call, and how it is told from others."""

    service: str
    method: str
    how: str
    raw: bytes


class Seen(NamedTuple):
    """The outcome of a call as its client sees it."""

    asked: Asked
    fields: dict[str, str]
    messages: list[bytes]


def filled(message: Any, how: str, depth: int = 0) -> Any:
    """Fills every field of a request with something of a kind."""
    for field in message.DESCRIPTOR.fields:
        if field.name in LASTING or depth == DEPTH_MAX:
            continue
        is_many, place = field.is_repeated, getattr(message, field.name)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            if field.message_type.GetOptions().map_entry:
                continue
            filled(place.add() if is_many else place, how, depth + 1)
            if not is_many:
                place.SetInParent()
        elif is_many:
            place.append(_value(field, how))
        else:
            setattr(message, field.name, _value(field, how))
    return message


def _value(field: Any, how: str) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return TEXTS[how].encode() if field.type == FieldDescriptor.TYPE_BYTES else TEXTS[how]
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return how == "sound"
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        numbers = [value.number for value in field.enum_type.values]
        return numbers[min(NUMBERS["sound"], len(numbers) - 1)]
    if field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64):
        return abs(NUMBERS[how])
    return NUMBERS[how]


def requests_of(method: Method) -> Iterable[tuple[str, bytes]]:
    """Returns requests of a method by what is wrong with them."""
    yield "empty", b""
    yield "no message", b"\xff\xff"
    for how in TEXTS:
        yield how, filled(method.request(), how).SerializeToString()


def calls_of(services: Iterable[Service]) -> list[Asked]:
    """Returns every call that is made, in order."""
    return [
        Asked(service.name, method.name, how, raw)
        for service in services
        for method in service.methods
        if not method.kind.has_requests
        for how, raw in requests_of(method)
    ]


class Told:
    """Outcomes of calls, and what the broker counted."""

    def __init__(self, pair: Pair, seen: list[Seen]) -> None:
        self.seen = seen
        latency = next(stat for stat in pair.edge.serving.stats if "latency" in stat.name)
        self.counted: dict[tuple[str, ...], int] = {}
        for labels, histogram in latency.series.items():  # type: ignore[union-attr]
            # Only in a task a poll that did not wait counts as a long one.
            key = (*labels[:3], labels[4])
            self.counted[key] = self.counted.get(key, 0) + sum(histogram.counts)


async def told(services: list[Service], *, at_once: bool, extra: Any = ()) -> Told:
    """Makes all calls, then once more while the broker drains."""
    pair, seen = Pair(*services), list[Seen]()
    for served in pair.edge.methods.values():
        served.begins_at_once = served.begins_at_once and at_once
    for is_draining in (False, True):
        if is_draining:
            pair.edge.serving.drain()
        for asked in calls_of(services):
            seen.append(await _answered(pair, asked, extra))
    assert pair.edge.serving.admission.inflight_count() == len(pair.server.calls)
    return Told(pair, seen)


async def _answered(pair: Pair, asked: Asked, extra: Any) -> Seen:
    fields = (*CLIENT, (REQUEST_ID_KEY, "one"), *extra)
    stream = pair.begin(asked.method, *fields, service=asked.service)
    pair.send(stream, asked.raw)
    pair.exchange()
    answer = pair.answers[stream]
    await pair.settled()
    while answer.status is None and asked.method != "CheckTransactions":  # which waits for some
        await pair.settled()
    messages = [] if asked.method in CHANGING else answer.messages
    messages = messages[:-1] if asked.method in TIMED else messages
    return Seen(asked, answer.fields, messages)


def services_of(broker: StoreBroker, *, is_checked: bool) -> list[Service]:
    """Returns the services; who asks may have to be app, who sends and receives orders alone.

    Last come those that may remove what others name.
    """
    messaging, admin, access_face, _, official = broker.services()
    services = [official, messaging, admin, access_face]
    if not is_checked:
        return services
    access = access_of(grant_of("app", "pub,sub", "topic:orders"), clock=broker.clock)
    guard, by_face = Guard(access), {**rules_of("C"), NAME: TABLE.rules("C")}
    return [guard.guarded(service, by_face[service.name]) for service in services]


@pytest.mark.parametrize("user", ["", "nobody", "app"])
async def test_every_method_answers_the_same_at_once_and_in_a_task(user: str) -> None:
    both: list[Told] = []
    for at_once in (True, False):
        async with store_broker() as broker:
            await broker.answer("Admin/CreateGroup", admin_pb2.CreateGroupRequest(name="orders"))
            await broker.add("orders", b"a", b"b", TAGS="orders", KEYS="orders")
            services = services_of(broker, is_checked=bool(user))
            extra = signed(user).items() if user else ()
            both.append(await told(services, at_once=at_once, extra=extra))
    at_once_told, in_task_told = both
    for mine, other in zip(at_once_told.seen, in_task_told.seen, strict=True):
        assert mine == other
    assert at_once_told.counted == in_task_told.counted
    statuses = {seen.fields.get("grpc-status") for seen in at_once_told.seen}
    assert {"3", "14"} <= statuses
