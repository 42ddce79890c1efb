"""Send requests of all kinds, and two brokers that must answer each alike.

maker = RequestMaker(Random(1))
async with twins() as (quick, usual): …       equal but for the shortcut, which `quick` takes
await served_alike(quick, usual, maker.some())
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
from random import Random
from typing import Any, Final, Protocol, TypeVar

from google.protobuf.message import Message

from pocketmq.format.properties import PAIR_SEPARATOR
from pocketmq.format.record import split_record
from pocketmq.format.send_request import MESSAGES_MAX
from pocketmq.model.errors import BrokerError
from pocketmq.model.topic import HALF_TOPIC, TYPE_ATTRIBUTE
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import Method, Shortcut
from pocketmq.rpc.v1.send_message import SendMessage
from tests.kit.call import FakeCall
from tests.kit.mutated import mutated
from tests.kit.store_broker import CALL, StoreBroker, store_broker
from tests.kit.store_language import turns
from tests.sim.clock import at

Item = TypeVar("Item")
LONG: Final = "x" * 255
TEXTS: Final = ("A", "TagA", "order-4711", "!~", LONG[:64])
ODD_TEXTS: Final = (
    "",
    " ",
    "a b",
    "a|b",
    "\xfc",
    "\x01",
    "\x7f",
    "\u20ac",
    "\U0001f600",
    LONG + "x",
)
HOSTS: Final = ("10.1.2.3:4567", "[2001:db8::1]:80", "[::ffff:1.2.3.4]:5", "0.0.0.0:0")
ODD_HOSTS: Final = ("", "nowhere", "1.2.3.4:70000", "1.2.3.4:\u0661", "[::1%eth0]:7")
TOPICS: Final = ("orders", "orders", "orders", "wide", "narrow", "T" * 127)
ODD_TOPICS: Final = (
    "",
    "fresh",
    "SELF_TEST_TOPIC",
    "%RETRY%g",
    "sealed",
    "normal",
    "orders\xfc",
    "T" * 128,
)
GROUPS: Final = ("", "payers", "%a|b-_" * 20)
ODD_GROUPS: Final = (" ", "a.b", "\u20ac", "g" * 121)
ODD_NAMES: Final = ("", " ", "KEYS", "TIMER_X", "\xfc", "a b", "DELAY")
ODD_VALUES: Final = ("", "\x02", "\xfc", "\x1f")


class SeededMaker(ABC):
    """Makes requests from a seed."""

    def __init__(self, random: Random, *, properties_max: int = 1) -> None:
        self._random = random
        self._properties_max = properties_max
        self._oddity = 0.0

    def plain(self) -> bytes:
        """Returns a request with nothing unusual in it."""
        self._oddity = 0.0
        return self._request().SerializeToString()

    def some(self) -> bytes:
        """Returns a plain request, a request with unusual parts, or a damaged one."""
        chance = self._random.random()
        if chance < 0.5:
            return self.plain()
        self._oddity = 0.03 if chance < 0.75 else 0.0
        raw = self._request().SerializeToString()
        return raw if chance < 0.75 else mutated(self._random, raw)

    def _of(self, usual: Sequence[Item], odd: Sequence[Item]) -> Item:
        is_odd = self._random.random() < self._oddity
        return self._random.choice(odd if is_odd else usual)

    @abstractmethod
    def _request(self) -> Message:
        """Returns a request of which each part is unusual with a probability."""


class RequestMaker(SeededMaker):
    """Makes requests of pocketmq.v1."""

    def _is_odd(self) -> bool:
        return self._random.random() < self._oddity / 4

    def _request(self) -> pb.SendMessageRequest:
        random = self._random
        count = random.choice((1, 1, 1, 2, 3, 5, 17))
        topic = self._of(TOPICS, ODD_TOPICS)
        queue_id = random.choice((None, None, None, 0, 0 if topic == "narrow" else 1))
        messages = [self._message(topic, queue_id) for _ in range(count)]
        if random.random() < 0.3:
            group = self._of(GROUPS, ODD_GROUPS)
            for message in messages:
                message.transactional = not self._is_odd()
                message.producer_group = group
        request = pb.SendMessageRequest(messages=messages)
        request.wait = self._of((0, 1, 2), (3, -1))  # type: ignore[assignment]
        return request

    def _message(self, topic: str, queue_id: int | None) -> pb.Message:
        random = self._random
        body = random.randbytes(self._of((1, 7, 100, 127, 128, 300), (0, 17_000)))
        message = pb.Message(topic=topic, body=body)
        if queue_id is not None or self._is_odd():
            message.queue_id = self._of((queue_id or 0,), (-1, 2, 7, 1 << 20))
        if random.random() < 0.6:
            message.tag = self._of(TEXTS, ODD_TEXTS)
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            message.keys.append(self._of((*TEXTS, LONG), ODD_TEXTS))
        if random.random() < 0.5:
            message.message_id = self._of((*TEXTS, LONG), ODD_TEXTS)
        for _ in range(random.randrange(self._properties_max + 1)):
            name = self._of(("colour", "a.b", "x"), ODD_NAMES)
            message.properties[name] = self._of(("red", "a b", LONG * 2), ODD_VALUES)
        if random.random() < 0.3:
            message.born_timestamp_ms = self._of((0, 1, 1_795_000_000_123, 2**63 - 1), (-1,))
        if random.random() < 0.3:
            message.born_host = self._of(HOSTS, ODD_HOSTS)
        if random.random() < 0.3:
            message.flag = self._of((0, 1, 2**31 - 1), (-1, -(2**31)))
        if self._is_odd():
            self._spoil(message)
        return message

    def _spoil(self, message: pb.Message) -> None:
        """Adds a part that only the usual path serves."""
        field, value = self._random.choice(
            (("message_group", "g"), ("delay_level", 0), ("deliver_at_ms", 5), ("priority", 0),
             ("transactional", True), ("topic", "orders"), ("message_group", ""), ("delay_ms", 5),
             ("producer_group", "others"), ("first_check_ms", 7_000))
        )  # fmt: skip
        setattr(message, field, value)


class Twin:
    """A broker, and a record of its work."""

    def __init__(
        self, broker: StoreBroker, method: Method, shortcut: Shortcut | None, call: FakeCall
    ) -> None:
        self.broker = broker
        self._method = method
        self._shortcut = shortcut
        self.call = call
        self.shortcut_count = 0

    async def outcome(self, raw: bytes) -> bytes | str:
        """Serves a request; returns the reply, or the error."""
        try:
            reply = self._asked(raw)
            if reply is None:
                return await self._served_the_usual_way(raw)
            self.shortcut_count += 1
            return await reply if isawaitable(reply) else reply
        except BrokerError as error:
            return f"{error.reason}: {error}"

    def _asked(self, raw: bytes) -> bytes | Awaitable[bytes] | None:
        """Returns the shortcut's result, None without a shortcut."""
        if self._shortcut is None:
            return None
        return self._shortcut(raw, self.call.peer_host, self.call.metadata)

    async def _served_the_usual_way(self, raw: bytes) -> bytes:
        method = self._method
        written: bytes = method.writer()(await method.handler(method.reader()(raw), self.call))
        return written

    async def files(self) -> dict[str, bytes]:
        """Returns the content of every file of log, queues and index, once all is dispatched."""
        await self.broker.talking.settled()
        await self.broker.talking.stocked()
        for queue in self.broker.store.views.queues.queues.values():
            queue.units.write_out()
        disk: Any = self.broker.talking.disk
        disk.image.look()
        return {
            path: file.content
            for path, file in disk.image.files()
            if path.startswith(("/store/commitlog/", "/store/consumequeue", "/store/index/"))
        }


def own_twin(broker: StoreBroker, *, is_quick: bool) -> Twin:
    """Returns a broker that serves pocketmq.v1."""
    shortcut = SendMessage(broker.send, messages_max=MESSAGES_MAX).shortcut
    return Twin(broker, broker.methods["SendMessage"], shortcut if is_quick else None, CALL)


class TwinMaker(Protocol):
    """Makes a broker that takes the shortcut, or one that does not."""

    def __call__(self, broker: StoreBroker, *, is_quick: bool) -> Twin: ...


@asynccontextmanager
async def twins(twin: TwinMaker = own_twin, **settings: Any) -> AsyncIterator[tuple[Twin, Twin]]:
    """Opens two equal brokers; the first takes the shortcut where it can."""
    async with store_broker(**settings) as first, store_broker(**settings) as second:
        for broker in (first, second):
            topics = broker.store.tables.topics
            await topics.keep("orders")
            for name, count in (("narrow", 1), ("T" * 127, 3), ("wide", 101)):
                mixed = {TYPE_ATTRIBUTE: "MIXED"}
                await topics.create(name, queue_count=count, attributes=mixed)
            await topics.create("sealed", queue_count=1, permission=4)
            await topics.create("normal", queue_count=1)
            await topics.ensure(HALF_TOPIC, 1)
        yield twin(first, is_quick=True), twin(second, is_quick=False)


async def do_the_same(quick: Twin, usual: Twin, maker: SeededMaker, count: int) -> None:
    """Serves many requests by both brokers, and asserts equal results."""
    for _ in range(count):
        await served_alike(quick, usual, maker.some())
    await hold_alike(quick, usual)
    found, wanted = (
        [(stat.name, getattr(stat, "values", None)) for stat in twin.broker.send.stats]
        for twin in (quick, usual)
    )
    assert found == wanted


async def told_too_late(broker: StoreBroker, answer: Awaitable[bytes]) -> bytes:
    """Returns the reply to a send whose flush exceeds the client's wait."""
    waiting = asyncio.ensure_future(answer)
    await turns()
    assert not waiting.done()
    broker.clock.advance(broker.store.settings.sync_flush_timeout_ms + 1)
    broker.store.writing.durability.step(at(broker.clock.monotonic))
    return await waiting


async def hold_alike(quick: Twin, usual: Twin) -> None:
    """Asserts that the files of both stores are equal."""
    found, wanted = await quick.files(), await usual.files()
    assert found.keys() == wanted.keys()
    assert [path for path in found if found[path] != wanted[path]] == []


async def served_alike(quick: Twin, usual: Twin, raw: bytes) -> None:
    """Serves a request by both brokers; asserts equal replies and appended records."""
    logs = [twin.broker.store.log for twin in (quick, usual)]
    begins = [log.appended for log in logs]
    assert begins[0] == begins[1]
    assert await quick.outcome(raw) == await usual.outcome(raw), raw.hex()
    assert logs[0].appended == logs[1].appended, raw.hex()
    size = logs[0].appended - begins[0]
    found, wanted = (log.read(begins[0], size) for log in logs)
    if found != wanted:
        assert _in_order(found) == _in_order(wanted), raw.hex()


def _in_order(records: bytes) -> list[tuple[bytes, list[str]]]:
    """Returns records with sorted properties: a map of several has no defined order."""
    found, place = [], 0
    while place < len(records):
        head, *_, begin, end = split_record(records, place)
        pairs = records[begin:end].decode().split(PAIR_SEPARATOR)
        found.append((records[place:begin], sorted(pairs)))
        place += head[0]
    return found
