"""How many half messages are open, by topic, beside plain lists."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.half_message import Half
from pocketmq.services.transaction import half_counts
from pocketmq.services.transaction.half_counts import UNKNOWN_TOPIC, HalfCounts
from pocketmq.services.transaction.halves import HalfState
from tests.kit.transacting import TransactionDesk
from tests.sim.clock import FakeClock

TOPICS = ["a", "b", "c"]


async def halves_of(desk: TransactionDesk, topics: list[str]) -> list[Half]:
    """Returns half messages that go to these topics, one by one."""
    for number, topic in enumerate(topics):
        await desk.half(f"{number}", topic=topic)
    await desk.settled()
    found = await desk.transactions._ledger.reading.read(range(len(topics)))
    return [half for half in found.values() if half is not None]


def shown(counts: HalfCounts) -> dict[str, float]:
    (gauge, *_) = counts.all
    return {labels[0]: value for labels, value in gauge.read().items()}  # type: ignore[union-attr]


async def test_they_are_those_of_a_model(desk: TransactionDesk) -> None:
    halves = await halves_of(desk, TOPICS * 7)
    at = st.integers(0, len(halves) - 1)

    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(st.tuples(st.sampled_from(["look", "drop", "move", "forget"]), at), max_size=40)
    )
    def walk(steps: list[tuple[str, int]]) -> None:
        counts, is_open = HalfCounts(FakeClock()), dict[int, str]()
        begin, end = 0, len(halves)
        for step, at in steps:
            if step == "forget":
                begin = max(begin, min([at, *is_open]))
                counts.forget_below(begin)
            elif at < begin:
                counts.drop(at)
            elif step == "look":
                counts.look(halves[at])
                is_open.setdefault(at, TOPICS[at % 3])
            else:
                end += step == "move"
                counts.drop(at, end if step == "move" else 0)
                topic = is_open.pop(at, None)
                if step == "move" and topic is not None:
                    is_open[end] = topic
            found = [*is_open.values()]
            assert shown(counts) == {t: found.count(t) for t in TOPICS if t in found}

    walk()


async def test_topics_beyond_those_told_apart_are_unknown(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_counts, "TOPICS_MAX", 3)
    halves = await halves_of(desk, ["a", "b", "c", "d", "a"])
    counts = HalfCounts(FakeClock())
    had_open = counts.has_open
    for half in halves:
        counts.look(half)
    assert (had_open, counts.has_open) == (False, True)
    assert shown(counts) == {"a": 2, "b": 1, UNKNOWN_TOPIC: 2}
    counts.drop(halves[3].place.queue_offset)
    counts.drop(len(halves))
    assert shown(counts) == {"a": 2, "b": 1, UNKNOWN_TOPIC: 1}


@pytest.mark.parametrize("state", [HalfState.COMMITTED, HalfState.ROLLED_BACK])
def test_what_is_decided_is_counted_with_the_time_it_took(state: HalfState) -> None:
    clock = FakeClock()
    counts = HalfCounts(clock)
    counts.end("orders", clock.wall_ms() - 90_000, state, 2)
    counts.end("", clock.wall_ms() + 5_000, state)
    decided, other = counts.committed, counts.rolled_back
    if state is HalfState.ROLLED_BACK:
        decided, other = other, decided
    assert decided.values == {("orders",): 2, (UNKNOWN_TOPIC,): 1}
    assert other.values == {}
    taken = counts.finish.at(("orders",))
    assert (taken.sum, sum(taken.counts)) == (180, 2)
    assert counts.finish.at((UNKNOWN_TOPIC,)).sum == 0
