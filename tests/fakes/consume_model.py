"""What consuming has to do, in sets: for each group and message, the states it may be in.

    waiting    to be delivered from a time on; `number` counts deliveries so far
    delayed    sent back: it waits from a time on, once that was seen
    leased     by its delivery `number`, until a time
    skipped    a filter passed over it, which nobody was told: a crash may take that back
    settled, dead    acknowledged · among the group's dead letters

What was answered leaves one state; what a crash cut off leaves two. Every observation takes away
the states that do not agree with it, and none may be left without any. No files, no queues of the
store, no journal.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

WAITING: Final = "waiting"
DELAYED: Final = "delayed"
LEASED: Final = "leased"
SKIPPED: Final = "skipped"
SETTLED: Final = "settled"
DEAD: Final = "dead"


LEFT: Final = (WAITING, DELAYED, LEASED)
"""Of what may still come."""


class State(NamedTuple):
    """One state a message may be in."""

    kind: str
    number: int = 0
    at_ms: int = 0


States = frozenset[State]
DONE: Final = State(SETTLED)
BURIED: Final = State(DEAD)


class Message(NamedTuple):
    """A message that was sent; (key, queue) is its message group."""

    body: str
    topic: str
    queue_id: int
    queue_offset: int
    key: str
    tag: str


class Asked(NamedTuple):
    """What a receive asked for, and when; `tag` is all it wanted, "" for everything."""

    most: int
    tag: str
    at_ms: int


class GroupModel:
    """One group in one topic; in order, or not."""

    def __init__(self, topic: str, *, attempts_max: int, is_ordered: bool) -> None:
        self.topic = topic
        self.attempts_max = attempts_max
        self.is_ordered = is_ordered
        self.messages: dict[str, Message] = {}
        self.states: dict[str, States] = {}
        self.may_die_twice: set[str] = set()
        """Dead letters whose message was not settled when the broker was killed."""

    # -- what a message may do -----------------------------------------------------------------
    def _is_over(self, state: State, now_ms: int) -> bool:
        """Whether an ordered message's lease ran out after its last attempt."""
        is_last = self.is_ordered and state.number >= self.attempts_max
        return is_last and state.kind in (LEASED, WAITING) and state.at_ms <= now_ms

    def _may_go(self, state: State, now_ms: int) -> bool:
        if state.number >= self.attempts_max or state.at_ms > now_ms:
            return False
        return state.kind == WAITING or (self.is_ordered and state.kind == LEASED)

    def _is_held(self, state: State, now_ms: int) -> bool:
        return state.kind == LEASED and state.at_ms > now_ms

    def _is_passed(self, state: State, now_ms: int) -> bool:
        return state.kind in (SKIPPED, SETTLED, DEAD) or self._is_over(state, now_ms)

    def _mates(self, message: Message) -> list[Message]:
        """Return the other messages of its message group."""
        wanted = (message.queue_id, message.key)
        found = (m for m in self.messages.values() if (m.queue_id, m.key) == wanted)
        return [m for m in found if m is not message]

    # -- what happens --------------------------------------------------------------------------
    def sent(self, message: Message) -> None:
        """A message is stored."""
        self.messages[message.body] = message
        self.states[message.body] = frozenset({State(WAITING)})

    def received(
        self, found: list[tuple[str, int]], asked: "Asked", now_ms: int, until_ms: int
    ) -> None:
        """A receive was answered by now: (body, attempt) each, leased until a time."""
        tag = asked.tag
        assert len(found) <= asked.most
        assert len({body for body, _ in found}) == len(found), "one message twice in one answer"
        for body, attempt in found:
            states = {
                state
                for state in self.states[body]
                if self._may_go(state, now_ms) and state.number + 1 == attempt
            }
            assert states, f"{body} came as attempt {attempt}, it is {set(self.states[body])}"
            assert tag in ("", self.messages[body].tag), f"{body} is not wanted"
        bodies = {body for body, _ in found}
        self._besides(tag, now_ms)
        if self.is_ordered:
            self._check_order(bodies, now_ms)
        for body, attempt in found:
            self.states[body] = frozenset({State(LEASED, attempt, until_ms)})
        if len(found) < asked.most and not tag:
            self._nothing_more(asked.at_ms)

    def _check_order(self, bodies: set[str], now_ms: int) -> None:
        for body in bodies:
            message = self.messages[body]
            for mate in self._mates(message):
                if mate.body in bodies:
                    continue
                states = self.states[mate.body]
                states = frozenset(s for s in states if not self._is_held(s, now_ms))
                if mate.queue_offset < message.queue_offset:
                    states = frozenset(s for s in states if self._is_passed(s, now_ms))
                assert states, f"{body} overtook {mate.body}: {set(self.states[mate.body])}"
                self.states[mate.body] = states

    def _besides(self, tag: str, now_ms: int) -> None:
        """A receive may pass over what it does not want, and bury what was tried often enough."""
        for body, states in self.states.items():
            unwanted = tag not in ("", self.messages[body].tag)
            passed = (s for s in states if unwanted and self._may_go(s, now_ms))
            added = {s._replace(kind=SKIPPED) for s in passed}
            added |= {BURIED for s in states if self._is_over(s, now_ms)}
            self.states[body] = states | added

    def _nothing_more(self, now_ms: int) -> None:
        """A receive had room for more: what could have come was in no state to."""
        for body, message in self.messages.items():
            states = self.states[body]
            left = frozenset(
                s for s in states if not self._may_go(s, now_ms) and not self._is_over(s, now_ms)
            )
            if left != states and self._is_free(message, now_ms):
                assert left, f"{body} could have come as well: {set(states)}"
                self.states[body] = left

    def _is_free(self, message: Message, now_ms: int) -> bool:
        """Whether no other message can have been in the way of this one."""
        mates = self._mates(message) if self.is_ordered else []
        return all(
            not self._is_held(s, now_ms)
            and (mate.queue_offset > message.queue_offset or self._is_passed(s, now_ms))
            for mate in mates
            for s in self.states[mate.body]
        )

    def crashed(self) -> None:
        """A crash may have taken back what nobody was told."""
        for body, states in self.states.items():
            back = {s._replace(kind=WAITING) for s in states if s.kind == SKIPPED}
            self.states[body] = states | back

    def received_unanswered(self, now_ms: int, until_ms: int) -> None:
        """A receive was cut off: whatever could go out may be leased."""
        for body, states in self.states.items():
            leased = {
                State(LEASED, s.number + 1, until_ms) for s in states if self._may_go(s, now_ms)
            }
            self.states[body] = states | leased
            if any(self._is_over(s, now_ms) for s in states):
                self.may_die_twice.add(body)
        self._besides("", now_ms)

    def applied(
        self, body: str, number: int, ok: bool | None, change: Callable[[State], State]
    ) -> None:
        """A handle of the delivery `number` was used: good, not good, or nobody knows (None)."""
        states = self.states[body]
        current = {s for s in states if s.kind == LEASED and s.number == number}
        if ok is None:
            self.states[body] = states | {change(s) for s in current}
            return
        left = {change(s) for s in current} if ok else states - current
        assert left, f"a handle of delivery {number} of {body} was {ok}, it is {set(states)}"
        self.states[body] = frozenset(left)

    def steps_done(self, now_ms: int) -> None:
        """Everything that is due by itself has happened."""
        if self.is_ordered:
            return
        for body, states in self.states.items():
            self.states[body] = frozenset(self._revived(s, now_ms) for s in states)

    def _revived(self, state: State, now_ms: int) -> State:
        if state.at_ms > now_ms or state.kind not in (LEASED, DELAYED):
            return state
        if state.kind == LEASED and state.number >= self.attempts_max:
            return BURIED
        return state._replace(kind=WAITING)

    def sent_back(self, state: State, at_ms: int) -> State:
        """Return what becomes of a message that comes back at a time, if it may."""
        is_last = state.number >= self.attempts_max
        return BURIED if is_last else State(DELAYED, state.number, at_ms)

    # -- in the end ----------------------------------------------------------------------------
    def unsettled(self) -> list[str]:
        """Return messages that may still come."""
        found = self.states.items()
        return [body for body, states in found if any(s.kind in LEFT for s in states)]

    def check_end(self, dead_letters: list[str]) -> None:
        """Compare what is left: nobody waits for anything, and all that died lies there once."""
        for body, states in self.states.items():
            count = dead_letters.count(body)
            kinds = {state.kind for state in states}
            assert kinds <= {SKIPPED, SETTLED, DEAD}, f"{body} is stuck: {set(states)}"
            most = (DEAD in kinds) + (body in self.may_die_twice)
            least = int(kinds == {DEAD})
            assert least <= count <= most, f"{body} died {count} times, it is {set(states)}"
