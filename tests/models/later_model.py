"""A model of delayed and half messages in sets: the possible states of each.

    absent        the send was cut off
    waiting       for a delay level or a time
    half          sent in a transaction that is undecided
    came          in its topic, once
    recalled, rolled back, given up      it never comes

An answered call leaves one state, a call that a crash cut off leaves two. Every check removes the
states that contradict it, and must leave one. Times are measured by the monotonic clock. A
message is due after the interval from its send to its due time by the wall clock at its send.
The model has no files and no queues.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from pocketmq.model.step import Now
from tests.faults.checkers import COMMIT, NOTHING, Verdict

ABSENT: Final = "absent"
WAITING: Final = "waiting"
HALF: Final = "half"
CAME: Final = "came"
RECALLED: Final = "recalled"
ROLLED_BACK: Final = "rolled back"
GIVEN_UP: Final = "given up"
States = frozenset[str]
EARLY_MS: Final = 50
LATE_MS: Final = 2_500
"""Allowed lateness: a slot of a second, a second of rounding by set clocks, and a look."""
LOOK_MS: Final = 5_000
"""Interval between two looks at a delay level."""
RECALLED_MS: Final = 2_500
"""Remaining time from which on a recall must succeed."""


class Sent(NamedTuple):
    """A message that was sent.

    kind    WAITING, HALF or CAME
    due_ms  wall time
    is_level  whether it waits for a delay level
    skipped_ms  by how much the clock was set forward just before kills, unseen by the broker: it
              counts as time that passed
    since     when it was sent, and when the broker started since: a broker that did not see the
              clock being set may measure by any of these clocks; the timer saves jumps it saw
    """

    key: str
    topic: str
    kind: str
    due_ms: int
    since: tuple[Now, ...]
    is_level: bool = False
    skipped_ms: int = 0

    @property
    def waits_ms(self) -> int:
        """The length of the wait."""
        return self.due_ms - self.since[0].wall_ms

    def left_ms(self, now: Now) -> tuple[int, int]:
        """Returns the least and the longest remaining wait."""
        ahead = [then.wall_ms - then.monotonic_ms for then in self.since]
        due_ms = self.due_ms - now.monotonic_ms
        # A start that finds the clock set back waits the whole delay again.
        anew_ms = self.since[-1].monotonic_ms + self.waits_ms - now.monotonic_ms
        if len(self.since) == 1:
            anew_ms = due_ms - ahead[0]
        return due_ms - max(ahead) - self.skipped_ms, max(due_ms - min(ahead), anew_ms)


class LaterModel:
    """All messages of one store."""

    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self.states: dict[str, States] = {}
        self.said: dict[str, Verdict] = {}

    def took(self, one: Sent, *, ok: bool) -> None:
        """Records a send; without `ok` its outcome is unknown."""
        self.sent[one.key] = one
        self.states[one.key] = frozenset({one.kind} if ok else {one.kind, ABSENT})

    def _keep(self, key: str, allowed: Iterable[str], what: str) -> None:
        left = self.states[key] & frozenset(allowed)
        assert left, f"{key} {what}, it is {set(self.states[key])}: {self.sent[key]}"
        self.states[key] = left

    def _turn(self, key: str, old: str, new: str, *, ok: bool | None) -> None:
        """Moves a message from one state to another; perhaps, if `ok` is None."""
        states = self.states[key]
        if old in states:
            self.states[key] = (states - {old} if ok else states) | {new}

    # -- what is asked -------------------------------------------------------------------------
    def recalled(self, key: str, now: Now, *, ok: bool | None) -> None:
        """Records a recall; `ok` True: accepted, None: the outcome is unknown, False: too late."""
        if ok is False:
            return
        one = self.sent[key]
        is_sure = ok and one.left_ms(now)[0] > RECALLED_MS
        self._turn(key, WAITING, RECALLED, ok=is_sure)

    def decided(self, key: str, resolution: str, refusal: str | None, *, is_told: bool) -> None:
        """Records the answer to a decision; `refusal`: name of the error; no answer: unknown."""
        new = CAME if resolution == COMMIT else ROLLED_BACK
        said = self.said.get(key, NOTHING)
        self.said[key] = said = said._replace(asked=said.asked | {resolution})
        if not is_told:
            self._turn(key, HALF, new, ok=None)
        elif refusal is None:
            self._keep(key, {HALF, new}, f"was decided: {resolution}")
            self.states[key] = frozenset({new})
            self.said[key] = said._replace(taken=resolution)
        elif refusal == "TransactionDecided":
            ended = {CAME, ROLLED_BACK, GIVEN_UP} - {new}
            self._keep(key, ended, f"was decided before {resolution}")
        else:
            self._keep(key, {ABSENT}, f"was not found: {refusal}")

    def asked(self, key: str) -> None:
        """Records a transaction check that a producer received."""
        self._keep(key, {HALF}, "was asked about")

    def restarted(self, now: Now, *, unseen_ms: int) -> None:
        """Records a start: waiting messages may be measured by the present clock.

        unseen_ms   by how much the clock was set before a kill, of what was not written down
        """
        for key in self.waiting():
            one = self.sent[key]
            if unseen_ms or one.is_level:
                skipped_ms = one.skipped_ms + max(unseen_ms, 0)
                self.sent[key] = one._replace(since=(*one.since, now), skipped_ms=skipped_ms)

    # -- what is seen --------------------------------------------------------------------------
    def looked(
        self, there: Counter[tuple[str, str]], given_up: Counter[str], now: Now, *, is_stepped: bool
    ) -> None:
        """Compares the topics: (topic, key) of each message, and the expired transactions.

        is_stepped   whether all due work is done
        """
        for topic, key in there:
            assert key in self.sent, f"{key} was never sent"
            assert topic == self.sent[key].topic, f"{key} came to {topic}"
        for key, one in self.sent.items():
            count = there[one.topic, key]
            assert count <= 1, f"{key} came {count} times"
            least_ms, most_ms = one.left_ms(now)
            if count:
                early = {WAITING} if least_ms <= EARLY_MS else set()
                self._keep(key, {CAME} | early, f"came, {least_ms} ms before its time,")
                self.states[key] = frozenset({CAME})
                continue
            gone = {CAME, GIVEN_UP} if not given_up[key] else {CAME}
            late_ms = LATE_MS + (LOOK_MS if one.is_level else 0)
            if is_stepped and most_ms < -late_ms:
                gone.add(WAITING)
            self._keep(key, self.states[key] - gone, f"did not come, {-most_ms} ms after its time,")
            if given_up[key]:
                assert given_up[key] == 1, f"{key} was given up {given_up[key]} times"
                self._keep(key, {HALF, GIVEN_UP}, "was given up")
                self.states[key] = frozenset({GIVEN_UP})

    def open_halves(self) -> list[str]:
        """Returns the transactions that may be undecided."""
        return [key for key, states in self.states.items() if HALF in states]

    def waiting(self) -> list[str]:
        """Returns the messages that may still wait."""
        return [key for key, states in self.states.items() if WAITING in states]

    def is_over(self) -> None:
        """Drops messages and transactions that never appeared: their sends were not stored."""
        for key, states in self.states.items():
            if states & {HALF, WAITING}:
                self._keep(key, states - {HALF, WAITING}, "is stuck")
