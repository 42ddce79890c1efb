"""The ends of the log: each only grows, none passes the one it follows, and gauges show them."""

from collections.abc import Callable

import pytest

from pocketmq.model.errors import FsyncFailed
from pocketmq.store.marks import Marks
from pocketmq.store.message_store import STATES, store_gauges


def marks_at(appended: int, committed: int, flushed: int, dispatched: int) -> Marks:
    marks = Marks(0, 0, 0, is_sync=False)
    marks.append(appended, 5)
    marks.commit(committed, 4)
    marks.flush(flushed, 3)
    marks.dispatch(dispatched, 2, dispatched)
    return marks


async def test_who_waits_for_an_end_goes_on_when_it_is_reached() -> None:
    marks = marks_at(100, 100, 0, 0)
    waiting = marks.flushed.reached(90)
    marks.flush(80, 5)
    assert not waiting.done()
    marks.flush(100, 5)
    assert await waiting
    assert (marks.flushed.time_ms, marks.replicated.value) == (5, 100)


@pytest.mark.parametrize(("is_sync", "visible"), [(True, 30), (False, 40)])
def test_consumers_see_what_is_flushed_or_committed(is_sync: bool, visible: int) -> None:
    marks = Marks(0, 0, 0, is_sync=is_sync)
    marks.append(50, 1)
    marks.commit(40, 1)
    marks.flush(30, 1)
    assert marks.visible().value == visible
    with pytest.raises(AssertionError):
        marks.dispatch(visible + 1, 1, 0)
    marks.dispatch(visible, 1, 0)


async def test_with_a_bound_consumers_see_only_what_is_replicated_too() -> None:
    marks = Marks(10, 1, 0, is_sync=True, is_bounded=True)
    marks.append(50, 5)
    marks.commit(50, 5)
    assert marks.visible().value == 10
    waiting = marks.visible().reached(30)
    marks.flush(50, 5)
    assert (marks.visible().value, waiting.done()) == (10, False)
    marks.replicate(30, 3)
    assert await waiting
    assert (marks.visible().value, marks.visible().time_ms) == (30, 3)
    marks.replicate(20, 2)
    assert marks.replicated.value == 30, "a lower report does not take anything back"
    marks.replicate(90, 9)
    assert (marks.visible().value, marks.visible().time_ms) == (50, 5)
    with pytest.raises(AssertionError):
        marks.dispatch(51, 9, 50)


async def test_who_waits_to_see_something_learns_of_a_failure() -> None:
    marks = Marks(10, 1, 0, is_sync=True, is_bounded=True)
    waiting = marks.visible().reached(30)
    marks.fail(FsyncFailed(why="it is gone"))
    with pytest.raises(FsyncFailed):
        await waiting


@pytest.mark.parametrize(
    "wrong",
    [
        lambda marks: marks.append(39, 9),
        lambda marks: marks.commit(41, 9),
        lambda marks: marks.flush(31, 9),
        lambda marks: marks.flush(19, 9),
        lambda marks: marks.dispatch(31, 9, 30),
        lambda marks: marks.dispatch(30, 9, 31),
        lambda marks: marks.dispatch(30, 9, 9),
        lambda marks: Marks(5, 0, 6, is_sync=True),
    ],
)
def test_no_end_goes_back_or_passes_the_one_it_follows(wrong: Callable[[Marks], object]) -> None:
    marks = marks_at(40, 30, 20, 10)
    with pytest.raises(AssertionError):
        wrong(marks)


async def test_after_a_failure_nothing_is_durable_any_more() -> None:
    marks = marks_at(40, 30, 20, 10)
    waiting = marks.flushed.reached(30)
    first = FsyncFailed(why="EIO")
    marks.fail(first)
    marks.fail(FsyncFailed(why="later"))
    assert marks.failure is first
    with pytest.raises(FsyncFailed, match="EIO"):
        await waiting
    with pytest.raises(AssertionError):
        marks.flush(30, 9)


# -- gauges ----------------------------------------------------------------------------------------


def read(marks: Marks, name: str, state: str = "running") -> object:
    (gauge,) = [one for one in store_gauges(lambda: state, marks, lambda: 3) if one.name == name]
    return gauge.read()


@pytest.mark.parametrize("state", STATES)
def test_exactly_one_state_is_1(state: str) -> None:
    shown = read(marks_at(0, 0, 0, 0), "pocketmq_store_state", state)
    assert shown == {(other,): float(other == state) for other in STATES}


def test_distances_are_those_of_the_moment() -> None:
    marks = marks_at(1_000, 1_000, 900, 700)
    gauges = {gauge.name: gauge for gauge in store_gauges(lambda: "", marks, lambda: 3)}
    assert gauges["rocketmq_storage_dispatch_behind_bytes"].read() == 300.0
    assert gauges["rocketmq_storage_flush_behind_bytes"].read() == 100.0
    assert gauges["pocketmq_reput_behind_messages"].read() == 3.0
    marks.append(5_000, 9)
    assert gauges["pocketmq_reput_behind_bytes"].read() == 4_300.0
