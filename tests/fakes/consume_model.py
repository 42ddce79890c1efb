"""What consuming has to do, in sets: for each group and message, the worlds it may be in.

A world is the copies of the message that nobody acknowledged, none when all were; mostly it is one:

    waiting    to be delivered from a time on; `number` counts deliveries so far
    delayed    sent back: it waits from a time on, once that was seen
    leased     by its delivery `number`, until a time; `delivery` names it
    skipped    a filter passed over it, which nobody was told: a crash may take that back
    dead       among the group's dead letters

An offset that is set back adds a copy. What was answered leaves one world; what a crash cut off
leaves more. Every observation takes away the worlds that do not agree with it, and none may be left
without any. No files, no queues of the store, no journal.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import product
from typing import Final, NamedTuple

WAITING: Final = "waiting"
DELAYED: Final = "delayed"
LEASED: Final = "leased"
SKIPPED: Final = "skipped"
DEAD: Final = "dead"
LEFT: Final = (WAITING, DELAYED, LEASED)
"""Of what may still come."""
RENEWED_MS: Final = 60_000


class State(NamedTuple):
    """One state a copy may be in; `renews`: while the client of its lease is alive."""

    kind: str
    number: int = 0
    at_ms: int = 0
    delivery: int = 0
    renews: bool = False


World = tuple[State, ...]
Worlds = frozenset[World]
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
    renews: bool = False


class Delivery(NamedTuple):
    """A message as a receive gave it; `delivery` is a number of its own."""

    body: str
    attempt: int
    delivery: int


def changed(world: World, old: State, *new: State) -> World:
    """Return a world in which a copy has become others."""
    left = [*world]
    left.remove(old)
    return tuple(sorted([*left, *new]))


def spread(worlds: Worlds, ways: Callable[[State], Iterable[State]]) -> Worlds:
    """Return all worlds that come of those, each copy going one of its ways."""
    return frozenset(tuple(sorted(one)) for w in worlds for one in product(*map(ways, w)))


def _overtaken(world: World, delivery: int) -> World:
    """Return a world in which a new lease takes the place of one of the same message."""
    if not any(s.delivery == delivery and s.number == 1 for s in world):
        return world
    return tuple(s for s in world if s.kind != LEASED or s.number > 1 or s.delivery == delivery)


class GroupModel:
    """One group in one topic; in order, or not."""

    def __init__(self, topic: str, *, attempts_max: int, is_ordered: bool) -> None:
        self.topic = topic
        self.attempts_max = attempts_max
        self.is_ordered = is_ordered
        self.messages: dict[str, Message] = {}
        self.worlds: dict[str, Worlds] = {}
        self.may_die_again: Counter[str] = Counter()
        """Dead letters whose message was not settled when the broker was killed."""
        self.alive_until_ms = 0
        """How long leases renew themselves."""

    # -- what a copy may do --------------------------------------------------------------------
    def _has_ended(self, state: State, now_ms: int) -> bool:
        return state.at_ms <= now_ms and not (state.renews and now_ms < self.alive_until_ms)

    def _is_over(self, state: State, now_ms: int) -> bool:
        """Whether an ordered message's lease ran out after its last attempt."""
        is_last = self.is_ordered and state.number >= self.attempts_max
        return is_last and state.kind in (LEASED, WAITING) and self._has_ended(state, now_ms)

    def _may_go(self, state: State, now_ms: int) -> bool:
        if state.number >= self.attempts_max or not self._has_ended(state, now_ms):
            return False
        return state.kind == WAITING or (self.is_ordered and state.kind == LEASED)

    def _is_held(self, world: World, now_ms: int) -> bool:
        return any(s.kind == LEASED and not self._has_ended(s, now_ms) for s in world)

    def _is_passed(self, world: World, now_ms: int) -> bool:
        return all(s.kind in (SKIPPED, DEAD) or self._is_over(s, now_ms) for s in world)

    def _mates(self, message: Message) -> list[Message]:
        """Return the other messages of its message group."""
        wanted = (message.queue_id, message.key)
        found = (m for m in self.messages.values() if (m.queue_id, m.key) == wanted)
        return [m for m in found if m is not message]

    # -- what happens --------------------------------------------------------------------------
    def sent(self, message: Message) -> None:
        """A message is stored; one that was a dead letter only if nothing else is left of it."""
        body = message.body
        self.messages[body] = message
        before = self.worlds.get(body, frozenset({()}))
        self.worlds[body] = frozenset(tuple(sorted([*w, State(WAITING)])) for w in before)

    def is_over(self, body: str) -> bool:
        """Whether nothing is left of a message but dead letters."""
        return all(s.kind == DEAD for world in self.worlds.get(body, ()) for s in world)

    def received(
        self, found: list[Delivery], asked: Asked, now_ms: int, until_ms: int
    ) -> None:  # fmt: skip
        """A receive was answered by now, its messages leased until a time."""
        assert len(found) <= asked.most
        for one in found:
            worlds = self.worlds[one.body]
            lease = State(LEASED, one.attempt, until_ms, one.delivery, asked.renews)
            came = [
                _overtaken(changed(world, state, lease), lease.delivery)
                for world in worlds
                for state in world
                if self._may_go(state, now_ms) and state.number + 1 == one.attempt
            ]
            assert came, f"{one.body} came as attempt {one.attempt}, it is {set(worlds)}"
            assert asked.tag in ("", self.messages[one.body].tag), f"{one.body} is not wanted"
            self.worlds[one.body] = frozenset(came)
        self.looked(asked.tag, now_ms)
        if self.is_ordered:
            self._check_order({one.body for one in found}, now_ms)
        if len(found) < asked.most and not asked.tag:
            self.nothing_more(asked.at_ms)

    def repeated(self, found: list[Delivery], given: list[Delivery], now_ms: int) -> bool:
        """A receive was made again: whether it was given what is left of what it had.

        found   with the numbers of `given` where body and attempt are those
        """
        came: dict[Delivery, bool] = {one: one in found for one in given}
        held = {
            one: frozenset(w for w in self.worlds[one.body] if self._holds(w, one, now_ms))
            for one in given
        }
        is_same = bool(found) and all(held.get(one) for one in found)
        assert is_same or not any(held[one] == self.worlds[one.body] for one in given), (
            f"{given} was given before, and not again: {found}"
        )
        for one in given:
            left = held[one] if is_same and came[one] else self.worlds[one.body] - held[one]
            assert left, f"{one} was given again: {is_same and came[one]}, in {held[one]}"
            self.worlds[one.body] = left
        return is_same

    def _holds(self, world: World, one: Delivery, now_ms: int) -> bool:
        leases = [s for s in world if s.kind == LEASED and s.delivery == one.delivery]
        return any(s.at_ms > now_ms or not self.is_ordered for s in leases)

    def _check_order(self, bodies: set[str], now_ms: int) -> None:
        for message in map(self.messages.__getitem__, sorted(bodies)):
            for mate in self._mates(message):
                if mate.body in bodies:
                    continue
                before = self.worlds[mate.body]
                worlds = frozenset(w for w in before if not self._is_held(w, now_ms))
                if mate.queue_offset < message.queue_offset:
                    worlds = frozenset(w for w in worlds if self._is_passed(w, now_ms))
                assert worlds, f"{message.body} overtook {mate.body}: {set(before)}"
                self.worlds[mate.body] = worlds

    def looked(self, tag: str, now_ms: int) -> None:
        """A receive looked: it may pass over what it does not want, bury, renew."""
        for body, worlds in self.worlds.items():
            is_unwanted = tag not in ("", self.messages[body].tag)

            def ways(state: State, is_unwanted: bool = is_unwanted) -> Iterable[State]:
                yield state
                if is_unwanted and self._may_go(state, now_ms):
                    yield state._replace(kind=SKIPPED)
                if self._is_over(state, now_ms):
                    yield BURIED
                yield from self._renewals(state, now_ms)

            self.worlds[body] = spread(worlds, ways)

    def _renewals(self, state: State, now_ms: int) -> Iterable[State]:
        """A lease in order may be renewed when somebody looks."""
        is_due = state.at_ms <= now_ms and not self._has_ended(state, now_ms)
        if self.is_ordered and state.kind == LEASED and is_due:
            yield state._replace(at_ms=now_ms + RENEWED_MS)

    def nothing_more(self, now_ms: int) -> None:
        """A receive had room for more: what could have come was in no state to."""
        for body, message in self.messages.items():
            worlds = self.worlds[body]
            left = frozenset(w for w in worlds if not any(self._comes(s, now_ms) for s in w))
            if left != worlds and self._is_free(message, now_ms):
                assert left, f"{body} could have come as well: {set(worlds)}"
                self.worlds[body] = left

    def _comes(self, state: State, now_ms: int) -> bool:
        return self._may_go(state, now_ms) or self._is_over(state, now_ms)

    def _is_free(self, message: Message, now_ms: int) -> bool:
        """Whether no other message can have been in the way of this one."""
        mates = self._mates(message) if self.is_ordered else []
        return all(
            not self._is_held(world, now_ms)
            and (mate.queue_offset > message.queue_offset or self._is_passed(world, now_ms))
            for mate in mates
            for world in self.worlds[mate.body]
        )

    def restarted(self, *, is_crash: bool) -> None:
        """No lease renews itself any more; a crash may have taken back what nobody was told."""

        def ways(state: State) -> Iterable[State]:
            yield state._replace(renews=False)
            if is_crash and state.kind == SKIPPED:
                yield state._replace(kind=WAITING)
                if state.delivery:
                    yield state._replace(kind=LEASED, renews=False)

        self.worlds = {body: spread(worlds, ways) for body, worlds in self.worlds.items()}

    def received_unanswered(self, now_ms: int, until_ms: int, delivery: int) -> None:
        """A receive was cut off: whatever could go out may be leased."""

        def ways(state: State) -> Iterable[State]:
            yield state
            if self._may_go(state, now_ms):
                yield State(LEASED, state.number + 1, until_ms, delivery)

        for body, worlds in self.worlds.items():
            self.may_die_again[body] += any(self._is_over(s, now_ms) for w in worlds for s in w)
            after = spread(worlds, ways)
            self.worlds[body] = frozenset(_overtaken(world, delivery) for world in after)
        self.looked("", now_ms)

    def applied(
        self, body: str, delivery: int, ok: bool | None, change: Callable[[State], World]
    ) -> None:
        """A handle of a delivery was used: good, not good, or nobody knows (None)."""
        worlds = self.worlds[body]
        ways = {
            world: changed(world, state, *change(state))
            for world in worlds
            for state in world
            if state.kind == LEASED and state.delivery == delivery
        }
        new = frozenset(ways.values())
        left = worlds | new if ok is None else new if ok else worlds - ways.keys()
        assert left, f"a handle of delivery {delivery} of {body} was {ok}, it is {set(worlds)}"
        self.worlds[body] = left

    def steps_done(self, now_ms: int) -> None:
        """Everything that is due by itself has happened."""

        def ways(state: State) -> Iterable[State]:
            if self.is_ordered:
                yield state
                yield from self._renewals(state, now_ms)
            else:
                yield self._revived(state, now_ms)

        self.worlds = {body: spread(worlds, ways) for body, worlds in self.worlds.items()}

    def _revived(self, state: State, now_ms: int) -> State:
        if state.at_ms > now_ms or state.kind not in (LEASED, DELAYED):
            return state
        if not self._has_ended(state, now_ms):
            return state._replace(at_ms=now_ms + RENEWED_MS)
        is_last = state.kind == LEASED and state.number >= self.attempts_max
        return BURIED if is_last else State(WAITING, state.number)

    def sent_back(self, state: State, at_ms: int) -> World:
        """Return what becomes of a message that comes back at a time, if it may."""
        is_last = state.number >= self.attempts_max
        return (BURIED if is_last else State(DELAYED, state.number, at_ms),)

    def reset(self, queue_id: int, queue_offset: int, *, is_told: bool = True) -> None:
        """The group's offset in a queue was set; not told: perhaps."""
        for body, message in self.messages.items():
            if message.queue_id == queue_id:
                new = (State(WAITING),) if message.queue_offset >= queue_offset else ()
                before = self.worlds[body]
                after = frozenset(tuple(sorted((*self._untouched(w), *new))) for w in before)
                self.worlds[body] = after if is_told else before | after

    def _untouched(self, world: World) -> World:
        """Return the copies that do not depend on where the group stands."""
        if self.is_ordered:
            return tuple(s for s in world if s.kind == DEAD)
        return tuple(s for s in world if s.number or s.kind not in (WAITING, SKIPPED))

    # -- in the end ----------------------------------------------------------------------------
    def unsettled(self) -> list[str]:
        """Return messages that may still come."""
        found = self.worlds.items()
        return [body for body, ws in found if any(s.kind in LEFT for w in ws for s in w)]

    def check_end(self, dead_letters: list[str]) -> None:
        """Compare what is left: nobody waits for anything, and all that died lies there once."""
        for body, worlds in self.worlds.items():
            count = dead_letters.count(body)
            kinds = {state.kind for world in worlds for state in world}
            assert kinds <= {SKIPPED, DEAD}, f"{body} is stuck: {set(worlds)}"
            deaths = [sum(s.kind == DEAD for s in world) for world in worlds]
            most = max(deaths) + self.may_die_again[body]
            assert min(deaths) <= count <= most, f"{body} died {count} times: {set(worlds)}"
