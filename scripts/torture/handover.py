"""Hands a store with work in progress from PocketMQ to RocketMQ, and back.

    ours      PocketMQ sends, leases, acknowledges, sends back, dead-letters, delays, leases in FIFO
              order to a second group and acknowledges with gaps; then it stops
    real      RocketMQ opens the store, waits until all leases and delays end, reports all messages
    ours      PocketMQ opens it again: only messages that RocketMQ revived are received; in FIFO
              order unacknowledged messages come first, unchanged

A message's body is its number. After RocketMQ's work it must be in its one of PLACES. RocketMQ
takes stores over in time (before leases end) or late: its timer delivers overdue messages by
several threads, and its revive skips an ack read before its checkpoint. In young stores all leases
are acknowledged or ended. No message may be lost, no settled message redelivered. Requires a JDK
17, and Maven or the jars of RocketMQ 5.5.0, 5.3.3 and 5.0.0.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.budget import Budget
from pocketmq.files.disk import Disk
from pocketmq.filter.tag import EVERYTHING
from pocketmq.format.addresses import host_from_text
from pocketmq.format.names import CONSUMER_OFFSETS_FILE
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.format.table_json import decode_table
from pocketmq.model.administration import GroupSettings
from pocketmq.model.batch import Batch, Destination, Run
from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.model.step import SystemClock
from pocketmq.model.system_topics import QueuePlace, delayed
from pocketmq.services.consume.consume import Consume
from pocketmq.services.consume.journal import ConsumeSettings
from pocketmq.services.delay.timer import Timer
from pocketmq.store.message_store import MessageStore, opened
from pocketmq.store.runner import Runner
from pocketmq.store.settings import StoreSettings
from torture.judged import Truth
from torture.real_broker import Plan, real, run_real

VERSION, OLDER = "5.5.0", ("5.3.3", "5.0.0")
CLUSTER, BROKER = "DefaultCluster", "real"
GROUP, TOPIC, QUEUE_COUNT = "readers", "orders", 3
ORDERLY, ORDERED = "clerks", 4
"""FIFO group, and the number of messages that it receives of each queue before PocketMQ stops."""
HOST: Final = host_from_text("127.0.0.1:10911")
SIZES: Final = {
    "mappedFileSizeCommitLog": "262144", "mappedFileSizeConsumeQueue": "12000",
    "maxHashSlotNum": "101", "maxIndexNum": "500",
}  # fmt: skip
MESSAGES: Final = 96
IN_TIME, LATE, YOUNG = "in time", "late", "young"
LEASES_MS: Final = {IN_TIME: (45_000, 55_000), LATE: (5_000, 8_000)}
"""Durations of leases, and of leases with a changed invisible duration."""
YOUNG_MS, YOUNG_ROUNDS = 2_000, 3
"""Duration of the leases of young stores, and number of rounds of receives."""
WAIT_MS: Final = {IN_TIME: 70_000, LATE: 30_000, YOUNG: 25_000}
"""Wait after RocketMQ's start: longest lease, and delays of its timer and its revive."""
TAKEN_OVER_BY: Final = {
    IN_TIME: (VERSION,), LATE: (VERSION, OLDER[0]), YOUNG: (VERSION, *OLDER),
}  # fmt: skip
LEASE_RETRY, RETRY, DEAD = f"%RETRY%{GROUP}_{TOPIC}", f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
LEVEL, LEVEL_COUNT = 2, 18
"""Delay level of 5 s, and number of levels."""
DELAYED: Final = 8
NOBODY, ACKED = "not received", "acknowledged"
FIGURES: Final = (
    "stores", "leases revived", "retries delivered", "dead letters", "delayed delivered",
    "leased in order", "settled messages", "settled that came again, taken over late",
)  # fmt: skip
PLACES: Final = (NOBODY, ACKED, LEASE_RETRY, RETRY, DEAD)


@dataclass
class Made:
    """Message numbers of a store by expected final place."""

    at: dict[str, set[int]] = field(default_factory=lambda: {place: set() for place in PLACES})
    delayed: set[int] = field(default_factory=set)
    """Messages that a producer delayed; they are delivered to TOPIC."""
    ordered: dict[int, bool] = field(default_factory=dict)
    """Messages received in FIFO order; the value tells whether it was acknowledged."""

    def __post_init__(self) -> None:
        assert set(self.at) == set(PLACES)


class Desk:
    """PocketMQ on a store, without transports."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.consume = Consume(store, ConsumeSettings(CLUSTER, BROKER, HOST))
        self._timer = Timer(store, HOST, self.consume.is_lease_open)
        self._runner = Runner(store.clock)

    async def begin(self, *, ends_leases: bool = False) -> None:
        """Loads open leases, and starts the timer.

        ends_leases   whether expired leases are handled
        """
        await self.consume.recover()
        self._runner.run(self._timer.step, *([self.consume.step] if ends_leases else []))

    async def end(self) -> None:
        """Waits until the timer has enqueued all delayed messages, then stops in order."""
        while self._timer.lag:  # noqa: ASYNC110 - its steps run meanwhile
            await asyncio.sleep(0.01)
        self.consume.drain()
        self._runner.close()
        await self.consume.close()
        await self._timer.close()

    async def receive(self, count: int, invisible_ms: int = 30_000, group: str = GROUP) -> Received:
        """Receives at most `count` messages."""
        asked = ReceiveRequest(group, TOPIC, EVERYTHING, count, invisible_ms, 0)
        found = self.consume.receive(asked)
        received: Received = await found if isawaitable(found) else found
        return received

    async def put(self, runs: Iterable[Run]) -> None:
        """Stores runs and waits until they are visible."""
        await self.store.writing.put(list(runs))
        await self.store.flush()
        await self.store.marks.dispatched.reached(self.store.appended)


def settings_of(directory: Path) -> StoreSettings:
    """Returns the settings of a store of small files."""
    return StoreSettings(
        directory=directory,
        commit_log_file_size_bytes=int(SIZES["mappedFileSizeCommitLog"]),
        consume_queue_file_size_bytes=int(SIZES["mappedFileSizeConsumeQueue"]),
        index_slot_count=int(SIZES["maxHashSlotNum"]),
        index_entry_count_max=int(SIZES["maxIndexNum"]),
    )


def message(number: int, *, level: int = 0) -> Run:
    """Returns a message as a producer sends it, delayed if `level` is not 0."""
    place = QueuePlace(TOPIC, number % QUEUE_COUNT)
    key = f"7F0000010001{number:020X}"
    properties = {
        "UNIQ_KEY": key, "WAIT": "true", "KEYS": f"k{number}", "TAGS": f"t{number % 3}",
        "CLUSTER": CLUSTER, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip
    if level:
        disguise = delayed(place, level, LEVEL_COUNT)
        place, properties = disguise.place, disguise.applied(properties)
    batch = Batch(
        bodies=[str(number).encode()], property_blocks=[encode_properties(properties)],
        unique_keys=[key], keys=[f"k{number}"], tags=[f"t{number % 3}"],
        born_ms=[SystemClock().wall_ms()], born_hosts=[HOST], flags=[number], reconsume_times=[0],
    )  # fmt: skip
    return Destination(place.topic, place.queue_id, HOST), batch


async def make(directory: Path, chance: Random, leases_ms: tuple[int, int]) -> Made:
    """Makes a store with open leases, acks, retries, dead letters and delays."""
    made = Made()
    async with opened(settings_of(directory), SystemClock(), Disk()) as store:
        desk = Desk(store)
        await store.tables.topics.create(TOPIC, queue_count=QUEUE_COUNT)
        await store.tables.groups.create(GROUP, GroupSettings(max_attempts=4))
        await store.tables.groups.create(ORDERLY, GroupSettings(fifo=True))
        await desk.begin()
        numbers = range(MESSAGES)
        await desk.put(map(message, numbers))
        left = set(numbers)
        while len(left) > MESSAGES // 6:
            received = await desk.receive(chance.randint(1, 8), leases_ms[0])
            left -= await _settle(desk, received, made, chance, leases_ms[1])
        made.at[NOBODY] = left
        await _receive_in_order(desk, made, leases_ms[0])
        made.delayed = set(range(MESSAGES, MESSAGES + DELAYED))
        await desk.put(message(number, level=LEVEL) for number in sorted(made.delayed))
        await desk.end()
        stood = store.tables.offsets.all_of(GROUP)
    found = decode_table((directory / "config" / CONSUMER_OFFSETS_FILE).read_bytes())
    saved = {name: found["offsetTable"].get(f"{name}@{GROUP}") for name in stood}
    assert saved == stood, f"the group stands at {stood}, on disk at {saved}"
    return made


async def make_young(directory: Path, chance: Random) -> Made:
    """Makes a store in which all leases are settled, the last ones just before it stops.

    Some messages were acknowledged shortly before their lease's end, others after a redelivery.
    """
    made = Made()
    async with opened(settings_of(directory), SystemClock(), Disk()) as store:
        desk = Desk(store)
        await store.tables.topics.create(TOPIC, queue_count=QUEUE_COUNT)
        await store.tables.groups.create(GROUP, GroupSettings(max_attempts=4))
        await store.tables.groups.create(ORDERLY, GroupSettings(fifo=True))
        await desk.begin(ends_leases=True)
        numbers = range(MESSAGES)
        await desk.put(map(message, numbers))
        made.at[NOBODY] = set(numbers)
        for number in range(YOUNG_ROUNDS):
            settled = [await desk.receive(4, YOUNG_MS) for _ in range(chance.randint(1, 4))]
            if number == YOUNG_ROUNDS - 1:  # Earlier, some would be received again.
                late = await desk.receive(chance.randint(1, 4), YOUNG_MS // 2)
                made.at[LEASE_RETRY] |= _numbers_in(late)
            await asyncio.sleep(chance.choice((0.2, 0.8, 1.4)))
            for received in settled:
                await desk.consume.ack(GROUP, TOPIC, received.handles)
                made.at[ACKED] |= _numbers_in(received)
            await asyncio.sleep(chance.choice((0, 0.6, 1.3)))
        while desk.consume.lease_count:  # noqa: ASYNC110 - its steps run meanwhile
            await asyncio.sleep(0.01)
        made.at[NOBODY] -= made.at[ACKED] | made.at[LEASE_RETRY]
        await desk.end()
    return made


def _numbers_in(received: Received) -> set[int]:
    return {int(decode_record(record).body) for record in received.records}


async def _receive_in_order(desk: Desk, made: Made, lease_ms: int) -> None:
    """Leases some messages of each queue in FIFO order, and acknowledges every other one."""
    for _ in range(QUEUE_COUNT):
        received = await desk.receive(ORDERED, lease_ms, ORDERLY)
        numbers = [int(decode_record(record).body) for record in received.records]
        assert len(numbers) == ORDERED
        made.ordered.update({number: place % 2 == 0 for place, number in enumerate(numbers)})
        await desk.consume.ack(ORDERLY, TOPIC, received.handles[::2])


async def _settle(
    desk: Desk, received: Received, made: Made, chance: Random, changed_ms: int
) -> set[int]:
    """Settles each message in a random way; returns their numbers."""
    consume, found = desk.consume, set()
    for record, handle in zip(received.records, received.handles, strict=True):
        number = int(decode_record(record).body)
        found.add(number)
        way = chance.random()
        if way < 0.5:
            made.at[ACKED].add(number)
            await consume.ack(GROUP, TOPIC, [handle])
        elif way < 0.7:
            made.at[LEASE_RETRY].add(number)
        elif way < 0.8:
            made.at[LEASE_RETRY].add(number)
            await consume.change_invisible(GROUP, TOPIC, [(handle, changed_ms)])
        elif way < 0.9:
            made.at[RETRY].add(number)
            await consume.send_back(GROUP, TOPIC, [(handle, LEVEL)])
        else:
            made.at[DEAD].add(number)
            await consume.forward_to_dead_letters(GROUP, TOPIC, [handle])
    return found


def numbers_of(truth: Truth, topic: str) -> list[int]:
    """Returns the numbers of RocketMQ's messages in a topic, duplicates included."""
    found = [m for (name, _), own in truth.queues.items() if name == topic for m in own]
    return sorted(message["flag"] for message in found)


def judged(made: Made, truth: Truth) -> tuple[list[str], list[int]]:
    """Returns errors (missing and unexpected messages), and settled messages that were revived."""
    wanted = {
        TOPIC: sorted([*range(MESSAGES), *made.delayed]),
        **{topic: sorted(made.at[topic]) for topic in (LEASE_RETRY, RETRY, DEAD)},
    }
    wrong: list[str] = []
    again: list[int] = []
    for topic, numbers in wanted.items():
        found = numbers_of(truth, topic)
        if topic == LEASE_RETRY:
            again = sorted({*set(found) - set(numbers), *twice(found)})
            found = sorted({number for number in found if number in numbers})
        if found != numbers:
            more = sorted(set(found) - set(numbers)) + twice(found)
            wrong.append(f"{topic}: lacks {sorted(set(numbers) - set(found))}, more are {more}")
    for (topic, _), own in truth.queues.items():
        times = {message["reconsume_times"] for message in own}
        if topic in (LEASE_RETRY, RETRY, DEAD) and times - {1}:
            wrong.append(f"{topic}: retried {sorted(times)} times")
    return wrong, again


def twice(numbers: Sequence[int]) -> list[int]:
    """Returns the numbers that occur more than once."""
    return sorted({number for number in numbers if numbers.count(number) > 1})


async def take_back(directory: Path, made: Made, again: Sequence[int]) -> list[str]:
    """Receives all messages of a store after RocketMQ; returns the errors.

    again   settled messages that RocketMQ revived
    """
    async with opened(settings_of(directory), SystemClock(), Disk()) as store:
        desk = Desk(store)
        await desk.begin()
        wrong = [f"{name} leased" for name in desk.consume.in_flight()]
        found: dict[int, int] = {}
        more = await desk.receive(32)
        while more.records:
            for record, attempt in zip(more.records, more.attempts, strict=True):
                number = int(decode_record(record).body)
                is_twice = number in found and number not in again
                wrong += [f"{number} was received twice"] if is_twice else []
                found[number] = attempt
            await desk.consume.ack(GROUP, TOPIC, more.handles)
            more = await desk.receive(32)
        wrong += await _continued_in_order(desk, made)
        await desk.end()
    retried = made.at[LEASE_RETRY] | made.at[RETRY] | set(again)
    wanted = dict.fromkeys(made.at[NOBODY] | made.delayed, 1) | dict.fromkeys(retried, 2)
    for number in sorted(wanted.keys() | found.keys()):
        if wanted.get(number) != found.get(number):
            text = f"{number}: attempt {found.get(number)}, not {wanted.get(number)}"
            wrong.append(text)
    return wrong


async def _continued_in_order(desk: Desk, made: Made) -> list[str]:
    """Receives all remaining messages in FIFO order; returns the errors."""
    found: dict[int, dict[int, int]] = {queue_id: {} for queue_id in range(QUEUE_COUNT)}
    while (more := await desk.receive(32, group=ORDERLY)).records:
        for record, attempt in zip(more.records, more.attempts, strict=True):
            number = int(decode_record(record).body)
            found[number % QUEUE_COUNT][number] = attempt
        await desk.consume.ack(ORDERLY, TOPIC, more.handles)
    wanted: dict[int, dict[int, int]] = {queue_id: {} for queue_id in range(QUEUE_COUNT)}
    for number in [*range(MESSAGES), *sorted(made.delayed)]:
        if not made.ordered.get(number, False):
            wanted[number % QUEUE_COUNT][number] = 2 if number in made.ordered else 1
    return [
        f"in order, queue {queue_id}: {found[queue_id]}, not {own}"
        for queue_id, own in wanted.items()
        if list(found[queue_id].items()) != list(own.items())
    ]


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Hands stores over and takes them back until the time is over, at least once.

    Errors   NotHere: no JDK, no Maven and no jars; AssertionError: a message is in a wrong place
    """
    figures = dict.fromkeys(FIGURES, 0)
    while not figures["stores"] or budget.left():
        for mode, versions in TAKEN_OVER_BY.items():
            for version in versions:
                _handed_over(place, budget.seed + figures["stores"], mode, version, figures)
    return figures


def _handed_over(place: Path, seed: int, mode: str, version: str, figures: dict[str, int]) -> None:
    """Hands one store over and takes it back; updates the figures."""
    store, run = place / f"store{seed}", f"over{seed}"
    chance = Random(seed)
    if mode == YOUNG:
        made = asyncio.run(make_young(store, chance))
    else:
        made = asyncio.run(make(store, chance, LEASES_MS[mode]))
    settings = {**SIZES, "brokerName": BROKER}
    truth = Truth()
    plan = Plan(run, ("",), settings, seed, wait_ms=WAIT_MS[mode])
    truth.add(run_real(real(version), place / run, store, plan))
    wrong, again = judged(made, truth)
    wrong += [f"{again} came again"] if again else []
    assert not wrong, f"seed {seed}, {mode}, RocketMQ {version}: {wrong[:8]}"
    wrong = asyncio.run(take_back(store, made, again))
    assert not wrong, f"seed {seed}, {mode}, ours after {version}: {wrong[:8]}"
    settled = sum(len(made.at[place]) for place in (ACKED, RETRY, DEAD))
    counts = (
        1, len(made.at[LEASE_RETRY]), len(made.at[RETRY]), len(made.at[DEAD]),
        len(made.delayed), len(made.ordered), settled, len(again),
    )  # fmt: skip
    for name, count in zip(FIGURES, counts, strict=True):
        figures[name] += count
