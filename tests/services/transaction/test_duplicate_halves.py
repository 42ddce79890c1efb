"""Outcomes of half messages, from their copies and the committed messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.record import decode_record
from pocketmq.model.message import FIRST_HALF_OFFSET, REAL_QUEUE, REAL_TOPIC, StoredMessage
from pocketmq.model.topic import HALF_TOPIC
from pocketmq.services.transaction.duplicate_halves import DuplicateHalves
from pocketmq.services.transaction.halves import HalfState
from tests.kit.records import record


def half(at: int, place: int, origin: int | None, topic: str = "orders") -> StoredMessage:
    """Returns a half message at a queue offset and place, which names the first of its kind."""
    properties = {REAL_TOPIC: topic, REAL_QUEUE: "0"} if topic else {}
    if origin is not None:
        properties[FIRST_HALF_OFFSET] = str(origin)
    found = decode_record(record(place, topic=HALF_TOPIC, queue_offset=at))
    found.properties = properties
    return found


@pytest.mark.parametrize("committed", [100, 200, 300])
@pytest.mark.parametrize("origins", [(None, None, None), (None, 0, 0)])
def test_what_any_copy_was_committed_by_is_committed(
    committed: int, origins: tuple[int | None, ...]
) -> None:
    alike = DuplicateHalves()
    for at, origin in enumerate(origins):
        alike.see(half(at, 100 * (at + 1), origin))
    alike.see_committed("orders", committed)
    assert {became.state for became in alike.became().values()} == {HalfState.COMMITTED}


def test_what_nobody_committed_is_moved_up_to_its_last_copy() -> None:
    alike = DuplicateHalves()
    for at in range(3):
        alike.see(half(at, 100 * (at + 1), None))
    states = [alike.became()[at].state for at in range(3)]
    assert states == [HalfState.MOVED, HalfState.MOVED, HalfState.ROLLED_BACK]


def test_a_copy_that_names_another_first_one_commits_that_one_alone() -> None:
    alike = DuplicateHalves()
    for at, origin in enumerate((None, None, 0)):
        alike.see(half(at, 100 * (at + 1), origin))
    alike.see_committed("orders", 300)
    states = [alike.became()[at].state for at in range(3)]
    assert states == [HalfState.COMMITTED, HalfState.ROLLED_BACK, HalfState.COMMITTED]


Seen = tuple[int | None, str]
"""The first of its kind, and where it goes."""


@given(
    st.lists(st.tuples(st.none() | st.integers(0, 5), st.sampled_from(["orders", "paid", ""]))),
    st.sets(st.tuples(st.sampled_from(["orders", "paid"]), st.integers(0, 6))),
    st.booleans(),
)
def test_it_is_what_a_look_at_every_pair_says(
    seen: list[Seen], committed: set[tuple[str, int]], is_given_up: bool
) -> None:
    """Copies are those of one first one, that one, and all that name none."""
    alike = DuplicateHalves()
    alike.is_given_up = is_given_up
    for at, (origin, topic) in enumerate(seen):
        for _ in range(2):
            alike.see(half(at, 100 + at, origin, topic))
    for topic, at in committed:
        alike.see_committed(topic, 100 + at)
    became = alike.became()
    assert {*became} == {*range(len(seen))}
    assert alike.topics == {topic for _, topic in seen}
    for at, (origin, topic) in enumerate(seen):
        first = at if origin is None else origin
        copies = [n for n, (its, _) in enumerate(seen) if n == at or its in (None, first)]
        places = {*copies, first} & {*range(len(seen))}
        newest = max(copies)
        if any((topic, n) in committed for n in places):
            wanted = HalfState.COMMITTED
        elif is_given_up:
            wanted = HalfState.GIVEN_UP
        else:
            wanted = HalfState.MOVED if newest > at else HalfState.ROLLED_BACK
        assert became[at] == (wanted, newest)
