"""Checkers find nothing in what a real broker wrote, and whatever is changed in it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pytest

from pocketmq.format.record import decode_record
from pocketmq.model.message import (
    FLAG_TRANSACTION_MASK,
    REAL_TOPIC,
    TIMER_OUT,
    TRANSACTION_COMMIT,
    StoredMessage,
)
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC
from tests.faults.checkers import (
    COMMIT,
    GIVEN_UP_TOPIC,
    ROLLBACK,
    Told,
    Verdict,
    delays,
    once,
    transactions,
)
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import open_log

WAYS: Final = (TIMER_TOPIC,)
Records = list[StoredMessage]


@pytest.fixture(scope="module")
def real(golden: GoldenStores) -> Records:
    """All records of a real broker's log with transactions, delays and retries."""
    log = open_log(golden, "semantics")
    found = [
        decode_record(bytes(file.view[position : position + size]))
        for _, file, position, size in log.scan(0)
    ]
    log.close()
    return found


def committed(records: Sequence[StoredMessage]) -> Records:
    """Returns what was committed."""
    return [one for one in records if one.system_flag & FLAG_TRANSACTION_MASK == TRANSACTION_COMMIT]


def done(records: Sequence[StoredMessage]) -> set[int]:
    """Returns the half messages that are told to be done."""
    bodies = [one.body.decode() for one in records if one.topic == OP_HALF_TOPIC]
    return {int(text) for body in bodies for text in body.split(",") if text}


@pytest.fixture(scope="module")
def said(real: Records) -> dict[str, Verdict]:
    """Returns the decisions that producers of the real broker's transactions must have made."""
    commits = {one.unique_key for one in committed(real)}
    ended, halves = done(real), [one for one in real if one.topic == HALF_TOPIC]
    keys = {one.unique_key for one in halves if one.queue_offset in ended}
    return {key: _told(COMMIT if key in commits else ROLLBACK) for key in keys}


def _told(resolution: str) -> Verdict:
    return Verdict(frozenset({resolution}), resolution)


def test_transactions_of_a_real_broker_are_sound(
    real: Records, said: dict[str, Verdict]
) -> None:  # fmt: skip
    assert {one.taken for one in said.values()} == {COMMIT, ROLLBACK}
    assert any(
        key not in said for key in (one.unique_key for one in real if one.topic == HALF_TOPIC)
    )
    assert transactions(real, said) == []


def without_a_commit(records: Records) -> Records:
    lost = committed(records)[0]
    return [one for one in records if one is not lost]


def with_a_commit_twice(records: Records) -> Records:
    again = committed(records)[0]
    return [*records, replace(again, queue_offset=again.queue_offset + 1)]


def with_a_commit_of_another(records: Records) -> Records:
    first, other = committed(records)[:2]
    place = other.prepared_transaction_offset
    wrong = replace(first, prepared_transaction_offset=place)
    return [wrong if one is first else one for one in records]


def with_a_commit_of_nothing(records: Records) -> Records:
    first = committed(records)[0]
    wrong = replace(first, prepared_transaction_offset=1)
    return [wrong if one is first else one for one in records]


def with_one_done_less(records: Records) -> Records:
    op = next(one for one in records if one.topic == OP_HALF_TOPIC)
    wrong = replace(op, body=op.body.partition(b",")[2])
    return [wrong if one is op else one for one in records]


def with_an_open_one_done(records: Records) -> Records:
    op = next(one for one in records if one.topic == OP_HALF_TOPIC)
    gone = next(one for one in records if one.topic == GIVEN_UP_TOPIC)
    halves = [one for one in records if one.topic == HALF_TOPIC]
    at = max(one.queue_offset for one in halves if one.unique_key == gone.unique_key)
    records = [one for one in records if one is not gone]
    wrong = replace(op, body=op.body + f"{at},".encode())
    return [wrong if one is op else one for one in records]


def with_one_done_that_is_none(records: Records) -> Records:
    op = next(one for one in records if one.topic == OP_HALF_TOPIC)
    wrong = replace(op, body=op.body + b"99999,")
    return [wrong if one is op else one for one in records]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (without_a_commit, "is committed 0 times, said COMMIT"),
        (with_a_commit_twice, "is committed 2 times"),
        (with_a_commit_of_another, "has another key"),
        (with_a_commit_of_nothing, "no half message"),
        (with_one_done_less, "is not told to be done"),
        (with_an_open_one_done, "is done for no reason"),
        (with_one_done_that_is_none, "99999 is told to be done"),
    ],
)
def test_what_is_changed_in_transactions_is_found(
    real: Records, said: dict[str, Verdict], changed: Callable[[Records], Records], text: str
) -> None:
    wrong = transactions(changed(real), said)
    assert any(text in one for one in wrong), wrong


def test_a_commit_that_was_said_to_be_rolled_back_is_found(
    real: Records, said: dict[str, Verdict]
) -> None:
    key = committed(real)[0].unique_key
    wrong = transactions(real, {**said, key: Verdict(frozenset({ROLLBACK}))})
    assert any(text.startswith(key) and "nobody asked" in text for text in wrong)


# -- once ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("is_stored", "is_wanted", "sends", "counts"),
    [
        (True, True, 1, {1}),
        (True, True, 2, {1, 2}),
        (None, True, 1, {0, 1}),
        (None, True, 3, {0, 1, 2, 3}),
        (False, True, 1, {0}),
        (True, False, 1, {0}),
        (True, None, 1, {0, 1}),
        (None, False, 1, {0}),
    ],
)
def test_a_message_is_there_as_often_as_its_producer_may_expect(
    real: Records,
    is_stored: bool | None,
    is_wanted: bool | None,
    sends: int,
    counts: set[int],
) -> None:
    record = committed(real)[0]
    told = {record.unique_key: Told(record.topic, is_stored, is_wanted, sends)}
    sound = {count for count in range(5) if not once([record] * count, told)}
    assert sound == counts


def test_a_message_that_nobody_sent_is_found(real: Records) -> None:
    first, other = committed(real)[:2]
    told = {first.unique_key: Told(first.topic)}
    assert once([first, other], told) == [f"nobody sent {other.unique_key} to {other.topic}"]


# -- delays ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ahead_ms", "is_sound"), [(0, True), (50, True), (51, False), (-1_001, False)]
)
def test_what_comes_early_or_late_is_found(
    real: Records, ahead_ms: int, *, is_sound: bool
) -> None:  # fmt: skip
    record = committed(real)[0]
    due_ms = {record.unique_key: record.store_timestamp_ms + ahead_ms}
    assert bool(delays([record], due_ms, early_ms=50, late_ms=1_000)) != is_sound


def test_delays_of_a_real_broker_are_kept(real: Records) -> None:
    due_ms = {
        one.unique_key: int(one.properties[TIMER_OUT])
        for one in real
        if one.topic == TIMER_TOPIC and one.properties.get(REAL_TOPIC, "").startswith("T")
    }
    came = [one for one in real if one.unique_key in due_ms and one.topic not in WAYS]
    assert came
    assert delays(came, due_ms, early_ms=0, late_ms=2_000) == []
