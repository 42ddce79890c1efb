"""Waits at a queue's end: one scan per filter, answered in batches, removed when done."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from pocketmq.filter.parsing import parse_filter
from pocketmq.filter.tag import EVERYTHING
from pocketmq.model.errors import DiskSlow
from pocketmq.model.filter import Filter
from pocketmq.model.message import QueueKey
from pocketmq.model.reading import PullResult, PullStatus
from pocketmq.store.heavy_turns import HeavyTurns
from pocketmq.store.read.append_notifier import (
    GIVEN_UP_MAX,
    SERVED_A_TURN,
    AppendNotifier,
    GroupKey,
    Waiter,
)
from pocketmq.store.watermark import Arrivals
from tests.kit.store_language import turns
from tests.sim.clock import FakeClock
from tests.sim.loop import SeededLoop, run_seeded

KEY = ("orders", 0)
TAG_A = parse_filter("A")
TAG_B = parse_filter("B")


class Queues:
    """Queues of which only the max offset is known, and the results that their scans return."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.marks = Arrivals()
        self.ends: dict[QueueKey, int] = {}
        self.looks: list[tuple[Filter, int]] = []
        self.finds: dict[Filter, int] = {}
        """Where a filter finds something."""
        self.scan_max = 100
        self.look_ms = self.serve_ms = 0
        self.served: list[Waiter] = []
        self.later: asyncio.Future[None] | None = None
        self.waiting = AppendNotifier(
            lambda topic, queue_id: self.marks.mark((topic, queue_id), self.end((topic, queue_id))),
            self.look,
            self.serve,
            lambda waiter: waiter.answer("nothing"),
            HeavyTurns(self.clock),
        )

    def end(self, key: QueueKey) -> int:
        return self.ends.get(key, 0)

    def grow(self, count: int = 1, key: QueueKey = KEY) -> None:
        self.ends[key] = self.end(key) + count
        self.marks.advance(key, self.ends[key])

    def look(
        self, key: QueueKey, group: GroupKey, queue_offset: int
    ) -> PullResult | Awaitable[PullResult]:
        wanted, _ = group
        self.looks.append((wanted, queue_offset))
        self.clock.advance(self.look_ms)
        upper = min(queue_offset + self.scan_max, self.end(key))
        place = self.finds.get(wanted, -1)
        records = [b"found"] if queue_offset <= place < upper else []
        kind = PullStatus.FOUND if records else PullStatus.NO_MATCHED_MESSAGE
        found = PullResult(kind, upper, 0, self.end(key), records, len(records))
        return found if self.later is None else self.in_time(self.later, found)

    async def in_time(self, later: "asyncio.Future[None]", found: PullResult) -> PullResult:
        await later
        return found

    def serve(self, waiter: Waiter) -> None:
        self.served.append(waiter)
        self.clock.advance(self.serve_ms)
        waiter.answer(waiter.place)

    def wait(self, wanted: Filter = EVERYTHING, key: QueueKey = KEY, user: str = "") -> Waiter:
        waiter = Waiter(self.waiting, key, wanted, self.end(key), user)
        waiter.wait_until(asyncio.get_running_loop().time() + 60)
        self.waiting.join(waiter)
        return waiter

    def is_empty(self) -> bool:
        watches = sum(self.marks.mark(key, 0).waiter_count for key in self.ends)
        buckets = self.waiting.deadlines._buckets.values()
        return not self.waiting._queues and not any(buckets) and watches <= GIVEN_UP_MAX


@pytest.fixture
async def queues() -> Queues:
    return Queues()


async def test_what_arrives_serves_all_who_want_everything(queues: Queues) -> None:
    waiters = [queues.wait() for _ in range(3)]
    other = queues.wait(key=("orders", 1))
    queues.grow()
    assert await asyncio.gather(*waiters) == [0, 0, 0]
    assert not other.done()
    assert (queues.waiting.count, queues.looks) == (1, [])


async def test_one_look_serves_all_of_a_filter_and_wakes_nobody_else(queues: Queues) -> None:
    wanting_a = [queues.wait(TAG_A) for _ in range(50)]
    wanting_b = [queues.wait(TAG_B) for _ in range(50)]
    queues.finds[TAG_B] = 3
    for _ in range(3):
        queues.grow()
        await turns()
    assert not queues.served
    assert queues.looks == [(wanted, place) for place in range(3) for wanted in (TAG_A, TAG_B)]
    queues.grow()
    await turns()
    assert {*queues.served} == {*wanting_b}
    assert [waiter.result() for waiter in wanting_b] == [3] * 50, "nothing is looked at twice"
    assert not any(waiter.done() for waiter in wanting_a)


async def test_a_long_scan_is_taken_up_turn_by_turn(queues: Queues) -> None:
    queues.scan_max = 10
    queues.finds[TAG_A] = 35
    waiter = queues.wait(TAG_A)
    queues.grow(100)
    assert await waiter == 30
    assert [place for _, place in queues.looks] == [0, 10, 20, 30]


def sql(number: int) -> Filter:
    return parse_filter(f"p = {number}", is_sql=True)


def test_filters_that_look_at_records_do_so_one_a_turn_and_users_take_turns() -> None:
    def story(loop: SeededLoop) -> Awaitable[None]:
        return costly_looks(Queues(loop.clock), loop)

    async def costly_looks(queues: Queues, loop: SeededLoop) -> None:
        queues.look_ms = 10
        greedy = [queues.wait(sql(number), user="greedy") for number in range(200)]
        wanted = sql(1_000)
        good = queues.wait(wanted, user="good")
        queues.finds[wanted] = 0
        queues.grow()
        begun = loop.turns
        assert await good == 0
        assert [one for one, _ in queues.looks].index(wanted) <= 2
        await loop.pause(10.0)
        assert len(queues.looks) == 201, "each looks once at what arrived"
        assert loop.turns - begun > 201
        assert not any(one.done() for one in greedy)
        assert queues.waiting.count == 200

    run_seeded(0, story)


def test_those_a_filter_has_something_for_are_served_one_a_turn() -> None:
    def story(loop: SeededLoop) -> Awaitable[None]:
        return costly_answers(Queues(loop.clock), loop)

    async def costly_answers(queues: Queues, loop: SeededLoop) -> None:
        queues.look_ms = queues.serve_ms = 10
        wanted, other = sql(1), sql(2)
        greedy = [queues.wait(wanted, user="greedy") for _ in range(50)]
        good = queues.wait(other, user="good")
        queues.finds |= {wanted: 0, other: 0}
        queues.grow()
        await good
        assert len(queues.served) <= 3
        for one in greedy[10:]:
            one.cancel()
        await asyncio.gather(*greedy[:10])
        assert len(queues.served) == 11, "nobody is served who gave up"
        assert queues.is_empty()

    run_seeded(0, story)


def test_filters_nobody_waits_with_any_more_do_not_look() -> None:
    def story(loop: SeededLoop) -> Awaitable[None]:
        return given_up(Queues(loop.clock), loop)

    async def given_up(queues: Queues, loop: SeededLoop) -> None:
        queues.look_ms = 10
        greedy = [queues.wait(sql(number), user="greedy") for number in range(20)]
        queues.grow()
        await loop.pause(0.05)
        looks = len(queues.looks)
        assert 0 < looks < 10
        for one in greedy:
            one.cancel()
        await loop.pause(1.0)
        assert len(queues.looks) == looks
        assert queues.is_empty()

    run_seeded(0, story)


def test_the_end_answers_those_who_wait_for_their_turn() -> None:
    def story(loop: SeededLoop) -> Awaitable[None]:
        return ended(Queues(loop.clock), loop)

    async def ended(queues: Queues, loop: SeededLoop) -> None:
        queues.look_ms = queues.serve_ms = 10
        wanted = sql(1)
        queues.finds[wanted] = 0
        waiters = [queues.wait(wanted) for _ in range(9)]
        waiters += [queues.wait(sql(number)) for number in range(2, 9)]
        queues.grow()
        await loop.pause(0.03)
        queues.waiting.end_all()
        assert "nothing" in [one.result() for one in waiters]
        assert queues.is_empty()

    run_seeded(0, story)


async def test_many_are_served_in_pieces(queues: Queues) -> None:
    waiters = [queues.wait() for _ in range(3 * SERVED_A_TURN)]
    seen = set()
    queues.grow()
    while len(queues.served) < 3 * SERVED_A_TURN:
        await asyncio.sleep(0)
        seen.add(len(queues.served))
    assert {SERVED_A_TURN, 2 * SERVED_A_TURN} <= seen
    assert queues.served == waiters


async def test_one_who_finds_nothing_joins_again(queues: Queues) -> None:
    waiter = queues.wait()
    answers: list[Any] = []

    def serve(who: Waiter) -> None:
        if answers:
            who.answer("second")
        else:
            answers.append("first")
            who.place = queues.end(KEY)
            queues.waiting.join(who)

    queues.waiting._serve = serve
    queues.grow()
    await turns()
    assert queues.waiting.count == 1
    queues.grow()
    assert await waiter == "second"


async def test_a_look_that_takes_time_holds_up_nobody(queues: Queues) -> None:
    queues.later = asyncio.get_running_loop().create_future()
    wanting_a, all_ = queues.wait(TAG_A), queues.wait()
    queues.finds[TAG_A] = 1
    queues.grow()
    assert await all_ == 0
    queues.grow()
    await turns()
    assert len(queues.looks) == 1, "one look at a time"
    queues.later.set_result(None)
    queues.later = None
    assert await wanting_a == 1


async def test_a_look_that_fails_lets_everyone_see_for_himself(queues: Queues) -> None:
    queues.later = asyncio.get_running_loop().create_future()
    waiter = queues.wait(TAG_A)
    queues.grow()
    await turns()
    queues.later.set_exception(DiskSlow(tries=1))
    assert await waiter == 0


async def test_who_is_cancelled_leaves_nothing(queues: Queues) -> None:
    for _ in range(3 * GIVEN_UP_MAX):
        queues.wait(TAG_A).cancel()
    assert queues.waiting.count == 0
    waiters = [queues.wait() for _ in range(3)]
    queues.grow()
    await turns()
    assert queues.is_empty()
    assert queues.served == waiters


async def test_who_is_cancelled_before_his_turn_is_not_served(queues: Queues) -> None:
    waiters = [queues.wait() for _ in range(SERVED_A_TURN + 2)]
    queues.grow()
    await asyncio.sleep(0)
    assert waiters[-1].cancel()
    await turns()
    assert queues.served == waiters[:-1]
    assert queues.is_empty()


async def test_a_deadline_answers_and_leaves_nothing(queues: Queues) -> None:
    waiter = Waiter(queues.waiting, KEY, TAG_A, 0)
    waiter.wait_until(asyncio.get_running_loop().time() - 1)
    queues.waiting.join(waiter)
    assert await waiter == "nothing"
    assert queues.is_empty()


async def test_all_are_answered_at_once_at_the_end(queues: Queues) -> None:
    waiters = [queues.wait(wanted) for wanted in (EVERYTHING, TAG_A) for _ in range(50)]
    queues.grow()
    await asyncio.sleep(0)
    queues.waiting.end_all()
    assert all(waiter.done() for waiter in waiters)
    assert "nothing" in {waiter.result() for waiter in waiters}
    assert queues.is_empty()


async def test_a_store_that_ends_answers_everyone(queues: Queues) -> None:
    waiters = [queues.wait(TAG_A), queues.wait()]
    queues.marks.release()
    assert await asyncio.gather(*waiters) == ["nothing"] * 2
    late = queues.wait()
    assert await late == "nothing"
    assert queues.is_empty()


async def test_a_mark_ahead_of_its_queue_is_looked_at_again(queues: Queues) -> None:
    queues.marks.mark(KEY, 5)
    waiter = queues.wait(TAG_A)
    queues.finds[TAG_A] = 0
    await turns()
    assert not waiter.done()
    queues.grow()
    assert await waiter == 0
