"""Runs sorted for the views: by queue, as units, as index entries."""

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pocketmq.format.consume_unit import UNIT
from pocketmq.format.dispatch_batch import by_queue, entries_of, following_units, queues_of
from pocketmq.format.index_layout import STYLE_5_5
from pocketmq.model.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from tests.kit.records import entry, made_ahead

runs = some.lists(
    some.tuples(some.sampled_from("TUV"), some.integers(0, 2), some.sampled_from([0, 4, 8, 12]))
)


@settings(deadline=1_000)
@given(runs)
def test_every_run_is_with_its_queue_or_apart_in_order(rows: list[tuple[str, int, int]]) -> None:
    written = [
        entry(100 * place, topic=topic, queue_id=queue_id, transaction=transaction)
        for place, (topic, queue_id, transaction) in enumerate(rows)
    ]
    groups, apart = by_queue(written)
    has_offset = (TRANSACTION_NONE, TRANSACTION_COMMIT)
    queued = [run for run in written if run.destination.system_flag in has_offset]
    assert apart == [run for run in written if run not in queued]
    for key, group in groups.items():
        assert group == [run for run in queued if run.destination.queue == key]
    assert list(groups) == queues_of(queued)
    assert sum(map(len, groups.values())) == len(queued)


@pytest.mark.parametrize("is_ahead", [True, False])
def test_units_of_runs_that_follow(is_ahead: bool) -> None:
    one = entry(1_000, queue_offset=7, tags_code=-5, count=3)
    two = entry(5_000, queue_offset=10, tags_code=2**62, count=1)
    wanted = [(1_000, 100, -5), (1_100, 100, -5), (1_200, 100, -5), (5_000, 100, 2**62)]
    given = [made_ahead(run, STYLE_5_5) for run in (one, two)] if is_ahead else [one, two]
    units = b"".join(UNIT.pack(*unit) for unit in wanted)
    assert following_units(given, 7, 1_000) == units
    assert following_units(given[:1], 7, 900) == units[:60]


@pytest.mark.parametrize(("expected", "end"), [(6, 0), (8, 0), (7, 1_001)])
def test_runs_that_do_not_follow_the_last_unit(expected: int, end: int) -> None:
    assert following_units([entry(1_000, queue_offset=7)], expected, end) is None


@pytest.mark.parametrize(("place", "queue_offset"), [(1_100, 9), (1_100, 7), (1_099, 8)])
def test_runs_that_do_not_follow_each_other(place: int, queue_offset: int) -> None:
    two = [entry(1_000, queue_offset=7), entry(place, queue_offset=queue_offset)]
    assert following_units(two, 7, 0) is None


def test_entries_are_joined_where_each_run_brings_its_own() -> None:
    one, two = (made_ahead(entry(at, keys="a b"), STYLE_5_5) for at in (0, 100))
    assert entries_of([one, two]) == (one.entries or b"") + (two.entries or b"")
    assert one.entries is not None
    assert one.entries[4:12] == pack(">q", 0)
    assert entries_of([one]) == one.entries
    assert entries_of([one, entry(200, keys="c")]) is None


def test_records_that_are_not_indexed_are_left_to_the_index() -> None:
    prepared = made_ahead(entry(0, keys="a", transaction=TRANSACTION_PREPARED), STYLE_5_5)
    rolled_back = made_ahead(entry(0, keys="a", transaction=TRANSACTION_ROLLBACK), STYLE_5_5)
    assert entries_of([prepared]) == prepared.entries
    assert entries_of([rolled_back]) is None
