"""Producers that can be asked: what each takes, whose turn it is, and how long a call waits."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from pocketmq.model.transaction import Check
from pocketmq.services.transaction import producers as producers_module
from pocketmq.services.transaction.producers import (
    CheckListener,
    Offer,
    Producer,
    Producers,
    Room,
    plenty,
)

GROUP = "producers"


def check(size_bytes: int = 1, group: str = GROUP) -> Check:
    """Returns a question about a message of a size."""
    return Check("id", group, bytes(size_bytes), 1)


def taker(told: list[str], name: str, *, takes: bool = True) -> Producer:
    """Returns a producer that notes that it is asked."""

    def offer(_: Check) -> bool:
        told.append(name)
        return takes

    return Producer(offer, plenty)


# -- one call ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ([4, 6], [True, True]),
        ([4, 7], [True, False]),
        ([4, 3, 3, 1], [True, True, True, False]),
        ([99], [True]),
        ([99, 1], [True, False]),
        ([4, 7, 6], [True, False, True]),
    ],
)
async def test_an_answer_has_a_limit_of_bytes_but_for_its_first_message(
    sizes: list[int], taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers_module, "ANSWER_BYTES_MAX", 10)
    listener = CheckListener(9, 1_000)
    assert [listener.offer(check(size)) for size in sizes] == taken
    assert len(listener.checks) == sum(taken)


async def test_a_call_tells_how_many_questions_it_still_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers_module, "ANSWER_BYTES_MAX", 10)
    listener = CheckListener(3, 1_000)
    rooms = [listener.room()]
    for size in (4, 5, 1):
        assert listener.offer(check(size))
        rooms.append(listener.room())
    assert rooms == [3, 2, 1, 0]
    assert not listener.offer(check())
    full = CheckListener(3, 1_000)
    assert full.offer(check(10))
    assert full.room() == 0, "by its bytes"


async def test_a_call_is_answered_with_its_first_question_and_takes_more_until_it_is_read() -> None:
    listener = CheckListener(2, 1_000)
    assert not listener.done.done()
    assert listener.offer(check())
    assert listener.done.done()
    assert listener.offer(check())
    assert not listener.offer(check())


async def test_a_call_that_is_gone_takes_nothing() -> None:
    listener = CheckListener(2, 1_000)
    listener.done.cancel()
    assert listener.room() == 0
    assert not listener.offer(check())
    assert listener.checks == []


async def test_calls_end_when_their_time_is_over_and_no_earlier() -> None:
    producers = Producers()
    listeners = [producers.listen(1, deadline_ms) for deadline_ms in (1_000, 2_000)]
    ended: list[tuple[bool, ...]] = []
    for now_ms in (999, 1_000, 2_000):
        producers.end_waits(now_ms)
        await asyncio.sleep(0)
        ended.append((*(one.done.done() for one in listeners), producers.waiter_count == 0))
    assert ended == [(False, False, False), (True, False, False), (True, True, True)]


async def test_from_a_drain_on_no_call_waits() -> None:
    producers = Producers()
    before = producers.listen(1, 1_000)
    producers.drain()
    after = producers.listen(1, 1_000)
    assert (before.done.done(), after.done.done()) == (True, True)


# -- those of a group --------------------------------------------------------------------------
def test_producers_of_a_group_are_asked_in_turn_and_those_that_take_none_are_passed() -> None:
    producers, told = Producers(), list[str]()
    for name, takes in (("a", True), ("b", False), ("c", True)):
        producers.join(GROUP, taker(told, name, takes=takes))
    assert all(producers.ask(check()) for _ in range(9))
    asked = Counter(told)
    assert asked["b"] == 3
    assert asked["a"] + asked["c"] == 9
    assert min(asked["a"], asked["c"]) >= 3


def test_a_question_of_which_no_producer_takes_it_was_offered_to_each_once() -> None:
    producers, told = Producers(), list[str]()
    for name in "abc":
        producers.join(GROUP, taker(told, name, takes=False))
    assert not producers.ask(check())
    assert sorted(told) == ["a", "b", "c"]
    assert not producers.ask(check(group="others"))
    assert len(told) == 3


def test_producers_are_counted_by_group_until_they_leave() -> None:
    producers = Producers()
    leave: list[Callable[[], None]] = [
        producers.join(group, taker([], group)) for group in ("x", "x", "y")
    ]
    counts = [(producers.count("x"), producers.count("y"), producers.total)]
    for one in leave:
        one()
        counts.append((producers.count("x"), producers.count("y"), producers.total))
    assert counts == [(2, 1, 3), (1, 1, 2), (0, 1, 1), (0, 0, 0)]


def test_the_room_of_a_producer_is_spoken_for_once_though_it_is_of_two_groups() -> None:
    def room() -> int:
        return 2

    offer: Offer = taker([], "a").offer
    producers, spoken_for = Producers(), Counter[Room]()
    for group in ("x", "y"):
        producers.join(group, Producer(offer, room))
    spared = [producers.spare(group, spoken_for) for group in ("x", "y", "x", "y")]
    assert spared == [True, True, False, False]
    assert producers.spare("x", Counter[Room]()), "since the last questions were asked"
    assert not producers.spare("z", spoken_for)


def test_where_the_first_producer_is_full_there_is_the_room_of_the_next() -> None:
    rooms: list[Room] = [lambda: 0, lambda: 1]
    producers, spoken_for = Producers(), Counter[Room]()
    for room in rooms:
        producers.join(GROUP, Producer(taker([], "a").offer, room))
    assert [producers.spare(GROUP, spoken_for) for _ in range(2)] == [True, False]
