"""Transactions over a real store on a simulated disk, with time that a test moves.

async with transacting(Path("/store"), disk=SimDisk()) as desk:
    first = await desk.half("a")              its transaction's id
    await desk.commit(first)
    assert desk.bodies() == ["a"]
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pocketmq.format.op_message import read_op
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.format.transaction_id import HalfPlace, transaction_id
from pocketmq.model.batch import Destination
from pocketmq.model.errors import RequestError
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import ReadRange
from pocketmq.model.step import Now
from pocketmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.model.transaction import Check, Decision, Resolution
from pocketmq.services.transaction.checking import CheckRules
from pocketmq.services.transaction.transactions import Transactions
from pocketmq.store.job import Job
from tests.kit.rows import Row, batch
from tests.kit.store_language import (
    BORN_HOST,
    BORN_MS,
    STORE_HOST,
    TalkingStore,
    at_once,
    store_at,
    turns,
)

GROUP, TOPIC = "producers", "orders"
RULES = CheckRules(timeout_ms=6_000, interval_ms=30_000, checks_max=3, keep_ms=3_600_000)
SIZES = {"commit_log_file_size_bytes": 1 << 18, "consume_queue_file_size_bytes": 2_000}
COMMIT, ROLLBACK, UNKNOWN = Resolution.COMMIT, Resolution.ROLLBACK, Resolution.UNKNOWN


class TransactionDesk:
    """A store, its transactions, and the clock of both."""

    def __init__(self, talking: TalkingStore, rules: CheckRules = RULES) -> None:
        self.talking = talking
        self.store = talking.store
        self.clock = talking.clock
        self.transactions = Transactions(talking.store, STORE_HOST, rules)
        self.asked: list[Check] = []

    async def half(
        self, body: str, *, group: str = GROUP, key: str = "", queue_id: int = 0,
        topic: str = TOPIC, **more: str,
    ) -> str:  # fmt: skip
        """Puts a half message as a send does; returns its transaction's id."""
        key = key or f"KEY-{body}"
        properties = {
            "UNIQ_KEY": key, "WAIT": "true", "PGROUP": group, "TRAN_MSG": "true",
            "__transactionId__": key, "REAL_TOPIC": topic, "REAL_QID": str(queue_id), **more,
        }  # fmt: skip
        row = Row(body.encode(), encode_properties(properties), 0, BORN_MS, BORN_HOST, key)
        run = (Destination(HALF_TOPIC, 0, STORE_HOST), batch(row))
        (result,) = await self.store.writing.put([run])
        return transaction_id(HalfPlace(result.queue_offset, result.physical_offsets[0], key))

    async def decide(
        self, resolution: Resolution, *ids: str, group: str = GROUP
    ) -> list[RequestError | None]:
        """Applies decisions; returns the refusal of each."""
        decisions = [Decision(one, resolution) for one in ids]
        answers = await self.transactions.decide(group, decisions)
        assert [answer.transaction_id for answer in answers] == list(ids)
        return [answer.error for answer in answers]

    async def commit(self, *ids: str) -> None:
        """Commits transactions; asserts that none is refused."""
        assert await self.decide(COMMIT, *ids) == [None] * len(ids)
        await self.settled()

    async def roll_back(self, *ids: str) -> None:
        """Rolls back transactions; asserts that none is refused."""
        assert await self.decide(ROLLBACK, *ids) == [None] * len(ids)
        await self.settled()

    def listen(self, group: str = GROUP) -> None:
        """Registers a producer that answers checks."""

        def offer(check: Check) -> bool:
            self.asked.append(check)
            return True

        self.transactions.join(group, offer)

    async def settled(self) -> None:
        """Waits until all stored messages are visible."""
        await self.store.writing.drain()
        await self.talking.settled()
        await turns()

    async def run(self, by_ms: int = 0) -> None:
        """Advances the clock in pieces of half a second, and runs the steps that are due."""
        while True:
            for _ in range(100):
                now = Now(self.clock.monotonic_ms(), self.clock.wall_ms())
                following = self.transactions.step(now)
                if not isinstance(following.mark, Job):
                    break
                await following.mark.reached()
            await self.settled()
            if by_ms <= 0:
                return
            self.clock.advance(min(by_ms, 500))
            by_ms -= 500

    def messages(self, topic: str = TOPIC, queue_id: int = 0) -> list[StoredMessage]:
        """Returns the messages of a queue."""
        wanted = ReadRange(topic, queue_id, 0, 1024, 1 << 24)
        return [decode_record(one) for one in at_once(self.store.reading.pull(wanted)).records]

    def bodies(self, topic: str = TOPIC, queue_id: int = 0) -> list[str]:
        """Returns the bodies of a queue's messages."""
        return [message.body.decode() for message in self.messages(topic, queue_id)]

    def halves(self) -> list[StoredMessage]:
        """Returns all half messages, done or not."""
        return self.messages(HALF_TOPIC)

    def given_up(self) -> list[str]:
        """Returns the bodies of half messages that expired undecided."""
        return self.bodies(GIVEN_UP_TOPIC)

    def named(self) -> list[list[int]]:
        """Returns the half messages that each op message names."""
        wanted = ReadRange(OP_HALF_TOPIC, 0, 0, 1024, 1 << 24)
        return [read_op(record) for record in at_once(self.store.reading.pull(wanted)).records]


@asynccontextmanager
async def transacting(
    directory: Path, rules: CheckRules = RULES, **settings: Any
) -> AsyncIterator[TransactionDesk]:
    """Opens a store, finds its half messages, and closes it in the end.

    settings   of the store, `clock` and `disk` as for `store_at`
    """
    async with store_at(directory, **{**SIZES, **settings}) as talking:
        talking.store.tables.topics.adopt(TOPIC, 2)
        desk = TransactionDesk(talking, rules)
        await desk.transactions.recover()
        yield desk
        await desk.transactions.close()
