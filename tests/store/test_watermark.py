"""The watermark: it only rises, and serves those who wait for no more than it has."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model.errors import StoreFailed
from pocketmq.store.watermark import Arrivals, Watermark


def outcome(future: asyncio.Future[bool]) -> bool | None:
    """True or False as the waiter was told, None while it waits."""
    return future.result() if future.done() else None


async def test_what_is_reached_already_need_not_be_waited_for() -> None:
    mark = Watermark(5)
    assert outcome(mark.reached(5)) is True
    assert outcome(mark.reached(4)) is True
    assert mark.waiter_count == 0


async def test_the_mark_serves_those_below_it() -> None:
    mark = Watermark()
    waiters = [mark.reached(value) for value in (30, 10, 20, 10)]
    mark.advance(20)
    assert [outcome(waiter) for waiter in waiters] == [None, True, True, True]
    mark.advance(30)
    assert await waiters[0] is True


async def test_waiters_of_one_value_go_on_in_the_order_they_came() -> None:
    mark, order = Watermark(), []

    async def wait(name: str) -> None:
        await mark.reached(1)
        order.append(name)

    async with asyncio.TaskGroup() as tasks:
        for name in "abc":
            tasks.create_task(wait(name))
        await asyncio.sleep(0)
        mark.advance(1)
    assert order == ["a", "b", "c"]


async def test_the_mark_never_sinks() -> None:
    mark = Watermark(7)
    waiter = mark.reached(8)
    mark.advance(3)
    assert mark.value == 7
    assert outcome(waiter) is None


async def test_a_waiter_may_give_up() -> None:
    mark = Watermark()
    gone, staying = mark.reached(1), mark.reached(1)
    gone.cancel()
    assert mark.waiter_count == 2
    mark.sweep(0)
    assert mark.waiter_count == 1
    mark.advance(1)
    assert outcome(staying) is True


async def test_a_deadline_sends_away_at_its_moment() -> None:
    mark = Watermark()
    early, late, patient = mark.reached(9, 100), mark.reached(9, 101), mark.reached(9)
    mark.sweep(99)
    assert outcome(early) is None
    mark.sweep(100)
    assert [outcome(waiter) for waiter in (early, late, patient)] == [False, None, None]
    assert mark.waiter_count == 2


async def test_release_sends_away_once_and_close_for_good() -> None:
    mark = Watermark(1)
    first = mark.reached(2)
    mark.release()
    second = mark.reached(2)
    assert (outcome(first), outcome(second)) == (False, None)
    mark.close()
    assert outcome(second) is False
    assert outcome(mark.reached(2)) is False
    assert outcome(mark.reached(1)) is True


async def test_all_who_are_sent_away_or_served_may_have_given_up_before() -> None:
    for send_away in (Watermark.release, Watermark.close):
        mark = Watermark()
        mark.reached(1).cancel()
        send_away(mark)
        assert mark.waiter_count == 0
    mark = Watermark()
    mark.reached(1).cancel()
    mark.reached(1).cancel()
    mark.advance(1)
    mark.reached(2).cancel()
    mark.fail(StoreFailed(why="test"))
    assert mark.waiter_count == 0


async def test_a_failure_reaches_everyone_who_waits() -> None:
    mark = Watermark()
    waiters = [mark.reached(1), mark.reached(2)]
    mark.fail(StoreFailed(why="the disk is gone"))
    for waiter in waiters:
        with pytest.raises(StoreFailed, match="the disk is gone"):
            await waiter


STEPS = st.lists(
    st.tuples(st.sampled_from(["wait", "cancel", "advance", "sweep"]), st.integers(0, 30))
)


@given(steps=STEPS)
def test_any_mix_of_steps_serves_exactly_the_right_ones(steps: list[tuple[str, int]]) -> None:
    asyncio.run(_compare_with_plain_twin(steps))


async def _compare_with_plain_twin(steps: list[tuple[str, int]]) -> None:
    """A list of (value, deadline) that is looked through each time says what is right."""
    mark, value = Watermark(), 0
    waiters: list[tuple[asyncio.Future[bool], int, int]] = []
    expected: dict[int, bool | None] = {}
    for name, number in steps:
        if name == "wait":
            waiters.append((mark.reached(number, number * 2), number, number * 2))
            expected[len(waiters) - 1] = True if number <= value else None
        elif name == "cancel" and waiters:
            chosen = number % len(waiters)
            if waiters[chosen][0].cancel():
                del expected[chosen]
        elif name == "advance":
            value = max(value, number)
            for order, (_, wanted, _) in enumerate(waiters):
                if expected.get(order, True) is None and wanted <= value:
                    expected[order] = True
        elif name == "sweep":
            mark.sweep(number)
            for order, (_, _, deadline) in enumerate(waiters):
                if expected.get(order, True) is None and 0 < deadline <= number:
                    expected[order] = False
        mark.advance(value)
    assert {order: outcome(waiters[order][0]) for order in expected} == expected


# -- of queues -------------------------------------------------------------------------------------

A, B = ("orders", 0), ("orders", 1)


async def test_a_waiter_wakes_when_its_own_queue_grows() -> None:
    arrivals = Arrivals()
    first, second = arrivals.mark(A, 5).reached(6), arrivals.mark(B, 5).reached(6)
    arrivals.advance(A, 6)
    assert await first is True
    assert not second.done()


async def test_what_came_before_anybody_asked_counts() -> None:
    arrivals = Arrivals()
    arrivals.advance(A, 3)
    assert await arrivals.mark(A, 3).reached(3) is True


async def test_a_mark_asked_for_again_is_raised_to_what_the_queue_has() -> None:
    arrivals = Arrivals()
    waiter = arrivals.mark(A, 1).reached(2)
    assert arrivals.mark(A, 2).value == 2
    assert await waiter is True


async def test_release_sends_home_now_and_later() -> None:
    arrivals = Arrivals()
    waiter = arrivals.mark(A, 0).reached(1)
    arrivals.release()
    assert await waiter is False
    assert await arrivals.mark(A, 0).reached(1) is False
    assert await arrivals.mark(B, 0).reached(1) is False
    assert await arrivals.mark(B, 1).reached(1) is True


async def test_marks_nobody_waits_on_are_forgotten_when_there_are_many() -> None:
    arrivals = Arrivals(forget_above=3)
    waiter = arrivals.mark(A, 0).reached(1)
    gone = arrivals.mark(B, 0)
    gone.reached(1).cancel()
    third = arrivals.mark(("other", 0), 0)
    arrivals.mark(("other", 1), 0)
    assert arrivals.mark(B, 0) is not gone
    assert arrivals.mark(("other", 0), 0) is not third
    arrivals.advance(A, 1)
    assert await waiter is True


async def test_many_marks_that_are_waited_on_are_not_gone_through_for_each_new_one() -> None:
    arrivals = Arrivals(forget_above=4)
    waiters, thresholds = [], set()
    for number in range(1000):
        waiters.append(arrivals.mark(("t", number), 0).reached(1))
        thresholds.add(arrivals._forget_at)
    assert thresholds == {4 << shift for shift in range(9)}, "each time twice what was kept"
    assert not any(waiter.done() for waiter in waiters)
