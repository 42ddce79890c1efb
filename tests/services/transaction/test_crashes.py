"""Walks through transactions, kills and power cuts: each is committed once or never, as was said.

A walk compares what is answered with a model of two columns: what was said of each transaction,
and every id it ever had. A kill may come at any turn of the loop: what becomes of a half message
and that it is done are there together or not at all.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.half_message import checked, committed
from pocketmq.format.record import decode_record
from pocketmq.format.transaction_id import read_transaction_id, transaction_id
from pocketmq.model.errors import RequestError, TransactionDecided, TransactionUnknown
from pocketmq.model.reading import KeyRange, QueryResult
from pocketmq.model.stats import Gauge
from pocketmq.model.transaction import Resolution
from pocketmq.store.read.reading import Reading
from pocketmq.store.settings import FLUSH_ASYNC, FLUSH_SYNC
from tests.kit.store_language import STORE_HOST, turns
from tests.kit.transacting import (
    COMMIT,
    GROUP,
    ROLLBACK,
    RULES,
    TransactionDesk,
    transacting,
)
from tests.sim.clock import FakeClock
from tests.sim.crash_points import CrashPoints
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image

STORE = Path("/store")
SAID = {COMMIT: "committed", ROLLBACK: "rolled back"}
GIVEN_UP = "given up"


class Walk:
    """Random calls, and what is to come of them.

    state   of each message's transaction: "" while it is open
    ids     all it had
    maybe   what is being said where no answer came yet
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.state: dict[str, str] = {}
        self.ids: dict[str, list[str]] = {}
        self.maybe: dict[str, str] = {}
        self.is_heard = False
        self.seen = 0

    async def go_on(self, desk: TransactionDesk) -> None:
        """Makes one call, and compares its answer."""
        kind = self.random.choices(
            ["send", "say", "both", "wrong", "time", "listen"], [6, 8, 2, 2, 3, 1]
        )[0]
        if kind == "send" or not self.state:
            body = f"m{len(self.state)}"
            queue_id = self.random.randrange(2)
            self.ids[body] = [await desk.half(body, queue_id=queue_id)]
            self.state[body] = ""
        elif kind == "say":
            await self.say(desk, self.random.choice([*self.state]))
        elif kind == "both":
            await self.say_both(desk, self.random.choice([*self.state]))
        elif kind == "wrong":
            await self.say_wrong(desk, self.random.choice([*self.state]))
        elif kind == "time":
            await desk.run(self.random.choice([2_000, 9_000, 40_000]))
            self.take_in(desk)
        elif not self.is_heard:
            self.is_heard = True
            desk.listen()

    async def say(self, desk: TransactionDesk, body: str) -> None:
        """Decides, by any of its ids."""
        resolution = self.random.choice([COMMIT, ROLLBACK])
        before = self.state[body]
        if not before:
            self.maybe[body] = SAID[resolution]
        (error,) = await desk.decide(resolution, self.random.choice(self.ids[body]))
        self.compare(body, resolution, error, before)

    def compare(
        self, body: str, resolution: Resolution, error: RequestError | None, before: str
    ) -> None:
        """Takes in an answer."""
        if not before or before == SAID[resolution]:
            assert error is None, (body, before)
            self.state[body] = SAID[resolution]
        else:
            assert isinstance(error, TransactionDecided), (body, before)
            assert error.first.startswith(before)

    async def say_both(self, desk: TransactionDesk, body: str) -> None:
        """Says one thing and the opposite in one turn: one holds."""
        before = self.state[body]
        ids = self.ids[body]
        errors = await asyncio.gather(
            *(desk.decide(resolution, self.random.choice(ids)) for resolution in (COMMIT, ROLLBACK))
        )
        taken = [error is None for (error,) in errors]
        if not before:
            assert taken == [True, False], "the first one said"
            self.state[body] = "committed"
        else:
            assert taken == [before == "committed", before == "rolled back"]

    async def say_wrong(self, desk: TransactionDesk, body: str) -> None:
        """Says what is meant for no transaction."""
        place = read_transaction_id(self.ids[body][0])
        assert place is not None
        wrong = self.random.choice(
            [place._replace(unique_key="KEY-other"), place._replace(queue_offset=999_999),
             place._replace(physical_offset=place.physical_offset + 4)]
        )  # fmt: skip
        for text, group in ((transaction_id(wrong), GROUP), (self.ids[body][-1], "others")):
            (error,) = await desk.decide(self.random.choice([COMMIT, ROLLBACK]), text, group=group)
            assert isinstance(error, TransactionUnknown)

    def take_in(self, desk: TransactionDesk) -> None:
        """Takes in whom the broker asked, and what it gave up."""
        for check in desk.asked[self.seen :]:
            body = decode_record(check.record).body.decode()
            assert not self.state[body], "asked about one that was decided"
            self.ids[body].append(check.transaction_id)
        self.seen = len(desk.asked)
        for body in desk.given_up():
            assert self.state[body] in ("", GIVEN_UP)
            self.state[body] = GIVEN_UP

    async def compare_all(self, desk: TransactionDesk) -> None:
        """Compares what consumers see, and what is open, with what was said."""
        await desk.settled()
        seen = [*desk.bodies(queue_id=0), *desk.bodies(queue_id=1)]
        committed = {body for body, state in self.state.items() if state == "committed"}
        assert sorted(seen) == sorted(committed)
        assert desk.transactions.open_count == [*self.state.values()].count("")


@given(st.integers(0, 2**32))
@settings(max_examples=25)
def test_a_walk_is_answered_as_the_model_says(seed: int) -> None:
    async def walk() -> None:
        random, disk, clock = Random(seed), SimDisk(), FakeClock()
        story = Walk(random)
        for _ in range(3):  # Each time the store is opened again.
            async with transacting(STORE, disk=disk, clock=clock) as desk:
                story.is_heard, story.seen = False, 0
                for _ in range(random.randint(4, 25)):
                    await story.go_on(desk)
                await story.compare_all(desk)

    asyncio.run(walk())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("flush", [FLUSH_SYNC, FLUSH_ASYNC])
async def test_what_was_answered_holds_after_a_power_cut(seed: int, flush: str) -> None:
    random, disk, clock = Random(seed), SimDisk(), FakeClock()
    story = Walk(random)
    async with transacting(STORE, disk=disk, clock=clock, flush=flush) as desk:
        for _ in range(random.randint(5, 40)):
            await story.go_on(desk)
        if random.random() < 0.5:
            await desk.store.tables.offsets.saved()
        image = disk.image.cut(random)
    async with transacting(STORE, disk=SimDisk(image), clock=clock, flush=flush) as desk:
        await after_a_crash(desk, story, is_complete=flush == FLUSH_SYNC)


@pytest.mark.parametrize("seed", range(8))
async def test_what_was_answered_holds_after_a_kill(seed: int) -> None:
    random, disk, clock = Random(seed), SimDisk(), FakeClock()
    story = Walk(random)
    async with transacting(STORE, disk=disk, clock=clock, flush=FLUSH_ASYNC) as desk:
        for _ in range(random.randint(5, 40)):
            await story.go_on(desk)
        image = disk.image.copy()
    async with transacting(STORE, disk=SimDisk(image), clock=clock, flush=FLUSH_ASYNC) as desk:
        await after_a_crash(desk, story, is_complete=True)


async def after_a_crash(desk: TransactionDesk, story: Walk, *, is_complete: bool) -> None:
    """Compares what is left, decide what is open, and see that nothing comes twice.

    is_complete   all that was answered is there
    """
    await desk.settled()
    seen = [*desk.bodies(queue_id=0), *desk.bodies(queue_id=1)]
    assert len(seen) == len(set(seen))
    if is_complete:
        committed = {body for body, state in story.state.items() if state == "committed"}
        assert set(seen) == committed
        assert desk.transactions.open_count == [*story.state.values()].count("")
    for body, state in story.state.items():
        (error,) = await desk.decide(COMMIT, story.ids[body][0])
        if is_complete:
            assert (error is None) == (state in ("", "committed")), (body, state)
        if error is None:
            (error,) = await desk.decide(ROLLBACK, story.ids[body][-1])
            assert error is not None
    desk.listen()
    await desk.run(2 * RULES.interval_ms)
    now_seen = [*desk.bodies(queue_id=0), *desk.bodies(queue_id=1)]
    assert len(now_seen) == len(set(now_seen))
    assert set(now_seen) >= set(seen)
    rolled_back = {body for body, state in story.state.items() if state == "rolled back"}
    assert not is_complete or not rolled_back & set(now_seen)
    if is_complete:
        assert not desk.transactions.open_count
        assert not desk.asked


async def commit(desk: TransactionDesk, text: str) -> None:
    await desk.decide(COMMIT, text)


async def check(desk: TransactionDesk, text: str) -> None:
    desk.listen()
    await desk.run(RULES.timeout_ms + 1_000)


async def give_up(desk: TransactionDesk, text: str) -> None:
    desk.transactions.take(RULES._replace(checks_max=0))
    await desk.run(RULES.timeout_ms + 1_000)


@pytest.mark.parametrize("action", [commit, check, give_up])
async def test_a_kill_at_any_turn_leaves_all_of_an_end_or_nothing(
    action: Callable[[TransactionDesk, str], Awaitable[None]],
) -> None:
    images: list[Image] = []
    disk, clock = SimDisk(), FakeClock()
    async with transacting(STORE, disk=disk, clock=clock, flush=FLUSH_ASYNC) as desk:
        first, second = await desk.half("a"), await desk.half("b")
        await desk.settled()
        task = asyncio.ensure_future(action(desk, first))
        end = desk.store.appended
        images.append(disk.image.copy())
        while not task.done():
            await turns(1)
            if desk.store.appended != end:
                end = desk.store.appended
                images.append(disk.image.copy())
        await task
        images.append(disk.image.copy())
    assert len(images) > 2
    for image in images:
        async with transacting(
            STORE, disk=SimDisk(image), clock=FakeClock(clock.wall), flush=FLUSH_ASYNC
        ) as desk:
            await desk.settled()
            assert desk.transactions.open_count + len(desk.given_up()) + len(desk.bodies()) == 2
            (error,) = await desk.decide(COMMIT, first)
            await desk.settled()
            assert desk.bodies() == ([] if error else ["a"])
            assert (error is not None) == ("a" in desk.given_up())
            (error,) = await desk.decide(ROLLBACK, second)
            assert (error is not None) == ("b" in desk.given_up())
            assert desk.transactions.open_count == 0


async def test_where_a_start_begins_to_read_is_never_ahead_of_what_the_log_keeps() -> None:
    """A start skips ended transactions: if their end were lost, so would they be."""
    disk, clock = SimDisk(), FakeClock()
    async with transacting(STORE, disk=disk, clock=clock, flush=FLUSH_ASYNC) as desk:
        sent = [await desk.half(name) for name in "ab"]
        await desk.store.flush()
        points = CrashPoints(disk, clock, Random(1), cuts=0, is_log_behind=True)
        with points.taken():
            assert await desk.decide(COMMIT, sent[0]) == [None]
            assert await desk.decide(ROLLBACK, sent[1]) == [None]
            await desk.transactions.close()
            await desk.store.tables.offsets.saved()
    assert len(points.found) > 2
    for point in points.found:
        image = SimDisk(point.image)
        async with transacting(STORE, disk=image, clock=clock, flush=FLUSH_ASYNC) as desk:
            await desk.settled()
            is_committed = desk.bodies() == ["a"]
            assert is_committed or desk.transactions.open_count, point.where
            assert await desk.decide(COMMIT, sent[0]) == [None]
            assert await desk.decide(ROLLBACK, sent[1]) == [None]
            await desk.settled()
            assert desk.bodies() == ["a"]


async def test_what_a_cut_left_in_doubt_is_looked_at_and_counted_once(tmp_path: Path) -> None:
    """The commit exists and the end of its half message does not, as real brokers leave it."""
    async with transacting(tmp_path / "store", disk=SimDisk()) as desk:
        sent = [await desk.half(name) for name in "abc"]
        for text in sent[:2]:
            place = read_transaction_id(text)
            assert place is not None
            half, _ = await desk.transactions.state_of(place)
            await desk.store.writing.put([committed(half)])
        again = TransactionDesk(desk.talking)
        await again.transactions.recover()
        again.listen()
        await again.run(RULES.timeout_ms + 10_000)
        assert [decode_record(check.record).body for check in again.asked] == [b"c"]
        gauge = again.transactions.stats[0]
        assert isinstance(gauge, Gauge)
        assert gauge.read() == {("orders",): 1}
        assert await again.decide(COMMIT, *sent) == [None, None, None]
        await again.run(10_000)
        assert sorted(again.bodies()) == ["a", "b", "c"]
        assert gauge.read() == {}
        told = Counter(at for named in again.named() for at in named)
        assert told == {half.queue_offset: 1 for half in again.halves()}, "in the log, too"


@pytest.mark.parametrize("delay", [{"DELAY": "3"}, {"TIMER_DELAY_MS": "60000"}])
async def test_a_delayed_commit_is_found_although_its_end_was_lost(delay: dict[str, str]) -> None:
    async with transacting(STORE, disk=SimDisk()) as desk:
        sent = await desk.half("a", queue_id=0, **delay)
        place = read_transaction_id(sent)
        assert place is not None
        half, _ = await desk.transactions.state_of(place)
        now_ms = desk.clock.wall_ms()
        await desk.store.writing.put([committed(half, 2, now_ms, level_count=18)])
        again = TransactionDesk(desk.talking)
        await again.transactions.recover()
        again.listen()
        await again.run(RULES.timeout_ms + 10_000)
        assert again.asked == []
        assert await again.decide(COMMIT, sent) == [None]
        (refused,) = await again.decide(ROLLBACK, sent)
        assert isinstance(refused, TransactionDecided)


async def test_what_a_start_finds_asked_about_and_decided_is_not_counted_as_open() -> None:
    """One was put again and decided there; that the first one is done was lost."""
    async with transacting(STORE, disk=SimDisk()) as desk:
        place = read_transaction_id(await desk.half("a"))
        assert place is not None
        half, _ = await desk.transactions.state_of(place)
        (put,) = await desk.store.writing.put([checked(half, store_host=STORE_HOST)])
        later = place._replace(
            queue_offset=put.queue_offset, physical_offset=put.physical_offsets[0]
        )
        await desk.roll_back(transaction_id(later))
        again = TransactionDesk(desk.talking)
        await again.transactions.recover()
        again.listen()
        await again.run(2 * RULES.interval_ms)
        gauge = again.transactions.stats[0]
        assert isinstance(gauge, Gauge)
        assert gauge.read() == {}
        assert not again.asked


async def test_half_messages_of_one_key_are_looked_up_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One lookup each would walk all of them, which for 100,000 takes hours."""
    disk = SimDisk()
    async with transacting(STORE, disk=disk) as desk:
        sent = [await desk.half(f"{number}", key="same") for number in range(60)]
        await desk.commit(*sent[1:10])
        await desk.roll_back(*sent[10:20])
    pages: list[str] = []
    query = Reading.query

    async def counted(reading: Reading, wanted: KeyRange) -> QueryResult:
        pages.append(wanted.topic)
        return await query(reading, wanted)

    monkeypatch.setattr(Reading, "query", counted)
    async with transacting(STORE, disk=disk) as desk:
        await desk.commit(*sent[1:10], *sent[20:40])
        assert None not in await desk.decide(COMMIT, *sent[10:20])
        await desk.roll_back(*sent[10:20], *sent[40:])
        await desk.commit(sent[0])
        assert sorted(int(body) for body in desk.bodies()) == [*range(10), *range(20, 40)]
    assert len(pages) < 10
