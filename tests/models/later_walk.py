"""A store with delays and transactions, and the actions on them, compared with a model.

    walk = LaterWalk(loop, seed)
    await walk.begin()
    await walk.send(…)                   plain, for a level or a time, in a transaction
    await walk.pass_time(ms)             steps run, then all topics are compared
        await walk.jump(ms)                  the wall clock is set
    await walk.end()                     everything due is delivered, nothing else

Calls are awaited one after the other, except the call that a kill cuts off.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, Final

from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.format.record import decode_record
from pocketmq.format.transaction_id import HalfPlace, transaction_id
from pocketmq.model.errors import BrokerError
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import ReadRange
from pocketmq.model.step import Now
from pocketmq.model.topic import GIVEN_UP_TOPIC
from pocketmq.model.transaction import Check, Decision, Resolution
from pocketmq.services.delay.levels import Schedule
from pocketmq.services.delay.timer import ARRIVAL_PAUSE_MS, Timer
from pocketmq.services.produce.drafts import DeliveryRequest
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send, Sent
from pocketmq.services.transaction.checking import CheckRules
from pocketmq.services.transaction.transactions import Transactions
from pocketmq.store.job import Job
from pocketmq.store.read.cold_read import value_of
from tests.faults.checkers import Told, once, transactions
from tests.kit.drafts import draft, drafts_of
from tests.kit.store_language import BORN_HOST, STORE_HOST
from tests.models.later_model import CAME, HALF, WAITING, LaterModel
from tests.models.later_model import Sent as SentModel
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image
from tests.sim.loop import SeededLoop
from tests.sim.seeded_store import SeededStore, stop_short

TOPICS: Final = ("orders", "bills")
QUEUES: Final = 2
GROUPS: Final = TOPICS
"""Producer groups: a transaction without a group belongs to the group named as its topic."""
RULES: Final = CheckRules(timeout_ms=6_000, interval_ms=30_000, checks_max=3, keep_ms=0)
LEVELS: Final = "1s 5s 10s 30s"
LEVELS_MS: Final = (1_000, 5_000, 10_000, 30_000)
SLOTS: Final = 16_384
WHEEL_MS: Final = SLOTS * 1_000
SIZES: Final = {
    "commit_log_file_size_bytes": 1 << 15, "consume_queue_file_size_bytes": 2_000,
    "delay_levels": LEVELS, "timer_log_file_size_bytes": 52 * 24 + 16, "timer_slot_count": SLOTS,
}  # fmt: skip
CALLS_TOLD: Final = 100
STEPS_MAX: Final = 5_000
END_ROUNDS: Final = 9
LABELLED_ROUND: Final = 6
HOUR_MS: Final = 3_600_000
JUMPS_MS: Final = (700, 5_000, HOUR_MS, 30 * 24 * HOUR_MS)
"""Amounts by which the clock is set."""
END_PAUSE_MS: Final = 61_000
END_STEP_MS: Final = 3_000
"""Steps at the end are this far apart, which takes a tenth of the time: little is due."""


class LaterWalk(SeededStore):
    """One walk."""

    def __init__(self, loop: SeededLoop, seed: int, *, flush: str = "sync") -> None:
        super().__init__(loop, seed, flush=flush, **SIZES)
        self.is_sync = flush == "sync"
        self.model = LaterModel()
        self.handles: dict[str, str] = {}
        """Recall handles by key."""
        self.halves: dict[str, tuple[str, str]] = {}
        """(group, transaction's id) by key."""
        self.counts: Counter[str] = Counter()
        self.calls: deque[str] = deque(maxlen=CALLS_TOLD)
        self.number = 0
        self.set_ms = 0
        """Sum of the wall clock's jumps."""
        self.unseen_ms = 0
        """Sum of the jumps that the broker has not seen and saved."""
        self.ending = self.kill

    @property
    def now(self) -> Now:
        """The readings of both clocks."""
        return Now(self.loop.clock.monotonic_ms(), self.loop.clock.wall_ms())

    def note(self, what: str, *words: object) -> None:
        """Counts a call, and keeps it for the report of a failure."""
        self.counts[what] += 1
        passed_ms = self.now.monotonic_ms
        self.calls.append(f"{passed_ms} {self.set_ms:+} {what} {' '.join(map(str, words))}")

    # -- lives ---------------------------------------------------------------------------------
    async def begin(self) -> None:
        """Opens an empty store, with topics."""
        await self._open(self.disk.image)
        for topic in TOPICS:
            await self.store.tables.topics.create(topic, queue_count=QUEUES)
        await self.steps()

    async def _open(self, image: Image) -> None:
        await self.open(SimDisk(image, seed=self.random.getrandbits(32)))
        store, clock = self.store, self.loop.clock
        key_maker = UniqueKeyMaker(address=b"\n\0\0\1", process_id=1, random_bytes=b"abcd")
        rules = SendRules(STORE_HOST, "C", check_kinds=False)
        self.sending = Send(store, rules, clock, key_maker=key_maker, random=Random(self.seed))
        self.schedule = Schedule(store, STORE_HOST)
        self.timer = Timer(store, STORE_HOST, lambda _: False)
        self.transactions = Transactions(store, STORE_HOST, RULES)
        await self.transactions.recover()
        for group in GROUPS:
            self.transactions.join(group, self._offered)

    def _offered(self, check: Check) -> bool:
        """Answers as a producer that receives a check."""
        key = transaction_key(check.transaction_id)
        self.calls.append(f"  asked about {key}")
        self.counts["asked"] += 1
        self.model.asked(key)
        assert self.halves.get(key, (check.group,))[0] == check.group, f"{key} is not of the group"
        self.halves[key] = (check.group, check.transaction_id)
        return True

    async def open_again(self, image: Image, rested_ms: int = 0) -> None:
        """Opens the store again, and lets all services read the clock.

        rested_ms   how long the store was closed; the timer processes missed laps one by one
        """
        await self._open(image)
        self.model.restarted(self.now, unseen_ms=self.unseen_ms)
        for _ in range(4 * rested_ms // WHEEL_MS):
            await self.step_all()
            self.loop.clock.advance(ARRIVAL_PAUSE_MS)
        await self.steps()

    async def restart(self, rest_ms: int = 0) -> None:
        """Stops cleanly, and opens again after some time."""
        self.note("restarts", rest_ms)
        for service in (self.timer, self.schedule, self.transactions):
            await service.close()
        await self.store.close()
        self.unseen_ms = 0  # A clean stop reads the clock.
        self.loop.clock.advance(rest_ms)
        await self.open_again(self.disk.image, rest_ms)

    async def kill(self) -> None:
        """Ends the broker's process: written bytes stay."""
        self.note("kills")
        await stop_short()
        await self.open_again(self.disk.image.copy())

    async def cut(self) -> None:
        """Cuts the power: synced bytes stay."""
        self.note("power cuts")
        await stop_short()
        await self.open_again(self.disk.image.cut(Random(self.random.getrandbits(32))))

    async def answered(self, call: Callable[[], Awaitable[Any]], turns: int | None) -> Any:
        """Awaits a call; `turns` of the loop later the power is cut, or the broker killed.

        Returns  None if the call had no answer
        """
        if turns is None:
            return await call()
        task = asyncio.ensure_future(call())
        for _ in range(turns):
            await asyncio.sleep(0)
        self.ending = self.cut if self.is_sync and self.random.random() < 0.5 else self.kill
        self.counts["cut after" if task.done() else "cut off"] += 1
        return task.result() if task.done() else None

    async def ended(self, turns: int | None) -> None:
        """Compares, after a restart of the broker if it ended during the call."""
        if turns is None:
            await self.look()
        else:
            await self.ending()

    # -- time ----------------------------------------------------------------------------------
    async def steps(self) -> None:
        """Runs all due work, then compares."""
        await self.step_all()
        await self.look(is_stepped=True)

    async def step_all(self) -> int:
        """Runs steps until all services wait; returns the time of the next step."""
        for _ in range(2):  # One service may put messages that another delivers.
            times = [await self._done(self.timer)]
            self.unseen_ms = 0  # The timer has saved the jumps; a kill before would lose them.
            times += [await self._done(s) for s in (self.schedule, self.transactions)]
            await self._seen()
        return min(times)

    async def _done(self, service: Timer | Schedule | Transactions) -> int:
        for _ in range(STEPS_MAX):
            now = self.now
            following = service.step(now)
            if isinstance(following.mark, Job):
                await following.mark.reached()
            elif following.at_ms is not None and following.at_ms > now.monotonic_ms:
                return following.at_ms
        raise AssertionError("it never waits")

    async def pass_time(
        self, by_ms: int, turns: int | None = None, *, pause_min_ms: int = 1
    ) -> None:
        """Advances the clock; `turns` after the last steps begin the broker ends.

        pause_min_ms   for how long at least a busy broker takes no steps
        """
        self.note("time passes", by_ms, turns)
        end_ms = self.now.monotonic_ms + by_ms
        while (left_ms := end_ms - self.now.monotonic_ms) > 0:
            pause_ms = await self.step_all() - self.now.monotonic_ms
            self.loop.clock.advance(min(max(pause_ms, pause_min_ms), left_ms))
        if turns is None:
            await self.steps()
        else:
            await self.answered(self.step_all, turns)
            await self.ended(turns)

    async def jump(self, by_ms: int, *, is_seen: bool = True) -> None:
        """Sets the wall clock; `is_seen`: before anything else happens."""
        self.note("jumps", by_ms, is_seen)
        await self.step_all()  # New messages have woken waiting callers.
        self.loop.clock.wall += by_ms
        self.set_ms += by_ms
        self.unseen_ms += by_ms
        if is_seen:
            await self.steps()

    # -- producing -----------------------------------------------------------------------------
    async def send(self, kind: str, delivery: DeliveryRequest, turns: int | None = None) -> None:
        """Sends a message."""
        self.number += 1
        key, topic = f"K{self.number}", self.random.choice(TOPICS)
        self.note("sends", key, topic, delivery, turns)
        message = draft(
            topic, key.encode(), message_id=key, queue_id=self.random.randrange(QUEUES),
            delivery=delivery,
        )  # fmt: skip
        since = self.now
        due_ms = delivery.deliver_at_ms or since.wall_ms + delivery.delay_ms
        if delivery.delay_level:
            due_ms = since.wall_ms + LEVELS_MS[delivery.delay_level - 1]
        if kind == WAITING and due_ms <= since.wall_ms:
            kind = CAME
        sent: Sent | None = await self.answered(
            partial(self.sending.send, drafts_of(message), BORN_HOST), turns
        )
        is_level = bool(delivery.delay_level)
        self.model.took(
            SentModel(key, topic, kind, due_ms, (since,), is_level), ok=sent is not None
        )
        if sent is not None and sent.handles and sent.handles[0]:
            self.handles[key] = sent.handles[0]
        if sent is not None and kind == HALF:
            place = HalfPlace(sent.queue_offsets[0], sent.result.physical_offsets[0], key)
            self.halves[key] = (topic, transaction_id(place))
        await self.ended(turns)

    async def recall(self, key: str, turns: int | None = None) -> None:
        """Recalls a message that waits for its time."""
        topic = self.model.sent[key].topic
        self.note("recalls", key, turns)
        try:
            told = await self.answered(
                partial(self.sending.recall.recall, topic, self.handles[key], BORN_HOST), turns
            )
        except BrokerError as error:
            if error.reason not in ("NotWaiting", "IllegalRecallHandle"):
                raise  # IllegalRecallHandle: the clock was set back too far.
            self.counts["recalls refused"] += 1
            self.model.recalled(key, self.now, ok=False)
        else:
            assert told in (None, key)
            self.model.recalled(key, self.now, ok=True if told else None)
        await self.ended(turns)

    async def decide(
        self, keys: list[str], resolution: Resolution, turns: int | None = None
    ) -> None:
        """Commits or rolls back transactions of one group."""
        group = self.halves[keys[0]][0]
        self.note("decisions", keys, resolution.value, turns)
        decisions = [Decision(self.halves[key][1], resolution) for key in keys]
        answers = await self.answered(partial(self.transactions.decide, group, decisions), turns)
        for number, key in enumerate(keys):
            error = answers[number].error if answers is not None else None
            refusal = error.reason if error is not None else None
            self.calls.append(f"  {key}: {refusal}")
            is_told = answers is not None
            self.model.decided(key, resolution.value, refusal, is_told=is_told)
        await self.ended(turns)

    async def decide_wrongly(self, key: str, other: str, resolution: Resolution) -> None:
        """Sends a wrong decision, of another group or a mixed id, which must have no effect."""
        group, text = self.halves[key]
        self.note("foreign decisions", key, other)
        mixed = f"{text.rpartition('.')[0]}.{other}"
        stranger = GROUPS[1 - GROUPS.index(group)]
        for by, said in ((stranger, text), (group, mixed), (stranger, mixed)):
            (answer,) = await self.transactions.decide(by, [Decision(said, resolution)])
            assert answer.error is not None, f"{by} decided {said}"
        await self.look()

    # -- looking -------------------------------------------------------------------------------
    async def _seen(self) -> None:
        while self.store.dispatched < self.store.appended:
            await self.loop.pause(0.005)

    async def messages(self, topic: str) -> list[StoredMessage]:
        """Returns the messages of a topic."""
        found: list[StoredMessage] = []
        reading = self.store.reading
        for queue_id in reading.queue_ids(topic):
            at, end = reading.queue_range(topic, queue_id)
            while at < end:
                asked = ReadRange(topic, queue_id, at, 99, 1 << 20)
                result = await value_of(reading.pull(asked))
                found += [decode_record(record) for record in result.records]
                at = result.next_begin_offset
        return found

    async def look(self, *, is_stepped: bool = False) -> None:
        """Compares the messages of all topics."""
        await self._seen()
        there: Counter[tuple[str, str]] = Counter()
        for topic in TOPICS:
            for message in await self.messages(topic):
                assert message.body.decode() == message.unique_key, "bodies stay with their keys"
                there[topic, message.unique_key] += 1
        given_up = Counter([one.unique_key for one in await self.messages(GIVEN_UP_TOPIC)])
        self.model.looked(there, given_up, self.now, is_stepped=is_stepped)

    async def end(self) -> None:
        """Sets the clock right, ends transactions, waits for pending messages; compares all."""
        if self.set_ms:
            await self.jump(-self.set_ms)
        await self.restart()  # The right clock measures waiting messages again.
        for number in range(END_ROUNDS):
            known = [key for key in self.model.open_halves() if key in self.halves]
            for key in known:
                resolution = self.random.choice((Resolution.COMMIT, Resolution.ROLLBACK))
                await self.decide([key], resolution)
            if number > 1 and not known and not self.model.waiting():
                break
            if number == LABELLED_ROUND:  # A crash left messages to the later clock.
                await self.restart(max(JUMPS_MS))
            await self.pass_time(END_PAUSE_MS, pause_min_ms=END_STEP_MS)
        self.model.is_over()
        await self._check_log()
        for service in (self.timer, self.schedule, self.transactions):
            await service.close()
        await self.store.close()

    async def _check_log(self) -> None:
        """Compares the records of the log with the producers' results."""
        records = [
            message
            for topic in self.store.tables.topics.names()
            for message in await self.messages(topic)
        ]
        wrong = transactions(records, self.model.said)
        told = {
            key: Told(self.model.sent[key].topic, is_wanted=CAME in states)
            for key, states in self.model.states.items()
        }
        wrong += once([one for one in records if one.topic in TOPICS], told)
        assert not wrong, "\n".join(wrong)


def transaction_key(text: str) -> str:
    """Returns the unique key in a transaction's id."""
    return text.split(".", 2)[2]
