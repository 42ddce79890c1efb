"""Half messages in memory, the offset a start reads from, and check times, by models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.services.transaction import half_table as ops_module
from pocketmq.services.transaction import halves as halves_module
from pocketmq.services.transaction.checking import ROUND_MS, CheckSchedule
from pocketmq.services.transaction.half_table import Ops
from pocketmq.services.transaction.halves import HalfState, Halves

DONE = [state for state in HalfState if state >= HalfState.COMMITTED]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few that are done are remembered."""
    monkeypatch.setattr(halves_module, "REMEMBERED_MAX", 4)


@given(st.integers(0, 5), st.lists(st.tuples(st.integers(0, 40), st.sampled_from(DONE))))
def test_states_are_those_of_a_model(begin: int, ends: list[tuple[int, HalfState]]) -> None:
    halves, model = Halves(begin), dict.fromkeys(range(begin, begin + 41), HalfState.OPEN)
    assert halves.grow(begin + 41) == 41
    assert halves.grow(begin) == 0
    for number, state in ends:
        at = begin + number
        if model[at] is not HalfState.OPEN:
            assert not halves.is_open(at)
            continue
        halves.take(at)
        assert not halves.is_open(at)
        halves.give_back(at)
        moved_to = at + 7 if state is HalfState.MOVED else 0
        halves.finish(at, state, moved_to)
        model[at] = state
        if moved_to and halves.state(at) is not None:
            assert halves.moved_to(at) == moved_to
    still_open = [at for at, state in model.items() if state is HalfState.OPEN]
    assert halves.open_count == len(still_open)
    assert halves.open_in(0, 1_000) == still_open
    assert halves.begin == min(still_open, default=begin + 41)
    for at, state in model.items():
        assert halves.state(at) in ((state, None) if at < halves.begin else (state,))
    forgotten = [at for at in model if halves.state(at) is None]
    assert halves.begin - halves.base <= 2 * 4
    assert not forgotten or max(forgotten) < halves.begin - 4


def test_some_that_are_open_end_together() -> None:
    halves = Halves(0)
    halves.grow(4)
    halves.finish_open([0, 2], bytes((HalfState.COMMITTED, HalfState.ROLLED_BACK)))
    assert halves.open_in(0, 9) == [1, 3]
    assert (halves.begin, halves.open_count) == (1, 2)
    assert halves.state(2) is HalfState.ROLLED_BACK
    halves.take(1)
    with pytest.raises(AssertionError, match="open"):
        halves.finish_open([1], bytes((HalfState.COMMITTED,)))


def test_an_open_one_is_known_where_it_was_put() -> None:
    halves = Halves(2)
    halves.grow(3)
    halves.put(3, [0, 70])
    assert halves.end == 5
    known = [
        (at, place) for at in range(6) for place in (0, 69, 70) if halves.is_open_at(at, place)
    ]
    assert known == [(3, 0), (4, 70)]
    halves.take(4)
    assert not halves.is_open_at(4, 70)
    halves.give_back(4)
    assert halves.is_open_at(4, 70)
    halves.finish(4, HalfState.MOVED, 70)
    assert not halves.is_open_at(4, 69)
    assert halves.moved_to(4) == 70


@given(st.lists(st.lists(st.integers(0, 20), max_size=4), max_size=20), st.integers(0, 25))
def test_offsets_pass_only_what_is_over_and_next_to_it(
    named: list[list[int]], half_begin: int
) -> None:
    ops = Ops(3)
    for place in reversed(range(len(named))):
        ops.add(3 + place, named[place])
    is_over = [all(at < half_begin for at in one) for one in named]
    wanted = 3 + [*is_over, False].index(False)
    assert ops.advance(half_begin) == wanted
    assert ops.advance(half_begin) == wanted, "it never goes back"
    assert ops.end == 3 + len(named)


def test_offsets_do_not_pass_a_gap() -> None:
    ops = Ops(0)
    ops.add(1, [0])
    assert ops.advance(99) == 0
    ops.add(0, [])
    assert ops.advance(99) == 2


@given(
    st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 50), st.integers(1, 9))),
    st.integers(1, 5),
)
def test_ranges_come_when_they_are_due_and_none_is_lost(
    ranges: list[tuple[int, int, int]], count_max: int
) -> None:
    timetable = CheckSchedule()
    wanted: list[tuple[int, int]] = []
    for at_ms, begin, count in ranges:
        timetable.add(at_ms, begin, begin + count)
        wanted += [(at_ms, at) for at in range(begin, begin + count)]
    found: list[tuple[int, int]] = []
    for now_ms in range(0, 3_000 + ROUND_MS + 1, ROUND_MS):
        while (due := timetable.due(now_ms, count_max)) is not None:
            begin, end = due
            assert 0 < end - begin <= count_max
            found += [(now_ms, at) for at in range(begin, end)]
    assert timetable.next_ms is None
    late = sorted((-(-at_ms // ROUND_MS) * ROUND_MS, at) for at_ms, at in wanted)
    assert sorted(found) == late


def test_a_million_that_are_due_together_are_a_few_numbers() -> None:
    timetable = CheckSchedule()
    for at in range(0, 1_000_000, 100):
        timetable.add(6_000, at, at + 100)
    assert timetable.due(5_999, 10_000_000) is None
    assert timetable.due(6_000, 10_000_000) == (0, 1_000_000)
    assert timetable.next_ms is None


def test_of_what_is_done_the_last_ones_are_remembered() -> None:
    halves = Halves(3)
    halves.grow(3 + 20)
    for at in range(3, 3 + 20):
        halves.finish(at, HalfState.MOVED, at + 100)
        assert halves.begin == at + 1
        assert halves.begin - 2 * 4 <= halves.base <= max(3, halves.begin - 4)
        assert all(halves.moved_to(n) == n + 100 for n in range(halves.base, halves.begin))
        assert halves.state(halves.base - 1) is None
    assert halves.end == 23


def test_they_are_forgotten_when_twice_as_many_as_are_remembered_are_done() -> None:
    halves = Halves(3)
    halves.grow(3 + 15)
    bases: list[int] = []
    for at in range(3, 3 + 15):
        halves.finish(at, HalfState.COMMITTED)
        bases.append(halves.base)
    assert bases == [*[3] * 8, *[8] * 5, *[13] * 2]


def test_of_what_was_not_seen_or_is_forgotten_nothing_is_known() -> None:
    halves = Halves(2)
    halves.put(2, [70])
    assert [halves.state(at) for at in (1, 2, 3)] == [None, HalfState.OPEN, None]
    assert [halves.is_open(at) for at in (1, 2, 3)] == [False, True, False]
    assert [halves.may_be_open(at) for at in (1, 2, 3)] == [False, True, True]
    assert [halves.is_open_at(at, 70) for at in (1, 2, 3)] == [False, True, False]
    assert [halves.open_in(0, at) for at in (2, 3, 4)] == [[], [2], [2]]
    assert (halves.grow(2), halves.grow(3), halves.grow(4)) == (0, 0, 1)


def test_one_that_ended_together_with_others_lies_nowhere() -> None:
    halves = Halves(0)
    halves.put(0, [70, 90])
    halves.finish_open([1], bytes((HalfState.DONE,)))
    halves.know(1, HalfState.MOVED, 8)
    assert halves.moved_to(1) == 8
    halves.finish_open([0], bytes((HalfState.MOVED,)))
    assert halves.moved_to(0) == 0


def test_what_is_not_known_to_be_done_may_be_open() -> None:
    halves = Halves(2)
    halves.grow(6, HalfState.UNSURE)
    halves.believe(2)
    halves.take(2)
    halves.finish(4, HalfState.LOST)
    assert [at for at in range(9) if halves.may_be_open(at)] == [2, 3, 5, 6, 7, 8]
    assert [at for at in range(9) if halves.is_open(at)] == []
    assert halves.open_in(0, 9) == [3, 5]
    halves.end_before([1, 2, 3, 4, 5, 9])
    assert [halves.state(at) for at in (2, 3, 4, 5)] == [
        HalfState.TAKEN, HalfState.DONE, HalfState.LOST, HalfState.DONE,
    ]  # fmt: skip
    assert halves.open_count == 1


def test_of_what_is_over_nothing_is_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops_module, "CUT_ABOVE", 4)
    ops = Ops(10)
    for at in range(10, 40):
        ops.add(at, [at])
        assert ops.advance(at - 2) == max(at - 2, 10)
        assert ops.begin == max(at - 2, 10)
        assert ops.end == at + 1
        assert ops.begin - ops.base <= 4
