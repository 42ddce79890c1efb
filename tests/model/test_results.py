"""Outcomes are plain values: they have RocketMQ's numbers and read by name."""

from broker.model.results import (
    Bound,
    PullResult,
    PullStatus,
    PutResult,
    PutStatus,
    QueryResult,
    ScanEnd,
)


def test_a_put_result_tells_where_its_rows_lie() -> None:
    result = PutResult(PutStatus.OK, [0, 100], 7, 1_700_000_000_000, 200)
    assert result.status is PutStatus.OK
    assert [result.queue_offset + row for row in range(2)] == [7, 8]
    assert result.end == 200


def test_a_pull_result_tells_where_to_go_on() -> None:
    result = PullResult(PullStatus.FOUND, 3, 0, 9, [b"a", b"b", b"c"], 3)
    assert result.record_count == len(result.records)
    assert result.min_offset <= result.next_begin_offset <= result.max_offset


def test_a_query_that_found_all_has_no_cursor() -> None:
    result = QueryResult(messages=[], complete=True, next_cursor="")
    assert result == ([], True, "")


def test_every_outcome_can_be_told_from_every_other() -> None:
    assert [status.value for status in PutStatus] == [1, 2, 3, 4]
    assert [status.value for status in PullStatus] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert Bound(0) is Bound.LOWER
    assert Bound(1) is Bound.UPPER


def test_a_scan_says_in_words_why_it_ended() -> None:
    assert {end.value for end in ScanEnd} == {
        "file full", "reached the end asked for", "end of data", "torn", "bad",
    }  # fmt: skip
