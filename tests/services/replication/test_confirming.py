"""The part of the log that enough followers have, from their reports alone."""

import pytest

from pocketmq.services.replication import confirming
from pocketmq.services.replication.confirming import Confirming, InSync
from pocketmq.store.marks import Marks


def counted(*, puts: int, replicas: int = 2, is_all: bool = False) -> tuple[Marks, Confirming]:
    """Returns marks with puts of 100 bytes that are flushed, and sent to followers."""
    marks = Marks(0, 0, 0, is_sync=True, is_bounded=True)
    made = Confirming(marks, InSync(replicas, is_all))
    made.look([])
    for end in range(100, 100 * puts + 1, 100):
        marks.append(end, end)
        marks.commit(end, end)
        marks.flush(end, end)
        made.sends(end, end)
    return marks, made


def test_a_part_of_a_put_counts_for_nothing() -> None:
    marks, made = counted(puts=3)
    made.look([("a", 299)])
    assert (marks.visible().value, marks.visible().time_ms) == (200, 200)


def test_as_many_followers_as_needed_must_have_it() -> None:
    marks, made = counted(puts=3, replicas=3)
    made.look([("a", 300), ("a", 300)])
    assert (made.is_short, marks.visible().value) == (True, 0)
    made.look([("a", 300), ("b", 100), ("c", 0)])
    assert (made.is_short, marks.visible().value) == (False, 100)


def test_a_lower_report_takes_nothing_back() -> None:
    marks, made = counted(puts=2)
    made.look([("a", 200)])
    made.look([("a", 50)])
    assert marks.visible().value == 200
    marks.append(300, 300)
    marks.commit(300, 300)
    marks.flush(300, 300)
    made.sends(300, 300)
    made.look([("a", 299)])
    assert marks.visible().value == 200
    made.look([("a", 300)])
    assert marks.visible().value == 300


def test_all_means_those_that_have_caught_up_once() -> None:
    marks, made = counted(puts=2, is_all=True)
    made.look([("a", 100), ("b", 100)])
    made.look([("a", 200), ("b", 150), ("new", 0)])
    assert marks.visible().value == 100, "b has it not, and is in sync"
    made.look([("a", 200), ("new", 0)])
    assert marks.visible().value == 200, "b is gone, and the new one never was in sync"


def test_ends_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirming, "ENDS_MAX", 4)
    marks, made = counted(puts=50)
    made.look([("a", 499)])
    assert marks.visible().value == 300
    made.look([("a", 5_000)])
    assert marks.visible().value == 5_000


def test_without_the_setting_reports_change_nothing() -> None:
    marks = Marks(0, 0, 0, is_sync=True)
    made = Confirming(marks, InSync())
    made.sends(100, 1)
    made.look([("a", 0)])
    assert (made.is_on, made.is_short, marks.replicated.value) == (False, False, 0)
