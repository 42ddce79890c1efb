"""Locks of queues: one client at a time, for as long as it renews."""

import pytest

from pocketmq.model.errors import CapacityReached
from pocketmq.services.sessions import queue_locks
from pocketmq.services.sessions.queue_locks import LOCK_MS, QueueLocks

ONE, TWO = ("t", 0), ("t", 1)


@pytest.fixture
def locks() -> QueueLocks:
    """Client a has locked queue 0 for group g at time 0."""
    found = QueueLocks()
    assert found.lock("g", "a", [ONE], 0) == [ONE]
    return found


def test_others_get_what_is_free(locks: QueueLocks) -> None:
    assert locks.lock("g", "b", [ONE, TWO], 0) == [TWO]
    assert locks.lock("g", "a", [TWO, ONE], 0) == [ONE]
    assert locks.lock("other", "b", [ONE], 0) == [ONE]


def test_a_lock_that_is_renewed_stays_and_one_that_is_not_passes_on(locks: QueueLocks) -> None:
    assert locks.lock("g", "a", [ONE], LOCK_MS) == [ONE]
    assert locks.lock("g", "b", [ONE], 2 * LOCK_MS) == []
    assert locks.holder("g", ONE, 2 * LOCK_MS) == "a"
    assert locks.lock("g", "b", [ONE], 2 * LOCK_MS + 1) == [ONE]
    assert locks.holder("g", ONE, 2 * LOCK_MS + 1) == "b"


def test_only_its_client_unlocks_a_queue(locks: QueueLocks) -> None:
    locks.unlock("g", "b", [ONE])
    assert locks.holder("g", ONE, 0) == "a"
    locks.unlock("g", "a", [ONE, TWO])
    assert locks.holder("g", ONE, 0) == ""
    assert locks.lock("g", "b", [ONE], 0) == [ONE]


def test_old_locks_are_forgotten(locks: QueueLocks) -> None:
    locks.lock("h", "a", [ONE, TWO], LOCK_MS)
    locks.forget(LOCK_MS + 1)
    assert (locks.holder("g", ONE, 0), locks.holder("h", TWO, LOCK_MS)) == ("", "a")


def test_locks_are_bounded_and_a_refusal_locks_nothing(
    locks: QueueLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_locks, "LOCKS_MAX", 2)
    with pytest.raises(CapacityReached, match="at most 2 queue locks"):
        locks.lock("h", "a", [ONE, TWO], 0)
    assert locks.lock("h", "a", [TWO], 0) == [TWO]
    assert locks.lock("h", "a", [TWO], 1) == [TWO]
