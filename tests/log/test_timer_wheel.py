"""The wheel: what waits for a second, found by that second; against a table of lists."""

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.files.disk import Disk
from pocketmq.log.timer_wheel import Numbers, Slot, TimerWheel
from tests.golden_stores import GoldenStores
from tests.sim.disk import SimDisk

SLOTS = 64
Adds = st.lists(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from((1, 1, 1, -1))), max_size=8), max_size=8
)


def new_wheel(disk: SimDisk | None = None) -> TimerWheel:
    wheel = TimerWheel(disk or SimDisk(), Path("/timerwheel"), precision_ms=1_000, slot_count=SLOTS)
    wheel.make(Path("/"))
    wheel.open()
    return wheel


def columns(*rows: tuple[int, ...]) -> tuple[Numbers, Numbers, Numbers]:
    times, places, counts = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return times, places, counts


class Model:
    """A model of pending timers by second, in lists."""

    def __init__(self) -> None:
        self.waiting: dict[int, list[tuple[int, int]]] = {}

    def add(self, time_ms: int, place: int, count: int) -> int:
        chain = self.waiting.setdefault(time_ms, [])
        before = chain[-1][0] if chain else -1
        chain.append((place, count))
        return before

    def slot(self, time_ms: int) -> Slot | None:
        chain = self.waiting.get(time_ms)
        if not chain:
            return None
        return Slot(time_ms, chain[0][0], chain[-1][0], sum(count for _, count in chain))


@settings(max_examples=60)
@given(Adds, st.integers(1, 10_000))
def test_slots_hold_what_was_added(adds: list[list[tuple[int, int]]], begin: int) -> None:
    wheel, model, place = new_wheel(), Model(), 0
    for rows in adds:
        found = [((begin + at) * 1_000, place + 52 * i, n) for i, (at, n) in enumerate(rows)]
        place += 52 * len(rows)
        if found:
            times, places, counts = columns(*found)
            before = wheel.before(times, places).tolist()
            assert before == [model.add(*row) for row in found]
            wheel.add(times, places, counts)
    for second in range(begin, begin + SLOTS):
        assert wheel.slot(second * 1_000) == model.slot(second * 1_000)
    times_ms = sorted(model.waiting)
    assert wheel.used_from(begin * 1_000).tolist() == times_ms
    first = times_ms[0] if times_ms else (begin + SLOTS) * 1_000
    assert wheel.next_used(begin * 1_000, (begin + SLOTS) * 1_000) == first
    counted = sum(slot.message_count for time_ms in times_ms if (slot := model.slot(time_ms)))
    assert wheel.waiting_count(begin * 1_000) == counted
    wheel.close()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from((1, -1))), max_size=30), st.data())
def test_a_start_finds_in_the_log_what_a_crash_took_of_the_wheel(
    rows: list[tuple[int, int]], data: st.DataObject
) -> None:
    found = [((100 + second) * 1_000, 52 * i, count) for i, (second, count) in enumerate(rows)]
    kept, begin = sorted(data.draw(st.tuples(*[st.integers(0, len(rows))] * 2)), reverse=True)
    whole, torn = new_wheel(), new_wheel()
    for wheel, some in ((whole, found), (torn, found[:kept])):
        if some:
            wheel.add(*columns(*some))
    if found[begin:]:
        torn.revise(*columns(*found[begin:]), 52 * begin)
    for second in range(100, 100 + SLOTS):
        assert torn.slot(second * 1_000) == whole.slot(second * 1_000)
    for wheel in (whole, torn):
        wheel.close()


def test_a_slot_of_another_lap_is_empty_and_is_taken_over() -> None:
    wheel = new_wheel()
    wheel.add(*columns((5_000, 0, 1), (5_000, 52, 1)))
    later_ms = 5_000 + wheel.span_ms
    assert wheel.slot(later_ms) is None
    times, places, counts = columns((later_ms, 104, 1))
    assert wheel.before(times, places).tolist() == [-1]
    wheel.add(times, places, counts)
    assert wheel.slot(later_ms) == Slot(later_ms, 104, 104, 1)
    assert wheel.slot(5_000) is None
    wheel.close()


def test_what_waits_is_counted_up_to_each_of_some_times() -> None:
    wheel = new_wheel()
    wheel.add(*columns(*[(second * 1_000, 52 * second, 1) for second in range(1, 60)]))
    wheel.add(*columns((7_000, 52 * 80, -1), (9_000, 52 * 81, 1)))
    for begin_ms in (1_000, 8_000, 59_000, 80_000):
        ends_ms = [begin_ms + by_ms for by_ms in (0, 1_000, 5_000, 30_000, 3_600_000)]
        wanted = [wheel.waiting_count(begin_ms, end_ms) for end_ms in ends_ms]
        assert wheel.counts_until(begin_ms, ends_ms) == wanted
    assert wheel.counts_until(8_000, [5_000, 10_000]) == [0, 3]
    wheel.close()
    assert wheel.counts_until(8_000, [5_000, 10_000]) == [0, 0], "read after the store was closed"


def test_what_is_cleared_waits_no_more() -> None:
    wheel = new_wheel()
    wheel.add(*columns(*[(second * 1_000, 52 * second, 1) for second in range(1, 20)]))
    assert wheel.highest_last(0) == 52 * 19
    assert wheel.highest_last(20_000) == -1
    wheel.clear()
    assert wheel.used_from(0).tolist() == []
    assert wheel.highest_last(0) == -1
    wheel.close()


def test_a_wheel_is_as_it_was_when_it_is_opened_again() -> None:
    disk = SimDisk()
    wheel = new_wheel(disk)
    wheel.add(*columns((5_000, 0, 1)))
    wheel.file.sync()
    wheel.close()
    wheel = TimerWheel(disk, Path("/timerwheel"), precision_ms=1_000, slot_count=SLOTS)
    assert wheel.found_size() == wheel.size_bytes
    wheel.open()
    assert wheel.slot(5_000) == Slot(5_000, 0, 0, 1)
    wheel.close()


def test_a_real_wheel_leads_to_what_a_real_broker_left_waiting(
    golden: GoldenStores, tmp_path: Path
) -> None:
    directory = golden.copy("semantics", tmp_path / "s")
    wheel = TimerWheel(Disk(), directory / "timerwheel", precision_ms=1_000)
    wheel.open()
    assert wheel.slot(1795221436000) == Slot(1795221436000, 52, 2080, 7)
    assert wheel.slot(1795223225000) == Slot(1795223225000, 2652, 2652, -1)
    assert wheel.next_used(1795221494000, 1795221600000) == 1795221499000
    wheel.close()
