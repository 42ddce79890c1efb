"""Violations that the battery which kills brokers under senders must report."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.faults.history import WRONG, Code, History, Lane, Loss, Queue, Violation, body_of

QUEUE: Final[Queue] = ("t", 0)
RECORD: Final = 100
"""Bytes of a message in the log."""


class Story:
    """One lane that sends to one queue."""

    def __init__(self, place: Path) -> None:
        self.told = History(place / "history.jsonl")
        self.lane = self.told.lane(sends_again=False)

    def code(self, seq: int, lane: Lane | None = None) -> Code:
        return ((lane or self.lane).number, seq)

    def send(self, seq: int, at: int | None = None) -> None:
        """Sends a message; it is acknowledged at an offset, or has no answer."""
        self.told.invoke(self.lane, seq, 1, QUEUE)
        if at is None:
            self.told.info(self.lane, seq, 1, "UNAVAILABLE")
        else:
            self.told.ok(self.lane, seq, [at * RECORD], QUEUE, at)

    def send_all(self, count: int) -> None:
        for seq in range(count):
            self.send(seq, seq)

    def holds(self, *seqs: int, loss: Loss | None = None) -> None:
        """Reads the whole queue after a restart."""
        self.told.found(QUEUE, 0, [self.code(seq) for seq in seqs], loss=loss)

    def reads(self, queue_offset: int, body: bytes) -> None:
        self.told.read("reader", QUEUE, queue_offset, body)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.told.close()


def the_last_is_gone(story: Story) -> None:
    story.send_all(2)
    story.holds(0)


def what_was_there_is_gone(story: Story) -> None:
    story.send(0)
    story.holds(0)
    story.holds()


def a_power_cut_took_what_was_flushed(story: Story) -> None:
    story.send_all(2)
    story.holds(0, loss=Loss(log_end=2 * RECORD, since=0.0))


def a_power_cut_took_what_was_old(story: Story) -> None:
    story.send_all(2)
    story.holds(0, loss=Loss(log_end=RECORD, since=1e12))


def another_lies_there(story: Story) -> None:
    story.send(0, 0)
    story.send(1)
    story.holds(1, 0)


def nobody_sent_it(story: Story) -> None:
    story.send_all(1)
    story.holds(0, 1)


def it_was_refused(story: Story) -> None:
    story.told.invoke(story.lane, 0, 1, QUEUE)
    story.told.fail(story.lane, 0, 1, "refused")
    story.holds(0)


def one_offset_for_two(story: Story) -> None:
    story.send(0, 0)
    story.send(1, 0)
    story.holds(0)


def in_another_order(story: Story) -> None:
    story.send(0)
    story.send(1)
    story.holds(1, 0)


def a_poll_jumps(story: Story) -> None:
    story.told.jumped("reader", QUEUE, "3 behind 1")


def it_is_there_twice(story: Story) -> None:
    story.send_all(1)
    story.holds(0, 0)


def it_was_read_and_is_another(story: Story) -> None:
    story.send_all(1)
    story.holds(0)
    story.reads(0, body_of(story.code(7), b""))


def it_changed_over_a_restart(story: Story) -> None:
    story.send(0)
    story.send(1)
    story.holds(0)
    story.holds(1)


def it_was_read_and_is_gone(story: Story) -> None:
    story.send(0)
    story.reads(0, body_of(story.code(0), b""))
    story.holds()


def a_bit_flipped(story: Story) -> None:
    body = bytearray(body_of(story.code(0), b"padding"))
    body[-1] ^= 1
    story.reads(0, bytes(body))


def an_offset_went_back(story: Story) -> None:
    story.told.committing("g", QUEUE, 5)
    story.told.committed("g", QUEUE, 5)
    story.told.fetched("g", QUEUE, 4, end=9)


def an_offset_nobody_committed(story: Story) -> None:
    story.told.committing("g", QUEUE, 5)
    story.told.fetched("g", QUEUE, 6, end=9)


@pytest.mark.parametrize(
    ("tell", "kind"),
    [
        (the_last_is_gone, "lost, postfix"),
        (what_was_there_is_gone, "lost, postfix"),
        (a_power_cut_took_what_was_flushed, "lost, prefix"),
        (a_power_cut_took_what_was_old, "lost, postfix"),
        (another_lies_there, "lost, middle"),
        (nobody_sent_it, "phantom"),
        (it_was_refused, "phantom"),
        (one_offset_for_two, "reordered"),
        (in_another_order, "reordered"),
        (a_poll_jumps, "reordered"),
        (it_is_there_twice, "duplicate"),
        (it_was_read_and_is_another, "diverged"),
        (it_changed_over_a_restart, "diverged"),
        (it_was_read_and_is_gone, "seen and lost"),
        (a_bit_flipped, "illegible"),
        (an_offset_went_back, "offset wrong"),
        (an_offset_nobody_committed, "offset wrong"),
    ],
)
def test_what_is_wrong_is_found(story: Story, tell: Callable[[Story], None], kind: str) -> None:
    tell(story)
    with pytest.raises(Violation, match=kind):
        story.told.settle()
    assert story.told.figures[kind]
    assert kind in WRONG


def all_is_there(story: Story) -> None:
    story.send_all(3)
    story.holds(0, 1, 2)
    story.reads(2, body_of(story.code(2), b""))


def without_an_answer_it_may_be_gone(story: Story) -> None:
    story.send_all(1)
    story.send(1)
    story.holds(0)


def without_an_answer_it_may_be_there(story: Story) -> None:
    story.send_all(1)
    story.send(1)
    story.holds(0, 1)


def a_power_cut_took_the_last(story: Story) -> None:
    story.send_all(2)
    story.holds(0, loss=Loss(log_end=RECORD, since=0.0))


def sent_again_it_may_be_there_twice(story: Story) -> None:
    story.lane = story.told.lane(sends_again=True)
    story.told.invoke(story.lane, 0, 1, QUEUE)
    story.send(0, 1)
    story.holds(0, 0)


def a_commit_without_an_answer(story: Story) -> None:
    story.told.committing("g", QUEUE, 5)
    story.told.fetched("g", QUEUE, 5, end=9)
    story.told.committing("g", QUEUE, 7)
    story.told.fetched("g", QUEUE, 5, end=9)


@pytest.mark.parametrize(
    "tell",
    [
        all_is_there, without_an_answer_it_may_be_gone, without_an_answer_it_may_be_there,
        a_power_cut_took_the_last, sent_again_it_may_be_there_twice, a_commit_without_an_answer,
    ],
)  # fmt: skip
def test_what_is_allowed_is_right(story: Story, tell: Callable[[Story], None]) -> None:
    tell(story)
    story.told.settle()
