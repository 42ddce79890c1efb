"""A broker with the tenants `mine` and `other`, and checks that neither affects the other.

async with two_tenants() as world:
    await world.desk.ask("Admin/ListDelayed", topic=MINE.topic)     with all grants on mine
    world.leaks(answer, {})                                         what it reveals of the other
    await world.standing()                                          the state of the other
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from pocketmq.model.access import User
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.services.admin.delayed import Delayed
from pocketmq.services.sessions.questions import Command
from pocketmq.services.sessions.sessions import ClientKind, Described
from tests.kit.authorised import AuthorisedBroker, authorised_broker
from tests.sim.clock import START_MS


class Tenant(NamedTuple):
    """Names of one tenant's topics, groups and clients."""

    topic: str
    group: str
    client: str
    ids: str
    body: str


MINE: Final = Tenant("minetopic", "minegroup", "c@1", "MINE", "plain")
OTHER: Final = Tenant("othertopic", "othergroup", "c@other", "OTHER", "S3CRET")
GRANTS: Final = (f"all topic:{MINE.topic}", f"all group:{MINE.group}")
HOUR_MS: Final = 3_600_000
MESSAGES: Final = 37
"""Number of messages in the other tenant's topic; no number of mine equals it."""
STANDS_AT: Final = 29
DUE_MS: Final = START_MS + 2 * HOUR_MS + 123_000
RETRY: Final = f"%RETRY%{OTHER.group}_{MINE.topic}"
"""Retry topic in which the other tenant's group gets messages of my topic again."""


class TwoTenants:
    """The broker, and the handles and ids that its calls use."""

    def __init__(self, desk: AuthorisedBroker) -> None:
        self.desk = desk
        self.asked: list[Command] = []
        """Commands that the other tenant's client received."""
        self.values: dict[str, tuple[str, list[str]]] = {}
        """Values by kind: mine, and the other tenant's."""

    # -- what is there -------------------------------------------------------------------------
    async def populate(self) -> None:
        """Stores the messages and state of both tenants."""
        desk, tables = self.desk, self.desk.store.tables
        for one in (MINE, OTHER):
            tables.topics.adopt(one.topic, 1)
            await tables.groups.ensure(one.group)
        for topic in (RETRY, f"%DLQ%{OTHER.group}", f"%DLQ%{MINE.group}"):
            tables.topics.adopt(topic, 1)
        await self._send(MINE, 3)
        await self._send(OTHER, MESSAGES)
        own, others = (
            {"ORIGIN_GROUP": OTHER.group},
            {"RETRY_TOPIC": MINE.topic, "UNIQ_KEY": "MINE-0"},
        )
        await self._add(RETRY, own | others)
        await self._add(f"%DLQ%{OTHER.group}", others)
        sent_to = {"RETRY_TOPIC": OTHER.topic, "DLQ_ORIGIN_TOPIC": OTHER.topic, "UNIQ_KEY": "X"}
        await self._add(f"%DLQ%{MINE.group}", sent_to)
        set_many = tables.offsets.set_many
        await set_many(OTHER.group, OTHER.topic, {0: STANDS_AT})
        await set_many(OTHER.group, MINE.topic, {0: 1})
        await set_many(MINE.group, MINE.topic, {0: 1})
        await set_many(MINE.group, OTHER.topic, {0: STANDS_AT})
        self._connect()
        handles = [await self._received(one) for one in (OTHER, MINE)]
        timed = [await self._timed(one) for one in (OTHER, MINE)]
        halves = [await self._half(one) for one in (OTHER, MINE)]
        found = await desk.ask("Admin/QueryById", "admin", topic=OTHER.topic, id="OTHER-0")
        message_ids = ["OTHER-0", "OTHER-TIMED", "OTHER-HALF", found.message.offset_message_id]
        self.values = {
            "topic": (MINE.topic, [OTHER.topic, RETRY, f"%DLQ%{OTHER.group}"]),
            "group": (MINE.group, [OTHER.group]),
            "client": (MINE.client, [OTHER.client]),
            "message": ("MINE-0", message_ids),
            "handle": (handles[1], [handles[0]]),
            "recall": (timed[1], [timed[0]]),
            "transaction": (halves[1], [halves[0]]),
        }
        await desk.broker.talking.settled()

    async def _send(self, one: Tenant, count: int) -> None:
        messages = [
            pb.Message(
                topic=one.topic, body=one.body.encode(), keys=["k"], queue_id=0,
                message_id=f"{one.ids}-{number}", tag=one.body,
            )
            for number in range(count)
        ]  # fmt: skip
        await self.desk.ask("Broker/SendMessage", "admin", messages=messages)

    async def _add(self, topic: str, properties: Mapping[str, str]) -> None:
        more: dict[str, Any] = {**properties, "KEYS": "k"}
        await self.desk.broker.add(topic, OTHER.body.encode(), **more)

    def _connect(self) -> None:
        self.desk.access.table.roster.add(User("other", "the-other-one"))
        self.desk.access.refresh()
        sessions, session_id = self.desk.broker.sessions, f"other {OTHER.client}"

        def say(command: Command) -> bool:
            self.asked.append(command)
            return True

        sessions.open_stream(session_id, say)
        sessions.describe(session_id, Described(ClientKind.PUSH_CONSUMER, OTHER.group, "JAVA", "5"))

    async def _received(self, one: Tenant) -> str:
        answer = await self.desk.ask(
            "Broker/Receive", "admin",
            group=one.group, topic=one.topic, max_messages=1, invisible_ms=10 * HOUR_MS,
            client_id=one.client,
        )  # fmt: skip
        (handle,) = answer.receipt_handles
        return str(handle)

    async def _timed(self, one: Tenant) -> str:
        due_ms = DUE_MS if one is OTHER else DUE_MS - HOUR_MS
        message = pb.Message(
            topic=one.topic, body=one.body.encode(), message_id=f"{one.ids}-TIMED",
            deliver_at_ms=due_ms,
        )  # fmt: skip
        answer = await self.desk.ask("Broker/SendMessage", "admin", messages=[message])
        return str(answer.results[0].recall_handle)

    async def _half(self, one: Tenant) -> str:
        message = pb.Message(
            topic=one.topic, body=one.body.encode(), message_id=f"{one.ids}-HALF",
            transactional=True, producer_group=one.group,
        )  # fmt: skip
        answer = await self.desk.ask("Broker/SendMessage", "admin", messages=[message])
        return str(answer.results[0].transaction_id)

    # -- what is told, and what it stands at ---------------------------------------------------
    def leaks(self, answer: Any, given: Iterable[str]) -> list[str]:
        """Returns what an answer reveals of the other tenant beyond the request's own words."""
        known = {text.removeprefix(prefix) for text in given for prefix in ("", "%RETRY%", "%DLQ%")}
        found: list[str] = []
        for value in _leaves(answer):
            if isinstance(value, int):
                if value in (MESSAGES, STANDS_AT, DUE_MS):
                    found.append(str(value))
                continue
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            for said in sorted(known, key=len, reverse=True):
                text = text.replace(said, "") if said else text
            secrets = [*self.values["handle"][1], *self.values["recall"][1]]
            secrets += self.values["transaction"][1]
            named = ("S3CRET", "OTHER", OTHER.topic, OTHER.group, OTHER.client)
            found += [text for secret in (*named, *secrets) if secret in text]
        return found

    async def standing(self) -> dict[str, Any]:
        """Returns the present state of the other tenant."""
        store, broker = self.desk.store, self.desk.broker
        await broker.talking.settled()
        offsets = store.tables.offsets.all_of(OTHER.group)
        delayed = await Delayed(store).of_id("OTHER-TIMED")
        halves = await self.desk.ask("Admin/ListTransactions", "admin", topic=OTHER.topic)
        queues = {
            topic: store.reading.queue_range(topic, 0)
            for topic in (OTHER.topic, f"%DLQ%{OTHER.group}", f"%RETRY%{OTHER.group}")
        }
        group = (OTHER.group, OTHER.topic)
        if store.tables.topics.find(MINE.topic) is None:  # These fields are no longer in it.
            offsets = {**offsets, MINE.topic: {0: 1}}
        return {
            "topic": str(store.tables.topics.find(OTHER.topic)),
            "group": str(store.tables.groups.find(OTHER.group)),
            "offsets": offsets,
            "queues": queues,
            "leased": str(broker.consume.leased().get(group)),
            "delayed": [one.deliver_at_ms for one in delayed],
            "halves": [row.transaction_id for row in halves.transactions],
            "asked": len(self.asked),
            "streams": broker.sessions.has_stream(f"other {OTHER.client}"),
            "users": sorted(self.desk.access.table.roster.users),
            "grants": len(self.desk.access.table.roster.grants),
        }


def _leaves(answer: Any) -> Iterator[Any]:
    """Yields every number and text of an answer."""
    if isinstance(answer, list):
        for one in answer:
            yield from _leaves(one)
        return
    if not isinstance(answer, Message):
        if not isinstance(answer, bool | float):
            yield answer
        return
    for field, value in answer.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            yield from _leaves([*value.keys()])
            yield from _leaves([*value.values()])
        elif isinstance(value, Message | str | bytes | int | float):
            yield from _leaves(value)
        else:
            yield from _leaves([*value])


@asynccontextmanager
async def two_tenants() -> AsyncIterator[TwoTenants]:
    """Opens a broker whose user app may do everything to `mine`, and nothing else."""
    async with authorised_broker(*GRANTS) as desk:
        world = TwoTenants(desk)
        await world.populate()
        yield world
