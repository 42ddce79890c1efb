"""How far the offsets on disk go with the journal: marks are read, written, distrusted, moved."""

from typing import Any

import pytest

from pocketmq.store.tables.lease_marks import LeaseMarks

ORDERS, AUDIT = ("orders@g", 0), ("audit@g", 3)
MEMBER = {"adopted": True, "begin": 4, "known": 9, "set": {"orders@g": {"0": 12, "1": 7}}}


def marks_of(member: dict[str, Any], journal_end: int = 20) -> LeaseMarks:
    """Marks as they are read from a file, with the journal's end."""
    marks = LeaseMarks()
    marks.load(member)
    marks.journal_end = journal_end
    return marks


def test_a_store_without_marks_has_a_journal_that_begins_at_0() -> None:
    for marks in (LeaseMarks(), marks_of({}, 0)):
        assert marks.member() == {"adopted": False, "begin": 0, "known": 0, "set": {}}
        assert (marks.is_kept, marks.journal_end, marks.held) == (False, 0, {})
        assert marks.pushes("orders@g", 0, 0)
        assert not marks.pass_fence()


def test_marks_are_written_as_they_were_read() -> None:
    marks = marks_of(MEMBER)
    assert marks.member() == MEMBER
    assert marks.is_kept
    assert list(marks.member()) == sorted(MEMBER), "by name, as RocketMQ writes"


@pytest.mark.parametrize("number", [-1, True, 1.5, "4", None, 1 << 63])
def test_a_mark_that_is_no_number_counts_as_0(number: object) -> None:
    member = {"begin": number, "known": number, "set": {"orders@g": {"0": number}}}
    read = marks_of(member).member()
    assert read == {"adopted": False, "begin": 0, "known": 0, "set": {"orders@g": {"0": 0}}}


@pytest.mark.parametrize("rows", [None, 5, [], {"orders@g": 5}, {"orders@g": {"x": 1, "-1": 2}}])
def test_a_row_that_names_no_queue_is_left_out(rows: object) -> None:
    assert marks_of({"set": rows}).member()["set"] == {}


@pytest.mark.parametrize("adopted", [False, None, 1, "true"])
def test_only_true_says_that_the_journal_alone_has_all_leases(adopted: object) -> None:
    assert not marks_of({"adopted": adopted}).is_adopted


@pytest.mark.parametrize(
    ("journal_end", "begin", "known"), [(9, 4, 9), (8, 0, 0), (3, 0, 0), (0, 0, 0)]
)
def test_marks_beyond_the_journals_end_are_of_another_log(
    journal_end: int, begin: int, known: int
) -> None:
    marks = marks_of(MEMBER, journal_end)
    marks.clamp()
    assert (marks.begin, marks.known) == (begin, known)


def test_a_begin_beyond_the_journals_end_is_of_another_log_whatever_is_known() -> None:
    marks = marks_of({"begin": 9, "known": 4}, 8)
    marks.clamp()
    assert (marks.begin, marks.known) == (0, 0)


def test_an_offset_set_beyond_the_journals_end_is_set_at_that_end() -> None:
    marks = marks_of(MEMBER, 10)
    marks.clamp()
    assert marks.member()["set"] == {"orders@g": {"0": 10, "1": 7}}


def test_leases_move_an_offset_from_what_is_known_and_from_where_it_was_set() -> None:
    marks = marks_of(MEMBER)
    pushing = {
        queue_id: [at for at in range(7, 14) if marks.pushes("orders@g", queue_id, at)]
        for queue_id in range(3)
    }
    assert pushing == {0: [12, 13], 1: [9, 10, 11, 12, 13], 2: [9, 10, 11, 12, 13]}


def test_the_disk_keeps_the_offset_from_before_the_first_lease() -> None:
    marks = LeaseMarks()
    marks.hold(*ORDERS, 5)
    marks.hold(*ORDERS, 8)
    assert marks.held == {ORDERS: 5}


@pytest.mark.parametrize(("journal_end", "is_noted"), [(9, False), (10, True)])
def test_an_offset_set_by_hand_is_noted_where_leases_would_move_it(
    journal_end: int, is_noted: bool
) -> None:
    marks = LeaseMarks()
    marks.known, marks.journal_end = 9, journal_end
    marks.hold(*ORDERS, 5)
    marks.set_aside(*ORDERS)
    assert marks.held == {}
    assert marks.is_kept == is_noted
    assert marks.member()["set"] == ({"orders@g": {"0": journal_end}} if is_noted else {})


def test_a_fence_moves_what_the_disk_has_up_to_where_offsets_were_then() -> None:
    marks = LeaseMarks()
    marks.hold(*ORDERS, 5)
    marks.fence({ORDERS: 8, AUDIT: 2}, 1, 3)
    marks.hold(*AUDIT, -1)
    assert marks.held[ORDERS] == 5, "the journal is not durable yet"
    assert marks.pass_fence()
    assert marks.held == {ORDERS: 8, AUDIT: 2}
    assert (marks.begin, marks.known) == (1, 3)
    assert marks.is_kept
    assert marks.is_adopted
    assert not marks.pass_fence(), "a fence is passed once"


def test_an_offset_that_is_not_held_any_more_is_not_held_by_a_fence() -> None:
    marks = LeaseMarks()
    marks.fence({ORDERS: 8}, 0, 0)
    assert marks.pass_fence()
    assert marks.held == {}


def test_an_offset_set_by_hand_behind_a_fence_is_not_moved_back_by_it() -> None:
    marks = LeaseMarks()
    marks.hold(*ORDERS, 5)
    marks.fence({ORDERS: 8}, 0, 0)
    marks.set_aside(*ORDERS)
    marks.hold(*ORDERS, 2)
    marks.pass_fence()
    assert marks.held == {ORDERS: 2}


def test_an_offset_set_by_hand_is_forgotten_once_the_marks_are_beyond_it() -> None:
    marks = marks_of(MEMBER)
    for known, rows in ((11, {"0": 12}), (12, {})):
        marks.fence({}, 4, known)
        assert marks.pass_fence()
        assert marks.member()["set"] == ({"orders@g": rows} if rows else {})


@pytest.mark.parametrize(
    ("live", "begin", "known", "is_adopted", "differs"),
    [
        ({}, 4, 9, True, False),
        ({ORDERS: 1}, 4, 9, True, True),
        ({}, 5, 9, True, True),
        ({}, 4, 10, True, True),
        ({}, 4, 9, False, True),
    ],
)
def test_a_fence_says_whether_anything_is_to_be_written(
    live: dict[tuple[str, int], int], begin: int, known: int, is_adopted: bool, differs: bool
) -> None:
    marks = marks_of({**MEMBER, "adopted": is_adopted})
    marks.fence(live, begin, known)
    assert marks.pass_fence() == differs
    assert (marks.begin, marks.known, marks.is_adopted) == (begin, known, True)


def test_offsets_the_disk_has_as_they_are_are_held_no_more() -> None:
    marks = LeaseMarks()
    marks.hold(*ORDERS, 5)
    marks.hold(*AUDIT, 2)
    marks.let_go({ORDERS: 5, AUDIT: 3})
    assert marks.held == {AUDIT: 2}
