"""Violations that the battery which kills brokers under receiving groups must report."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.faults.deliveries import WRONG, Deliveries, Held
from tests.faults.history import Code, Queue

ATTEMPTS_MAX: Final = 3
LEASE_MS: Final = 1_000.0
QUEUE: Final[Queue] = ("t", 0)
CHAIN: Final = ("a", "a", "b")


class Story:
    """Two groups, of which one is given messages in order, and three messages of one queue."""

    codes: Final[tuple[Code, ...]] = ((0, 1), (0, 2), (0, 3))

    def __init__(self, group: str = "any") -> None:
        self.group = group
        self.told = Deliveries(ATTEMPTS_MAX, frozenset({"ordered"}))
        self.receives = 0

    def come(self, place: int, at_ms: float, attempt: int = 1) -> Held:
        """Delivers a message in a receive of its own."""
        self.receives += 1
        held = Held(
            self.group, self.codes[place], f"h{self.receives}", attempt, at_ms + LEASE_MS, 0
        )
        self.told.delivered(held, self.receives, at_ms - 1, at_ms)
        return held

    def ack(self, held: Held, at_ms: float, *, is_ok: bool = True) -> None:
        self.told.acked(held, at_ms - 1, at_ms, is_ok=is_ok, life=0)

    def settle(self, *places: int, at_ms: float) -> None:
        for place in places:
            self.ack(self.come(place, at_ms), at_ms + 1)

    def judged(self) -> list[str]:
        """Returns the kinds of what was found wrong, in order."""
        self.told.judge(self.group, QUEUE, self.codes, CHAIN)
        return [text.partition(": ")[0] for text in self.told.wrong]


def after_its_ack(story: Story) -> None:
    story.settle(0, 1, 2, at_ms=0)
    story.come(0, 9_000, attempt=2)


def acknowledged_twice(story: Story) -> None:
    held = story.come(0, 0)
    story.ack(held, 5)
    story.ack(held, 6)
    story.settle(1, 2, at_ms=10)


def acknowledged_and_dead(story: Story) -> None:
    story.settle(0, 1, 2, at_ms=0)
    story.told.dead("any", story.codes[1], 20.0)


def dead_twice(story: Story) -> None:
    story.settle(0, 1, at_ms=0)
    for _ in range(2):
        story.told.dead("any", story.codes[2], 20.0)


def under_a_lease(story: Story) -> None:
    story.come(0, 0)
    story.settle(1, 2, at_ms=10)
    story.ack(story.come(0, LEASE_MS - 200, attempt=2), LEASE_MS)


def ack_refused_under_its_lease(story: Story) -> None:
    story.settle(1, 2, at_ms=0)
    held = story.come(0, 10)
    story.ack(held, 20, is_ok=False)
    story.ack(held, 30)


def change_refused_under_its_lease(story: Story) -> None:
    story.settle(1, 2, at_ms=0)
    held = story.come(0, 10)
    story.told.changed(held, "", 0.0, is_ok=False, was_held=True)
    story.ack(held, 30)


def attempt_down(story: Story) -> None:
    story.settle(1, 2, at_ms=0)
    story.come(0, 0, attempt=2)
    story.ack(story.come(0, 5_000, attempt=1), 5_001)


def attempt_beyond(story: Story) -> None:
    story.settle(1, 2, at_ms=0)
    story.ack(story.come(0, 0, attempt=ATTEMPTS_MAX + 1), 1)


def lost(story: Story) -> None:
    story.settle(0, 2, at_ms=0)


def lost_after_a_delivery(story: Story) -> None:
    story.settle(0, 2, at_ms=0)
    story.come(1, 10)


def overtaken(story: Story) -> None:
    story.group = "ordered"
    story.settle(1, 2, at_ms=0)
    story.settle(0, at_ms=50)


def after_its_successor(story: Story) -> None:
    story.group = "ordered"
    story.told.unanswered(story.come(0, 0), 1.0)
    story.settle(1, 2, at_ms=10)
    story.come(0, 50, attempt=2)


@pytest.mark.parametrize(
    ("tell", "kinds"),
    [
        (after_its_ack, ["delivered after its ack"]),
        (acknowledged_twice, ["acknowledged twice"]),
        (acknowledged_and_dead, ["acknowledged and dead"]),
        (dead_twice, ["dead twice"]),
        (under_a_lease, ["delivered under a lease"]),
        (ack_refused_under_its_lease, ["refused under its lease"]),
        (change_refused_under_its_lease, ["refused under its lease"]),
        (attempt_down, ["attempt went down"]),
        (attempt_beyond, ["attempt beyond the last"]),
        (lost, ["stuck"]),
        (lost_after_a_delivery, ["stuck"]),
        (overtaken, ["overtaken", "after its successor"]),
        (after_its_successor, ["after its successor"]),
    ],
)
def test_what_is_wrong_is_found(tell: Callable[[Story], None], kinds: list[str]) -> None:
    story = Story()
    tell(story)
    assert story.judged() == kinds
    assert set(kinds) <= set(WRONG)


def test_all_in_its_order_is_right() -> None:
    story = Story("ordered")
    story.settle(0, 1, 2, at_ms=0)
    assert story.judged() == []


def unanswered_comes_again(story: Story) -> None:
    story.told.unanswered(story.come(0, 0), 1.0)
    story.settle(1, 2, at_ms=10)
    story.ack(story.come(0, 5_000, attempt=2), 5_001)


def changed_comes_early(story: Story) -> None:
    held = story.come(0, 0)
    story.told.changing(held)
    story.settle(0, 1, 2, at_ms=10)


def over_lease(story: Story) -> None:
    story.come(0, 0)
    story.settle(1, 2, at_ms=10)
    story.ack(story.come(0, LEASE_MS, attempt=2), LEASE_MS + 1)


def refused_after_its_lease(story: Story) -> None:
    story.ack(story.come(0, 0), LEASE_MS, is_ok=False)
    story.settle(0, 1, 2, at_ms=2_000)


@pytest.mark.parametrize(
    "tell", [unanswered_comes_again, changed_comes_early, over_lease, refused_after_its_lease]
)
def test_what_is_allowed_is_right(tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    assert story.judged() == []
