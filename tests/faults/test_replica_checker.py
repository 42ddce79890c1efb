"""The checker of two brokers' histories finds each kind of fault, and none without a fault."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.faults.history import Code
from tests.faults.replicas import (
    BACK,
    COPIES,
    FENCED,
    GAP,
    KINDS,
    LATE,
    LOST,
    ORDER,
    SEEN,
    TWICE,
    Ack,
    Knows,
    Leads,
    PairHistory,
    Place,
    Purged,
    Seen,
    faults_of,
)

ORDERS, BILLS = ("orders", 0), ("bills", 1)
COUNT: Final = 6


def sound() -> PairHistory:
    """Returns a history: `a` leads and is killed, `b` is promoted, `a` comes back and is fenced."""
    history = PairHistory()
    codes: list[Code] = [(0, seq) for seq in range(COUNT)]
    history.events.append(Leads(0, "a", 0))
    for at, code in enumerate(codes):
        node = "a" if at < 3 else "b"
        history.events.append(Ack(10 * at + 5, node, Place(ORDERS, at), code, 10 * at + 1))
        history.events.append(Seen(10 * at + 6, "ab"[at % 2], Place(ORDERS, at), code))
    history.events += [Leads(28, "b", 1), Knows(40, "a", 1)]
    history.again[1, 0] = 2  # Sent again, as its answer was lost with the connection.
    rows = {ORDERS: list(enumerate(codes)), BILLS: [(0, (1, 0)), (1, (1, 0))]}
    history.ends = {"a": rows, "b": {queue: list(found) for queue, found in rows.items()}}
    return history


def lost(history: PairHistory) -> None:
    for rows in history.ends.values():
        del rows[ORDERS][-1]  # type: ignore[attr-defined]
    history.events.remove(Seen(56, "b", Place(ORDERS, 5), (0, 5)))


def gap(history: PairHistory) -> None:
    for rows in history.ends.values():
        rows[BILLS][1] = (2, (1, 0))  # type: ignore[index]


def given_twice(history: PairHistory) -> None:
    history.events.append(Ack(70, "b", Place(BILLS, 0), (1, 0), 60))
    history.events.append(Ack(71, "b", Place(BILLS, 0), (1, 0), 60))
    assert faults_of(history) == []
    history.events.append(Ack(72, "b", Place(BILLS, 0), (1, 1), 60))


def stored_twice(history: PairHistory) -> None:
    history.again.clear()


def reordered(history: PairHistory) -> None:
    rows = history.ends["b"][ORDERS]
    (_, one), (_, other) = rows[1], rows[2]
    rows[1:3] = [(1, other), (2, one)]  # type: ignore[index]


def removed(history: PairHistory) -> None:
    history.events.append(Seen(25, "a", Place(BILLS, 2), (1, 7)))


def fenced(history: PairHistory) -> None:
    history.events.append(Ack(41, "a", Place(BILLS, 0), (1, 0), 20))


def late(history: PairHistory) -> None:
    history.events.append(Ack(39, "a", Place(BILLS, 0), (1, 0), 29))


def back(history: PairHistory) -> None:
    history.events.append(Purged(70, "b", Place(ORDERS, 2)))
    history.purging[ORDERS] = 2
    for rows in history.ends.values():
        del rows[ORDERS][:2]  # type: ignore[attr-defined]
    assert faults_of(history) == []
    history.events.append(Seen(71, "b", Place(ORDERS, 1), (0, 1)))


CHANGES: Final[dict[str, Callable[[PairHistory], None]]] = {
    LOST: lost, GAP: gap, TWICE: given_twice, COPIES: stored_twice, ORDER: reordered,
    SEEN: removed, FENCED: fenced, LATE: late, BACK: back,
}  # fmt: skip


def test_a_sound_history_has_no_fault() -> None:
    assert faults_of(sound()) == []
    assert set(CHANGES) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_is_found_and_named(kind: str) -> None:
    history = sound()
    CHANGES[kind](history)
    found = faults_of(history)
    assert any(text.startswith(f"{kind}: ") for text in found), found


@pytest.mark.parametrize("kind", [LOST, GAP, COPIES, SEEN, FENCED, LATE, BACK])
def test_a_fault_of_one_kind_is_none_of_another(kind: str) -> None:
    history = sound()
    CHANGES[kind](history)
    assert {text.partition(":")[0] for text in faults_of(history)} == {kind}


def test_a_leader_that_is_promoted_again_acknowledges_again() -> None:
    history = sound()
    history.events += [Leads(80, "a", 2), Ack(90, "a", Place(BILLS, 0), (1, 0), 85)]
    assert faults_of(history) == []
    history.events.append(Ack(95, "b", Place(BILLS, 1), (1, 0), 81))
    assert [text.partition(":")[0] for text in faults_of(history)] == [LATE]


def test_without_waits_for_followers_a_promotion_may_lose_messages() -> None:
    history = sound()
    lost(history)
    assert faults_of(replace(history, is_sync=False)) == []


def test_a_purge_removes_no_more_than_was_asked_for_and_lasts() -> None:
    history = sound()
    history.events.append(Purged(70, "b", Place(ORDERS, 2)))
    history.purging[ORDERS] = 2
    assert {text.partition(":")[0] for text in faults_of(history)} == {BACK}
    for rows in history.ends.values():
        del rows[ORDERS][:3]  # type: ignore[attr-defined]
    assert {text.partition(":")[0] for text in faults_of(history)} == {LOST, SEEN, GAP}
