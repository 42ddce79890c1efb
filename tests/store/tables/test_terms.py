"""Terms of leaders: durable when they are written, and compared to find where two logs agree."""

import json
import threading
from pathlib import Path

import pytest

from pocketmq.model.errors import TableUnreadable
from pocketmq.model.replication import FOLLOWER, LEADER
from pocketmq.store.tables.terms import Fence, Term, TermTable, terms_of
from tests.sim.disk import SimDisk

PLACE = Path("/store")
FILE = PLACE / "pocketmq" / "terms.json"


def loaded(disk: SimDisk) -> TermTable:
    terms = TermTable(disk, PLACE)
    terms.load()
    return terms


def test_a_store_without_terms_has_epoch_0_from_its_begin() -> None:
    terms = loaded(SimDisk())
    assert (terms.role, terms.epoch, terms.begin, terms.fence) == ("", 0, 0, None)
    assert terms.common_end(0, 500) == 500


def test_a_promotion_is_durable_before_it_returns() -> None:
    disk = SimDisk()
    loaded(disk).follow("a:1")
    loaded(disk).lead(900, left_bytes=60)
    terms = loaded(SimDisk(disk.image))
    assert (terms.role, terms.leader, terms.history) == (LEADER, "a:1", [Term(1, 900)])
    assert terms.left_bytes == 60
    terms.lead(1_500)
    terms.follow("b:1")
    again = loaded(SimDisk(disk.image))
    assert (again.role, again.leader, again.epoch, again.begin) == (FOLLOWER, "b:1", 2, 1_500)


def test_a_fence_outlasts_a_crash_and_ends_with_the_next_role() -> None:
    disk = SimDisk()
    terms = loaded(disk)
    terms.lead(0)
    terms.shut(Fence(4, 900, "b:1"))
    terms = loaded(SimDisk(disk.image))
    assert terms.fence == Fence(4, 900, "b:1")
    terms.lead(2_000)
    assert loaded(disk).fence is None
    assert loaded(disk).history == [Term(1, 0), Term(5, 2_000)]


def test_terms_that_began_beyond_the_end_of_the_log_are_no_longer_true() -> None:
    """A follower was told of a term, and was promoted before it had any of its records."""
    terms = loaded(SimDisk())
    terms.adopt([Term(1, 100), Term(2, 900)])
    terms.lead(500)
    assert terms.history == [Term(1, 100), Term(3, 500)]


@pytest.mark.parametrize(
    ("epoch", "end", "common"),
    [(0, 50, 50), (0, 700, 100), (1, 700, 700), (1, 950, 900), (2, 950, 950), (9, 950, 950)],
)
def test_logs_agree_up_to_the_first_term_that_only_one_has(
    epoch: int, end: int, common: int
) -> None:
    terms = loaded(SimDisk())
    terms.adopt([Term(1, 100), Term(2, 900)])
    assert terms.common_end(epoch, end) == common


@pytest.mark.parametrize(
    "rows",
    [
        None, {}, [1], [[1]], [[0, 5]], [[1, -1]], [[1, 2**63]], [[2**31, 0]], [[True, 0]],
        [[2, 0], [1, 5]], [[1, 5], [2, 4]], [[1, 5], [1, 6]], [["1", 0]],
    ],
)  # fmt: skip
def test_terms_that_no_leader_writes_are_refused(rows: object) -> None:
    with pytest.raises(ValueError, match=r"terms|epoch|offset|term"):
        terms_of(rows)
    disk = SimDisk()
    disk.make_directory(FILE.parent)
    disk.write_file(FILE, json.dumps({"role": "", "leader": "", "terms": rows}).encode())
    with pytest.raises(TableUnreadable):
        loaded(disk)


@pytest.mark.parametrize(
    "change", [{"role": "king"}, {"leader": 5}, {"fence": [1]}, {"fence": 7}, {"left": -1}]
)
def test_other_fields_that_nobody_writes_are_refused(change: dict[str, object]) -> None:
    disk = SimDisk()
    disk.make_directory(FILE.parent)
    disk.write_file(FILE, json.dumps({"role": "", "leader": "", "terms": [], **change}).encode())
    with pytest.raises(TableUnreadable):
        loaded(disk)


def test_two_connections_that_fence_at_once_write_one_after_the_other() -> None:
    disk, second_writes = SimDisk(), threading.Event()
    terms = loaded(disk)
    terms.lead(0)
    fence = Fence(2, 900, "b:1")
    second = threading.Thread(target=terms.shut, args=[fence])
    overlaps: list[str] = []

    def called(call: str, path: Path) -> None:
        if threading.current_thread() is second:
            second_writes.set()
        elif second.ident is None:
            second.start()
            if second_writes.wait(0.2):
                overlaps.append(call)

    disk.hook = called
    terms.shut(fence)
    second.join()
    assert second_writes.is_set()
    assert overlaps == []
    assert loaded(SimDisk(disk.image)).fence == fence
