"""What became of half messages, by the copies that are there and by those that were committed."""

import pytest

from broker.format.record import decode_record
from broker.model.message import FIRST_HALF_OFFSET, REAL_QUEUE, REAL_TOPIC, StoredMessage
from broker.model.topic import HALF_TOPIC
from broker.services.transaction.alike import Alike
from broker.services.transaction.halves import HalfState
from tests.fakes.records import record


def half(at: int, place: int, origin: int | None) -> StoredMessage:
    """Return a half message at a queue offset and place, which names the first of its kind."""
    properties = {REAL_TOPIC: "orders", REAL_QUEUE: "0"}
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
    alike = Alike()
    for at, origin in enumerate(origins):
        alike.see(half(at, 100 * (at + 1), origin))
    alike.see_committed("orders", committed)
    assert {became.state for became in alike.became().values()} == {HalfState.COMMITTED}


def test_what_nobody_committed_is_moved_up_to_its_last_copy() -> None:
    alike = Alike()
    for at in range(3):
        alike.see(half(at, 100 * (at + 1), None))
    states = [alike.became()[at].state for at in range(3)]
    assert states == [HalfState.MOVED, HalfState.MOVED, HalfState.ROLLED_BACK]


def test_a_copy_that_names_another_first_one_commits_that_one_alone() -> None:
    alike = Alike()
    for at, origin in enumerate((None, None, 0)):
        alike.see(half(at, 100 * (at + 1), origin))
    alike.see_committed("orders", 300)
    states = [alike.became()[at].state for at in range(3)]
    assert states == [HalfState.COMMITTED, HalfState.ROLLED_BACK, HalfState.COMMITTED]
