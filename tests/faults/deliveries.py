"""Deliveries to groups and their settlements, through all lives of a broker.

    delivered ─► changed ─► acking ─► acked | unanswered        as consumers see it
    dead                                                        as the dead letters tell
    judge                                                       at the end, when nothing is open

    C-done   what was acknowledged is never delivered again, nor a dead letter, nor acknowledged
             twice; an ack without an answer may have taken effect or not
    C-lease  no other receive of the group gets a message under a lease, and its handle is good
    C-count  attempts never go down, and are never more than the group allows
    C-order  in a group in order nothing is delivered before all that goes before it is settled, or
             comes with it, nor again after what follows it came alone
    C-all    every message of the log is acknowledged or a dead letter in the end

Times are wall time in ms: all of them and the broker's are of one clock.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from tests.faults.history import Code, Queue

WRONG: Final = (
    "delivered after its ack", "acknowledged twice", "acknowledged and dead", "dead twice",
    "delivered under a lease", "refused under its lease", "attempt went down",
    "attempt beyond the last", "overtaken", "after its successor", "stuck",
)  # fmt: skip
"""Kinds of violations."""
TOLD: Final = (
    "deliveries", "acks answered", "acks without answer", "again after an ack without answer",
    "times changed", "handles refused", "settled in a later life", "dead letters", "late answers",
    "dead twice in order, allowed",
)  # fmt: skip
CLOCK_MS: Final = 100.0
"""What the broker may be late to see, or a consumer to write down."""


@dataclass(eq=False)
class Held:
    """A delivery: its handle, and how long no other receive may get its message."""

    group: str
    code: Code
    handle: str
    attempt: int
    until_ms: float
    life: int


class Came(NamedTuple):
    """A delivery in order: by which receive, and when that was."""

    receive: int
    asked_ms: float
    answered_ms: float


@dataclass
class Fate:
    """The states of a message in a group."""

    attempt: int = 0
    held: Held | None = None
    last_ms: float = -inf
    came: list[Came] = field(default_factory=list)
    """In order alone."""
    settled_ms: float = inf
    """When it was first asked to be settled by a call that took effect, or may have."""
    done_ms: float = inf
    done_attempt: int = 0
    is_unanswered: bool = False
    dead_count: int = 0


@dataclass
class Deliveries:
    """All groups of one store.

    attempts_max   of every group
    in_order       the groups that are given messages in order
    """

    attempts_max: int
    in_order: frozenset[str]
    fates: dict[tuple[str, Code], Fate] = field(default_factory=dict)
    figures: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def fate(self, group: str, code: Code) -> Fate:
        """Returns what became of a message in a group so far."""
        return self.fates.setdefault((group, code), Fate())

    # -- what consumers see ------------------------------------------------------------------------
    def delivered(self, held: Held, receive: int, asked_ms: float, answered_ms: float) -> None:
        """Tells what a receive, by its number, gave; asked and answered at these times."""
        fate = self.fate(held.group, held.code)
        self.figures["deliveries"] += 1
        when = f"attempt {held.attempt}, asked {asked_ms:.0f}, answered {answered_ms:.0f}"
        if fate.last_ms > asked_ms and held.attempt < fate.attempt:
            self.figures["late answers"] += 1  # Two receives at once, seen in the other order.
            return
        if fate.done_ms < inf:
            text = f"{when}; attempt {fate.done_attempt} was acknowledged {fate.done_ms:.0f}"
            self._found("delivered after its ack", held, text)
        elif fate.is_unanswered:
            self.figures["again after an ack without answer"] += 1
        elif fate.held is not None and answered_ms + CLOCK_MS < fate.held.until_ms:
            text = f"{when}; attempt {fate.attempt} is held until {fate.held.until_ms:.0f}"
            self._found("delivered under a lease", held, text)
        if held.attempt < fate.attempt:
            self._found("attempt went down", held, f"{when}; it was {fate.attempt}")
        if held.attempt > self.attempts_max:
            self._found("attempt beyond the last", held, when)
        fate.attempt, fate.held = held.attempt, held
        fate.last_ms = answered_ms
        if held.group in self.in_order:
            fate.came.append(Came(receive, asked_ms, answered_ms))

    def changing(self, held: Held) -> None:
        """Tells that the time of a lease is about to be changed: from now on it may end."""
        held.until_ms = -inf

    def changed(
        self, held: Held, handle: str, until_ms: float, *, is_ok: bool, was_held: bool
    ) -> None:
        """Tells how that was answered.

        was_held   when it was answered, the lease would have gone on without the change
        """
        self.figures["times changed" if is_ok else "handles refused"] += 1
        if is_ok:
            held.handle, held.until_ms = handle, until_ms
        elif was_held and self._is_open(held):
            self._found("refused under its lease", held, "a change of its time")

    def acked(
        self, held: Held, asked_ms: float, answered_ms: float, *, is_ok: bool, life: int
    ) -> None:
        """Tells how an ack was answered."""
        fate = self.fate(held.group, held.code)
        if not is_ok:
            self.figures["handles refused"] += 1
            if self._is_open(held) and answered_ms + CLOCK_MS < held.until_ms:
                text = f"an ack answered {answered_ms:.0f}, held until {held.until_ms:.0f}"
                self._found("refused under its lease", held, text)
            return
        self.figures["acks answered"] += 1
        self.figures["settled in a later life"] += life > held.life
        if fate.done_ms < inf:
            text = f"attempt {held.attempt} at {answered_ms:.0f}, before {fate.done_ms:.0f}"
            self._found("acknowledged twice", held, text)
        fate.settled_ms = min(fate.settled_ms, asked_ms)
        fate.done_ms, fate.done_attempt = min(fate.done_ms, answered_ms), held.attempt

    def unanswered(self, held: Held, asked_ms: float) -> None:
        """Tells that an ack may have taken effect."""
        fate = self.fate(held.group, held.code)
        self.figures["acks without answer"] += 1
        fate.settled_ms = min(fate.settled_ms, asked_ms)
        fate.is_unanswered = True

    def _is_open(self, held: Held) -> bool:
        """Tells whether nothing that was asked can have ended a lease."""
        fate = self.fate(held.group, held.code)
        return not fate.is_unanswered and fate.done_ms == inf and fate.held is held

    # -- what the store tells ----------------------------------------------------------------------
    def dead(self, group: str, code: Code, stored_ms: float) -> None:
        """Tells of a dead letter."""
        fate = self.fate(group, code)
        fate.dead_count += 1
        fate.settled_ms = min(fate.settled_ms, stored_ms)
        if fate.dead_count == 1:
            self.figures["dead letters"] += 1
        elif group in self.in_order:  # Its letter is put, then the order is written down.
            self.figures["dead twice in order, allowed"] += 1
        else:
            self.tell("dead twice", f"{code} in {group}, the last at {stored_ms:.0f}")

    def open_ones(self, group: str, codes: Iterable[Code]) -> list[Code]:
        """Returns what is neither acknowledged, as far as is known, nor a dead letter."""
        found = []
        for code in codes:
            fate = self.fate(group, code)
            if fate.done_ms == inf and not fate.is_unanswered and not fate.dead_count:
                found.append(code)
        return found

    def judge(self, group: str, queue: Queue, codes: Sequence[Code], chains: Sequence[str]) -> None:
        """Compares a queue of the log with the group's deliveries, after all calls have ended.

        chains   the message group of each
        """
        for code in self.open_ones(group, codes):
            fate = self.fate(group, code)
            text = f"{code} of {queue} in {group}, attempt {fate.attempt}, {fate.held}"
            self.tell("stuck", text)
        for code in codes:
            fate = self.fate(group, code)
            if fate.dead_count and fate.done_ms < inf:
                text = f"{code} of {queue} in {group}, acknowledged {fate.done_ms:.0f}"
                self.tell("acknowledged and dead", text)
        if group in self.in_order:
            self._judge_order(group, queue, codes, chains)

    def _judge_order(
        self, group: str, queue: Queue, codes: Sequence[Code], chains: Sequence[str]
    ) -> None:
        by_chain: dict[str, list[Code]] = {}
        for code, chain in zip(codes, chains, strict=True):
            by_chain.setdefault(chain, []).append(code)
        for chain, own in by_chain.items():
            fates = [self.fate(group, code) for code in own]
            for place, later in enumerate(fates):
                for before in range(place):
                    where = f"{own[place]} of {chain} in {queue}, behind {own[before]}"
                    self._judge_pair(where, fates[before], later)

    def _judge_pair(self, where: str, before: Fate, later: Fate) -> None:
        """Compares two messages of a message group."""
        together = {came.receive for came in before.came}
        alone = [came for came in later.came if came.receive not in together]
        if not alone:
            return
        first = min(alone, key=lambda came: came.answered_ms)
        if first.answered_ms < before.settled_ms:
            text = f"came {first.answered_ms:.0f}, that was settled {before.settled_ms:.0f}"
            self.tell("overtaken", f"{where}: {text}")
        last_ms = max((came.asked_ms for came in before.came), default=-inf)
        if last_ms > first.answered_ms:
            text = f"came {first.answered_ms:.0f}, that was asked for {last_ms:.0f}"
            self.tell("after its successor", f"{where}: {text}")

    def _found(self, kind: str, held: Held, text: str) -> None:
        self.tell(kind, f"{held.code} in {held.group}, handle {held.handle!r}: {text}")

    def tell(self, kind: str, text: str) -> None:
        """Keeps a violation."""
        assert kind in WRONG, f"{kind} is no kind"
        self.figures[kind] += 1
        self.wrong.append(f"{kind}: {text}")
