"""Rates are what grew between two moments."""

import pytest

from broker.cli.connection import Connection
from broker.cli.live.snapshot import (
    Snapshot,
    TopicMoment,
    TopicRates,
    rates,
    snapshot_document,
    take_snapshot,
)
from tests.cli.fake_broker import FakeBroker


def moment(stored: int, committed: int, lag: int = 0) -> TopicMoment:
    return TopicMoment(stored, stored, committed, lag, 1)


def test_a_snapshot_has_all_topics_and_what_groups_left(fake: FakeBroker) -> None:
    fake.fill(3)
    fake.queues["audit"] = [[]]
    fake.stand("billing", "orders", q0=1)
    fake.stand("other", "orders", q0=3)
    with Connection("x") as broker:
        taken = take_snapshot(broker)
    assert taken.topics == {
        "audit": TopicMoment(0, 0, 0, 0, 0),
        "orders": TopicMoment(3, 3, 4, 2, 2),
    }
    assert taken.status == fake.status


def test_rates_are_by_the_second_and_the_busiest_comes_first(fake: FakeBroker) -> None:
    before = Snapshot(10.0, fake.status, {"a": moment(5, 0), "b": moment(0, 0)})
    after = Snapshot(12.0, fake.status, {"a": moment(6, 0), "b": moment(10, 4, 6)})
    assert rates(before, after) == [
        TopicRates("b", 5.0, 2.0, 6, 10, 1),
        TopicRates("a", 0.5, 0.0, 0, 6, 1),
    ]


@pytest.mark.parametrize(
    ("then", "now"), [(moment(9, 9), moment(0, 0)), (None, moment(7, 7))], ids=["reset", "new"]
)
def test_what_began_anew_has_no_rate_yet(
    fake: FakeBroker, then: TopicMoment | None, now: TopicMoment
) -> None:
    before = Snapshot(0.0, fake.status, {"a": then} if then else {})
    (row,) = rates(before, Snapshot(1.0, fake.status, {"a": now}))
    assert (row.in_per_s, row.out_per_s) == (0.0, 0.0)


def test_the_document_sums_up(fake: FakeBroker) -> None:
    later = fake.status._replace(appended_offset=fake.status.appended_offset + 500)
    before = Snapshot(0.0, fake.status, {"a": moment(0, 0), "b": moment(0, 0)})
    after = Snapshot(2.0, later, {"a": moment(2, 0, 2), "b": moment(4, 4)})
    document = snapshot_document(before, after)
    assert (document["interval_s"], document["log_bytes_per_s"]) == (2.0, 250)
    assert (document["in_per_s"], document["out_per_s"]) == (3.0, 2.0)
    assert document["lag_messages"] == 2
    assert document["store"] == later._asdict()
