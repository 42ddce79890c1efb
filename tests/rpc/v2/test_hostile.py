"""Requests that mean harm, or nothing: each is answered by a code that says whose fault it is.

Fields hold what lies at the ends of their types, or is a good value of another field; bytes of
sound requests are changed. Nothing of it may be an error of the broker's own, and what it held
before it holds after.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.service_table import TABLE
from tests.kit.mutated import mutated
from tests.kit.official import OfficialDesk, sent

SEEDS: Final = range(8)
REQUESTS: Final = 300
"""Of each seed: of all methods in turn."""
TEXT_BYTES_MAX: Final = 1_003
"""Of a status, with the mark of one that is cut."""
OWN_FAULTS: Final = frozenset({pb.INTERNAL_ERROR, pb.INTERNAL_SERVER_ERROR, pb.NOT_IMPLEMENTED})

TOPICS: Final = ("orders", "orders", "f", "d", "t")
SOUND: Final[Mapping[str, tuple[Any, ...]]] = {
    "topic": TOPICS, "topics": TOPICS, "group": ("g",), "resource_namespace": ("",),
    "message_id": ("ID",), "tag": ("A",), "keys": ("k", "l"), "message_group": ("m",),
    "priority": (1,), "type": (pb.TAG, pb.SQL), "expression": ("A", "n > 0", "*"),
    "message_type": (pb.NORMAL, pb.FIFO), "body": (b"x",), "id": (0,), "seconds": (10,),
    "nanos": (0,), "trace_context": ("00-ab",), "key": ("color",), "checksum": ("11",),
    "born_host": ("host",), "offset": (0, 1), "resolution": (pb.COMMIT, pb.ROLLBACK),
}  # fmt: skip
"""What a field holds as a rule; a name has what stands here for whose name it is."""
TEXTS: Final = (
    "", " ", "g", "g", "G" * 120, "x" * 5_000, "bad name!", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x",
    "\u20ac", "\U0001f600" * 100, "\0", "a\x01b\x02", "%", "%%", "a%b", "*", "A || B", "||",
    "n > 1", "(" * 500, "n between 'a' and 1e999", "not " * 400, "TAGS is null", "\ud7ff",
    "0 1700000000000 60000 3 0 broker-a 1 17", "0 99999999999999999999 1 1 1 b 1 1",
    "0 1 1 1 1 b -1 -1", "1 " * 200, "0.0.KEY", "7FFFFFFFFFFFFFFF.7FFFFFFFFFFFFFFF.K",
    "FFFFFFFFFFFFFFFF.1.K", "djEgb3JkZXJzIGIgMSBpZA==", "djE=", "====", "-1", "9" * 400,
    "10.0.0.1", "::1", "UNIQ_KEY", "TIMER_DELIVER_MS", "__SHARDINGKEY", "TRAN_MSG",
)  # fmt: skip
NUMBERS: Final = (0, 1, -1, 2, 32, 33, 1_000, 2**31 - 1, -(2**31))
LARGE: Final = (2**32, 2**62, 2**63 - 1, -(2**63), 253_402_300_800, -62_135_596_801)
BODIES: Final = (b"", b"x", b"\x1f\x8b", bytes(5_000), b"\xff" * 33)
WHOLE: Final = {
    "long_polling_timeout": 0.5, "invisible_duration": 0.5, "group": 0.9, "topic": 0.95,
    "message_queue": 0.95, "settings": 0.9, "publishing": 0.5, "messages": 0.95,
    "system_properties": 0.95,
}  # fmt: skip
"""How often a field is there; others are as often as not."""
GIVEN: Final = frozenset({"receipt_handle", "transaction_id", "recall_handle"})
RARE: Final = frozenset(
    {
        "lite_topic",
        "body_digest",
        "delivery_timestamp",
        "priority",
        "message_group",
        "orphaned_transaction_recovery_duration",
        "user_properties",
        "resource_namespace",
    }
)


class Maker:
    """Makes messages of any type, as a seed will have it."""

    def __init__(self, random: Random, texts: list[str]) -> None:
        self.random = random
        self.texts = texts
        """Such as handles, which this run gave out."""

    def message(self, kind: type[Message]) -> Any:
        """Returns a message whose fields are of the right types, if of nothing else."""
        made = kind()
        self._fill(made)
        return made

    def _fill(self, made: Any, whose: str = "") -> None:
        random = self.random
        for field in made.DESCRIPTOR.fields:
            usual = 0.1 if field.name in RARE else 0.6
            if field.name != "name" and random.random() > WHOLE.get(field.name, usual):
                continue
            one_of = field.containing_oneof
            if one_of is not None and made.WhichOneof(one_of.name):
                continue
            if not field.is_repeated:
                if field.message_type is None:
                    setattr(made, field.name, self._value(field, whose))
                else:
                    child = getattr(made, field.name)
                    child.SetInParent()
                    self._fill(child, field.name)
                continue
            values, count = getattr(made, field.name), random.choice((0, 1, 1, 1, 2, 3, 40))
            if field.message_type is None:
                values.extend(self._value(field, whose) for _ in range(count))
            elif field.message_type.GetOptions().map_entry:
                for _ in range(random.choice((count, count, 200))):
                    values[self._text()] = self._text()
            else:
                for _ in range(count):
                    self._fill(values.add(), field.name)

    def _value(self, field: FieldDescriptor, whose: str) -> Any:
        random = self.random
        sound = SOUND.get(whose if field.name == "name" else field.name)
        if field.name in GIVEN and random.random() < 0.8:
            return random.choice(self.texts or TEXTS)
        if sound is not None and random.random() < 0.93:
            return random.choice(sound)
        match field.type:
            case FieldDescriptor.TYPE_STRING:
                return self._text()
            case FieldDescriptor.TYPE_BYTES:
                return random.choice(BODIES)
            case FieldDescriptor.TYPE_BOOL:
                return random.random() < 0.5
            case FieldDescriptor.TYPE_ENUM:
                assert field.enum_type is not None
                return random.choice((*field.enum_type.values_by_number, 99, -1))
            case FieldDescriptor.TYPE_FLOAT:
                return random.choice((0.0, -1.0, float("inf"), float("nan")))
            case FieldDescriptor.TYPE_INT64:
                return random.choice(NUMBERS + LARGE)
        return random.choice(NUMBERS)

    def _text(self) -> str:
        some = self.texts if self.texts and self.random.random() < 0.5 else TEXTS
        return self.random.choice(some)


METADATA: Final[tuple[Mapping[str, str], ...]] = (
    {}, {}, {}, {}, {"x_mq_client_id": ""}, {"x_mq_client_id": "x" * 9_000},
    {"x_mq_language": "HTTP"}, {"x_mq_language": "\u20ac" * 300}, {"x_mq_namespace": "n"},
    {"x_mq_namespace": "bad name!"}, {"x_mq_namespace": "x" * 5_000}, {"x_mq_client_version": ""},
)  # fmt: skip


@pytest.fixture
async def texts(desk: OfficialDesk) -> list[str]:
    """Returns handles and ids of messages that wait, are leased, or are half."""
    desk.broker.send.take(desk.broker.send._rules._replace(auto_create_topics=False))
    topics = desk.broker.store.tables.topics
    for name, kind in (("f", "FIFO"), ("d", "DELAY"), ("t", "TRANSACTION")):
        await topics.create(name, queue_count=1, attributes={"message.type": kind})
    await desk.broker.add("orders", *[b"m"] * 20, UNIQ_KEY="1", TAGS="A", n="1")
    await desk.broker.add("f", *[b"m"] * 5, UNIQ_KEY="2", __SHARDINGKEY="m")
    found = [one.system_properties.receipt_handle for one in await desk.received("g", "f")]
    got = await desk.received("g", "orders", batch_size=10)
    found += [one.system_properties.receipt_handle for one in got]
    half = await desk.ask("SendMessage", sent("t", b"m", message_type=pb.TRANSACTION))
    delayed = sent("d", b"m")
    delayed.messages[0].system_properties.delivery_timestamp.FromMilliseconds(
        desk.broker.clock.wall + 60_000
    )
    waits = await desk.ask("SendMessage", delayed)
    return [*found, half.entries[0].transaction_id, waits.entries[0].recall_handle]


def checked(name: str, request: Any, answers: list[Any]) -> int:
    """Returns the code that comes first, seen to be no fault of the broker's."""
    assert answers, name
    for answer in answers:
        if name in ("ReceiveMessage", "PullMessage"):
            assert answer.WhichOneof("content"), (name, str(request)[:2_000])
        statuses = [answer.status] if answer.HasField("status") else []
        statuses += [entry.status for entry in getattr(answer, "entries", ())]
        for status in statuses:
            assert status.code, name
            assert status.code not in OWN_FAULTS, (name, status, str(request)[:2_000])
            assert status.message
            assert len(status.message.encode()) <= TEXT_BYTES_MAX
    return int(answers[0].status.code)


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_a_field_holds_the_answer_says_whose_fault_it_is(
    desk: OfficialDesk, texts: list[str], seed: int
) -> None:
    random = Random(seed)
    maker, names = Maker(random, texts), [row.name for row in TABLE.rows]
    codes: dict[str, set[int]] = {name: set() for name in names}
    for number in range(REQUESTS):
        name = names[number % len(names)]
        call = desk.call(0, **random.choice(METADATA))
        request = maker.message(desk.methods[name].request)
        asked = [request, request] if name == "Telemetry" else request
        answers = await desk.all(name, asked, call)
        if answers:
            codes[name].add(checked(name, request, answers))
    assert all(codes.values()), codes
    assert len(set().union(*codes.values())) > 10, codes


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_its_bytes_are_a_request_is_read_or_refused(
    desk: OfficialDesk, texts: list[str], seed: int
) -> None:
    random = Random(f"bytes {seed}")
    maker, unread_count = Maker(random, texts), 0
    names = [row.name for row in TABLE.rows if row.name != "Telemetry"]
    for number in range(REQUESTS):
        name = names[number % len(names)]
        sound = maker.message(desk.methods[name].request).SerializeToString()
        raw = mutated(random, sound) if random.random() < 0.3 else touched(random, sound)
        answers = await desk.all(name, raw)
        checked(name, raw.hex(), answers)
        kind = desk.methods[name].request.DESCRIPTOR.name
        unread_count += f"it is not a {kind} message" in answers[0].status.message
    assert REQUESTS // 10 < unread_count < REQUESTS * 9 // 10


def touched(random: Random, raw: bytes) -> bytes:
    """Returns bytes of which one may be another."""
    found = bytearray(raw)
    for place in random.sample(range(len(found)), min(1, len(found))):
        found[place] = random.randrange(256)
    return bytes(found)


async def test_what_was_there_is_there_after_it(desk: OfficialDesk, texts: list[str]) -> None:
    random = Random("after")
    maker = Maker(random, [])
    consuming = {"SendMessage", "UpdateOffset", "ReceiveMessage", "PullMessage"}
    names = [row.name for row in TABLE.rows if row.name not in consuming]
    for number in range(REQUESTS):
        name = names[number % len(names)]
        request = maker.message(desk.methods[name].request)
        await desk.all(name, [request] if name == "Telemetry" else request)
    await desk.broker.pass_time(10_001)
    bodies = [one.body for one in await desk.received("g", "orders")]
    assert bodies == [b"m"] * 20
    assert await desk.code("EndTransaction", pb.EndTransactionRequest(
        topic=pb.Resource(name="t"), transaction_id=texts[-2], resolution=pb.COMMIT
    )) == "OK"  # fmt: skip
