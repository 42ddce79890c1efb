"""Arrival marks: those who wait for a queue hear of its messages, and of the end."""

import pytest

from broker.store.views import arrivals as arrivals_module
from broker.store.views.arrivals import Arrivals

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


async def test_marks_nobody_waits_on_are_forgotten_when_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrivals_module, "FORGET_ABOVE", 3)
    arrivals = Arrivals()
    waiter = arrivals.mark(A, 0).reached(1)
    gone = arrivals.mark(B, 0)
    gone.reached(1).cancel()
    third = arrivals.mark(("other", 0), 0)
    arrivals.mark(("other", 1), 0)
    assert arrivals.mark(B, 0) is not gone
    assert arrivals.mark(("other", 0), 0) is not third
    arrivals.advance(A, 1)
    assert await waiter is True
