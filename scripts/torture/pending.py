"""Hands pending messages from PocketMQ ("ours") to RocketMQ ("real") and back, and vice versa.

    ours      accepts delay levels, near and far delivery times, recalls, transactions; serves for a
              while, and stops
    real      opens the store, checks undecided transactions with its producer, runs until all near
              messages are delivered, reports all messages
    ours      opens it again with a clock three days ahead, and delivers all remaining messages

In the other direction PocketMQ delivers the messages that RocketMQ left pending. A message's key is
its number. In the end each due message must be in its topic once, and not before its second;
recalled and rolled back messages must not be there. Requires a JDK 17, and Maven or the jars of
RocketMQ 5.5.0.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.budget import Budget
from harness.inside import SetClock, opened_broker
from pocketmq.app.parts import Parts
from pocketmq.files.disk import Disk
from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.format.transaction_id import HalfPlace, transaction_id
from pocketmq.model.step import Clock, SystemClock
from pocketmq.model.transaction import Decision, Resolution
from pocketmq.rebuild.log_files import KnownShape, find_log_files
from pocketmq.services.produce.drafts import ABSENT_QUEUE, AT_ONCE, PEER, DeliveryRequest, Drafts
from pocketmq.services.produce.send import Sent
from pocketmq.store.message_store import MessageStore
from pocketmq.tools.pending.listing import pending_messages
from pocketmq.tools.pending.timers import LEASE
from pocketmq.tools.selection import LogSearch
from pocketmq.tools.verify.verification import VerifyOptions, verify
from torture.handover import HOST, SIZES, VERSION
from torture.judged import Truth
from torture.real_broker import Plan, Real, real, run_real

TOPIC, PAID = "later", "pay"
PRODUCER: Final = PAID
"""Producer group of half messages; RocketMQ's producer decides them by their property ANSWER."""
ANSWER: Final = "answer"
KEY: Final = "number-"
"""Prefix of a message's key; not the flag, which RocketMQ drops from checked half messages."""
ADDRESS: Final = "127.0.0.1:10911"
OURS_MS: Final = 4_000
"""Duration of PocketMQ's service before it stops."""
REAL_MS: Final = 45_000
"""Wait for RocketMQ: it delivers all near messages, and receives the answers to its checks."""
NEAR_MS: Final = (1_500, 3_000, 9_000, 20_000)
"""Delays that end while PocketMQ runs, at about its stop, and while RocketMQ runs."""
FAR_MS: Final = (3_600_000, 100_000_000, 170_000_000)
ROLLED_MS: Final = 190_000_000
"""A delay above two days, after which the timer enqueues a message again."""
LEVELS: Final = (1, 2, 3, 17)
GIVEN: Final = {"at": 6, "later": 6, "pay": 5}
"""Messages that RocketMQ delivers at once; equally many stay pending, except transactions."""
AHEAD_MS: Final = 3 * 86_400_000
TIMER_LOG: Final = "mappedFileSizeTimerLog"
SETTINGS: Final = {
    **SIZES, TIMER_LOG: "5216", "transactionCheckInterval": "4000",
    "transactionTimeOut": "2000", "timerWheelEnable": "true",
}  # fmt: skip
FIGURES: Final = (
    "stores", "delivered under ours", "delivered by the real broker", "recalled", "far",
    "transactions decided", "undecided, answered to the real broker", "delivered by ours at last",
    "left by the real broker, delivered by ours",
)  # fmt: skip


@dataclass
class Made:
    """Numbers of messages by expected outcome.

    due_ms    earliest delivery time by number
    near      delivered while PocketMQ or RocketMQ runs
    far       delivered up to two days later
    never     recalled, rolled back, or never decided
    answered  half messages that RocketMQ checks and its producer commits
    """

    near: set[int] = field(default_factory=set)
    far: set[int] = field(default_factory=set)
    never: set[int] = field(default_factory=set)
    answered: set[int] = field(default_factory=set)
    due_ms: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def next(self, place: set[int]) -> int:
        """Returns a new number, and adds it to `place`."""
        self.count += 1
        place.add(self.count)
        return self.count


@asynccontextmanager
async def serving(directory: Path, clock: Clock) -> AsyncIterator[tuple[MessageStore, Parts]]:
    """Runs PocketMQ on a store, without transports."""
    sizes = {**SIZES, TIMER_LOG: SETTINGS[TIMER_LOG]}
    assignments = [f"{name}={value}" for name, value in sizes.items()]
    assignments += [
        "broker.name=real", "broker.cluster=DefaultCluster", "limits.delay_max_ms=3d",
        f"store.directory={directory}",
    ]  # fmt: skip
    async with opened_broker(assignments, clock, ADDRESS) as (store, parts, runner):
        await parts.recover()
        runner.run(*parts.steps)
        yield store, parts


async def sent(
    parts: Parts, topic: str, number: int, delivery: DeliveryRequest = AT_ONCE, **properties: str
) -> Sent:
    """Sends the message of a number."""
    drafts = Drafts(
        wait=True, topics=[topic], bodies=[str(number).encode()], tags=[""],
        keys=[[f"{KEY}{number}"]], message_ids=[""], queue_ids=[ABSENT_QUEUE], groups=[""],
        born_ms=[0], born_hosts=[PEER], flags=[number], properties=[properties],
        deliveries=[delivery],
    )  # fmt: skip
    return await parts.backing.send.send(drafts, HOST)


async def make(directory: Path, chance: Random) -> Made:
    """Makes a store with all kinds of pending messages, serves it for `OURS_MS`, and stops."""
    made, clock = Made(), SetClock()
    async with serving(directory, clock) as (store, parts):
        await store.tables.topics.create(TOPIC, queue_count=2)
        await store.tables.topics.create(PAID, queue_count=1)
        begun = clock.wall_ms()
        orders: list[Callable[[], Coroutine[Any, Any, None]]] = []
        for delay in NEAR_MS:
            orders += [partial(_timed, parts, made, made.near, begun + delay)] * 3
            orders += [partial(_recalled, parts, made, begun + delay + OURS_MS)]
        for delay in (*FAR_MS, ROLLED_MS):
            orders += [partial(_timed, parts, made, made.far, begun + delay)] * 2
            orders += [partial(_recalled, parts, made, begun + delay)]
        for level in LEVELS:
            orders += [partial(_levelled, parts, made, level)] * 2
        for resolution in Resolution:
            orders += [partial(_decided, parts, made, resolution)] * 3
        chance.shuffle(orders)
        for order in orders:
            await order()
        await asyncio.sleep(OURS_MS / 1000)
    return made


async def _timed(parts: Parts, made: Made, place: set[int], at_ms: int) -> None:
    number = made.next(place)
    made.due_ms[number] = at_ms - 1_000
    await sent(parts, TOPIC, number, DeliveryRequest(deliver_at_ms=at_ms))


async def _recalled(parts: Parts, made: Made, at_ms: int) -> None:
    found = await sent(parts, TOPIC, made.next(made.never), DeliveryRequest(deliver_at_ms=at_ms))
    await parts.backing.send.recall.recall(TOPIC, found.handles[0], HOST)


async def _levelled(parts: Parts, made: Made, level: int) -> None:
    number = made.next(made.near if level < LEVELS[-1] else made.far)
    made.due_ms[number] = SystemClock().wall_ms() + (0, 1_000, 5_000, 10_000)[level % 17]
    await sent(parts, TOPIC, number, DeliveryRequest(delay_level=level))


async def _decided(parts: Parts, made: Made, resolution: Resolution) -> None:
    """Sends a transaction and decides it, or leaves the decision to RocketMQ's producer."""
    is_commit = resolution is Resolution.COMMIT
    number = made.next(made.near if is_commit else made.never)
    found = await sent(parts, PAID, number, DeliveryRequest(transactional=True))
    if resolution is not Resolution.UNKNOWN:
        half = HalfPlace(
            found.queue_offsets[0], found.result.physical_offsets[0], found.message_ids[0]
        )
        decision = Decision(transaction_id(half), resolution)
        (done,) = await parts.backing.transactions.decide(PRODUCER, [decision])
        assert done.error is None, done.error
    other = made.next(made.answered if is_commit else made.never)
    await sent(
        parts, PAID, other, DeliveryRequest(transactional=True), **{ANSWER: resolution.value}
    )


# -- judging ---------------------------------------------------------------------------------------
def numbers_in(truth: Truth, *topics: str) -> dict[int, list[int]]:
    """Returns the store times of RocketMQ's messages in topics, by number."""
    found: dict[int, list[int]] = {}
    for (topic, _), own in truth.queues.items():
        for message in own if topic in topics else ():
            key = message["properties"].get("KEYS", "")
            if key.startswith(KEY):
                number = int(key.removeprefix(KEY))
                found.setdefault(number, []).append(message["store_timestamp_ms"])
    return found


def stored_in(directory: Path, sizes: KnownShape, *topics: str) -> dict[int, list[int]]:
    """Returns the store times of messages in the log of a stopped store, by number."""
    found: dict[int, list[int]] = {}
    search = LogSearch(find_log_files(directory, sizes.commit_log_file_size_bytes))
    for message in search.messages():
        if message.topic in topics:
            number = int(message.keys[0].removeprefix(KEY))
            found.setdefault(number, []).append(message.store_timestamp_ms)
    return found


def judged(made: Made, found: dict[int, list[int]], wanted: set[int]) -> list[str]:
    """Returns errors: missing, duplicate, early and unexpected messages."""
    wrong = [f"{number} is missing" for number in sorted(wanted - found.keys())]
    for number, times in sorted(found.items()):
        if number not in wanted:
            wrong.append(f"{number} came, but should not have")
        elif len(times) > 1:
            wrong.append(f"{number} came {len(times)} times")
        early = made.due_ms.get(number, 0) - min(times)
        if early > 0:
            wrong.append(f"{number} came {early} ms before its second")
    return wrong


def looked_at(directory: Path, sizes: KnownShape, far: int) -> list[str]:
    """Returns errors: findings of `store verify`, and a wrong number of pending far messages."""
    options = VerifyOptions(now_ms=SystemClock().wall_ms() + AHEAD_MS)
    found = verify(Disk(), directory, sizes, options)
    wrong = [f"{row.file} at {row.offset}: {row.kind}, {row.found}" for row in found.findings]
    waiting = [row for row in pending_messages(Disk(), directory, sizes) if row.kind != LEASE]
    return wrong + ([f"{len(waiting)} wait, not {far}"] if len(waiting) != far else [])


async def take_back(directory: Path) -> None:
    """Serves a store with a clock that is days ahead, until no more messages are delivered."""
    async with serving(directory, SetClock(AHEAD_MS)) as (store, _):
        before, quiet = -1, 0
        while quiet < 20:
            await asyncio.sleep(0.25)
            quiet = quiet + 1 if store.appended == before else 0
            before = store.appended


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Hands stores over and takes them back until the time is over, at least once.

    Errors   NotHere: no JDK, no Maven and no jars; AssertionError: a message is in a wrong place,
             or was delivered at a wrong time
    """
    one = real(VERSION)
    figures = dict.fromkeys(FIGURES, 0)
    for seed in budget.seeds():
        store, run = place / f"store{seed}", f"pending{seed}"
        made = asyncio.run(make(store, Random(seed)))
        sizes = shape_at(store)
        before = stored_in(store, sizes, TOPIC, PAID)
        plan = Plan(run, ("few",), SETTINGS, seed, wait_ms=REAL_MS, producer=PRODUCER)
        truth = Truth()
        truth.add(run_real(one, place / run, store, plan))
        found, near = numbers_in(truth, TOPIC, PAID), made.near | made.answered
        wrong = judged(made, found, near)
        assert not wrong, f"seed {seed}, the real broker: {wrong[:8]}"
        wrong = looked_at(store, sizes, len(made.far))
        assert not wrong, f"seed {seed}, the store it left: {wrong[:8]}"
        asyncio.run(take_back(store))
        wrong = judged(made, stored_in(store, sizes, TOPIC, PAID), near | made.far)
        wrong += looked_at(store, sizes, 0)
        assert not wrong, f"seed {seed}, ours afterwards: {wrong[:8]}"
        counts = (
            1, len(before), len(near - before.keys()), len(NEAR_MS) + len(FAR_MS) + 1,
            len(made.far), 6, 2 * len(made.answered), len(made.far), of_the_real(one, place, seed),
        )  # fmt: skip
        for name, count in zip(FIGURES, counts, strict=True):
            figures[name] += count
    return figures


def of_the_real(one: Real, place: Path, seed: int) -> int:
    """Serves the messages that RocketMQ left pending; returns their number.

    Errors   AssertionError
    """
    store, run = place / f"real{seed}", f"given{seed}"
    truth = Truth()
    plan = Plan(run, ("timers", "delays", "transactions"), SETTINGS, seed, producer=PRODUCER)
    truth.add(run_real(one, place / run, store, plan))
    sizes = shape_at(store)
    came = {topic: _copies(store, sizes, topic) for topic in GIVEN}
    waiting = [row.message_id for row in pending_messages(Disk(), store, sizes)]
    wrong = looked_at(store, sizes, len(waiting))
    sent = {topic: came[topic].total() for topic in GIVEN}
    assert not wrong, f"seed {seed}, what the real broker left: {wrong[:8]}"
    assert sent == GIVEN, f"seed {seed}, the real broker delivered {sent}, not {GIVEN}"
    asyncio.run(take_back(store))
    for topic in GIVEN:
        after = _copies(store, sizes, topic)
        wrong += [f"{topic}: {key} came {count} times" for key, count in after.items() if count > 1]
        wrong += [f"{topic}: {key} is gone" for key in came[topic].keys() - after.keys()]
        came[topic] = after
    lacking = set(waiting) - {key for keys in came.values() for key in keys}
    wrong += [f"{key} never came" for key in lacking]
    wrong += looked_at(store, sizes, 0)
    count = sum(keys.total() for keys in came.values()) - sum(sent.values())
    wrong += [f"{count} came, {len(waiting)} waited"] if count != len(waiting) else []
    assert not wrong, f"seed {seed}, ours on the real broker's store: {wrong[:8]}"
    return count


def _copies(directory: Path, sizes: KnownShape, topic: str) -> Counter[str]:
    """Returns the number of messages in a topic, by unique key."""
    search = LogSearch(find_log_files(directory, sizes.commit_log_file_size_bytes))
    return Counter(message.unique_key for message in search.messages() if message.topic == topic)


def shape_at(directory: Path) -> KnownShape:
    """Returns the shape of these stores, with small files."""
    assert (directory / COMMIT_LOG_DIRECTORY).is_dir()
    return KnownShape(
        commit_log_file_size_bytes=int(SIZES["mappedFileSizeCommitLog"]),
        consume_queue_file_size_bytes=int(SIZES["mappedFileSizeConsumeQueue"]),
        index_slot_count=int(SIZES["maxHashSlotNum"]),
        index_entry_count_max=int(SIZES["maxIndexNum"]),
    )
