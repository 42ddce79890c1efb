"""A model of consuming in sets: the possible worlds of each group and message.

A world is the set of unacknowledged copies of the message. Usually it has one copy, and none after
the acknowledgement:

    waiting    deliverable from a time on; `number` counts earlier deliveries
    delayed    sent back: it waits from a time on, after that was seen
    leased     by its delivery `number`, until a time; `delivery` names it
    skipped    a filter skipped it, unseen by clients: a crash may undo that
    dead       among the group's dead letters

A lowered offset adds a copy. An event maps a world to its possible successors, none if it cannot
happen. An event happened, did not happen, or has an unknown outcome. Worlds that contradict it are
dropped, and every message must keep one. The model has no files, queues or journal.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Final, NamedTuple

WAITING: Final = "waiting"
DELAYED: Final = "delayed"
LEASED: Final = "leased"
SKIPPED: Final = "skipped"
DEAD: Final = "dead"
LEFT: Final = frozenset({WAITING, DELAYED, LEASED})
"""Kinds of copies that may still be delivered."""
RENEWED_MS: Final = 60_000
WRITTEN_MS: Final = 200
"""Within this, a begin is on the disk."""


class State(NamedTuple):
    """A possible state of a copy; `renews`: its lease lasts while its client is alive."""

    kind: str
    number: int = 0
    at_ms: int = 0
    delivery: int = 0
    renews: bool = False


World = tuple[State, ...]
Event = Callable[[World], Iterable[World]]
Delivery = tuple[str, State]
"""The body of a message as a receive gave it, and its lease."""
Ways = dict[str, list[Callable[[State], State] | None]]
Told = bool | None
BURIED: Final = State(DEAD)


class Message(NamedTuple):
    """A message that was sent; (key, queue) is its message group."""

    body: str
    queue_id: int
    queue_offset: int
    key: str
    tag: str


class Asked(NamedTuple):
    """A receive's request and its time; `tag` is its filter, "" for everything."""

    most: int
    tag: str
    at_ms: int


class GroupModel:
    """One group in one topic; in order, or not."""

    def __init__(self, *, attempts_max: int, is_ordered: bool, at_end: bool = False) -> None:
        self.attempts_max = attempts_max
        self.at_end = at_end
        """Whether the group begins at the end of its topic."""
        self.is_begun: Told = not at_end
        self.begun_ms = 0
        self.is_ordered = is_ordered
        self.has_left_order = self.was_ordered = False
        """Whether the group left order: leased messages then return after a receive's look."""
        self.messages: dict[str, Message] = {}
        self.worlds: dict[str, frozenset[World]] = {}
        self.may_die_again: Counter[str] = Counter()
        """Dead letters whose original message was unsettled at a kill."""
        self.floors: dict[int, int] = {}
        """Offset of a queue below which messages are purged."""
        self.gone: set[str] = set()
        """Messages with a purged record: their remaining copies may end with their lease."""
        self.alive_until_ms = 0
        """Time until which leases are renewed automatically."""

    def _event(self, bodies: Iterable[str], event: Event, what: str = "", ok: Told = True) -> None:
        """Applies an event to some messages; `ok` None: the outcome is unknown."""
        for body in bodies:
            before = self.worlds[body]
            ways = {world: {tuple(sorted(new)) for new in event(world)} for world in before}
            after = frozenset[World]().union(*ways.values())
            cannot = frozenset(world for world in before if not ways[world])
            left = {True: after, False: cannot, None: before | after}[ok]
            assert left, f"{body} {what}: {ok}, it is {set(before)}"
            self.worlds[body] = left

    # -- what is next --------------------------------------------------------------------------
    def _next(self, state: State, now_ms: int) -> State:
        """Returns the state that a copy has now, by itself or once a receive finds it."""
        if state.kind not in LEFT or state.at_ms > now_ms:
            return state
        if state.renews and now_ms < self.alive_until_ms:
            return state._replace(at_ms=now_ms + RENEWED_MS)
        return self.again(WAITING, state)

    def again(self, kind: str, state: State, at_ms: int = 0) -> State:
        """Returns the state of a copy that is redelivered; BURIED after the last attempt."""
        return State(kind, state.number, at_ms) if state.number < self.attempts_max else BURIED

    def _due(self, state: State, now_ms: int) -> str:
        """Returns what a receive does: WAITING: delivers it, DEAD: dead-letters it, "": nothing."""
        is_found = self.is_ordered or state.kind == WAITING  # Other states are redelivered before.
        return self._next(state, now_ms).kind if is_found and state.kind in LEFT else ""

    def _each(self, now_ms: int, by_due: Ways) -> Event:
        """Returns the event that each due copy changes in one of the given ways; None: it stays."""

        def ways(s: State) -> list[State]:
            return [way(s) if way else s for way in by_due.get(self._due(s, now_ms), [None])]

        return lambda world: [*product(*map(ways, world))]

    def _lets_by(self, message: Message, now_ms: int) -> Iterable[tuple[str, Event]]:
        """Yields the other messages of its message group, with the event that none blocks it."""
        earlier = self._each(now_ms, {WAITING: [], LEASED: []})
        later = self._each(now_ms, {LEASED: []})
        for mate in self.messages.values() if self.is_ordered else ():
            if (mate.queue_id, mate.key) == (message.queue_id, message.key) and mate != message:
                yield mate.body, earlier if mate.queue_offset < message.queue_offset else later

    # -- what happens --------------------------------------------------------------------------
    def begin(self, now_ms: int, *, is_told: bool = True) -> None:
        """A group looked at its topic: what was sent before its first look never comes."""
        if self.is_begun:
            return
        is_sure = is_told and self.is_begun is False

        def ways(state: State) -> list[World]:
            if state.number or state.kind not in (WAITING, SKIPPED):
                return [(state,)]
            return [()] if is_sure else [(state,), ()]

        self._event(self.worlds, partial(_parts, ways), "passed by at the begin")
        self.is_begun, self.begun_ms = True if is_told else None, now_ms

    def sent(self, message: Message) -> None:
        """Records a stored message; a redriven dead letter must have no other copy."""
        self.messages[message.body] = message
        self.gone.discard(message.body)
        self.worlds.setdefault(message.body, frozenset({()}))
        self._event([message.body], lambda world: [(*world, State(WAITING))])

    def _leased(self, lease: State, now_ms: int, attempt: int | None) -> Event:
        """Returns the event that a copy was leased, by its attempt; None: any due copies may be."""
        go = self._each(now_ms, {WAITING: [None, lambda s: lease._replace(number=s.number + 1)]})

        def event(world: World) -> Iterable[World]:
            for new in go(world):
                numbers = [s.number for s in new if s.delivery == lease.delivery]
                gone = (LEASED, 1) if 1 in numbers else ()  # A first lease replaces another one.
                if attempt is None or numbers == [attempt]:
                    yield tuple(s for s in new if s[:2] != gone or s.delivery == lease.delivery)

        return event

    def received(self, found: list[Delivery], asked: Asked, now_ms: int) -> None:
        """Records the answer of a receive."""
        assert len(found) <= asked.most
        messages = {body: self.messages[body] for body, _ in found}
        for body, lease in found:
            assert asked.tag in ("", messages[body].tag), f"{body} is not wanted"
            self._event([body], self._leased(lease, now_ms, lease.number), f"came as {lease}")
        self.looked(asked.tag, now_ms)
        for message in messages.values():
            for mate, let_by in self._lets_by(message, now_ms):
                if mate not in messages:
                    self._event([mate], let_by, f"was overtaken by {message.body}")
        # A read skips leased FIFO messages, so it may return fewer than exist.
        is_short = bool(found) and self.has_left_order
        if len(found) < asked.most and not asked.tag and not is_short:
            self.nothing_more(asked.at_ms)

    def received_unanswered(self, now_ms: int, until_ms: int, delivery: int) -> None:
        """Records a receive that a crash cut off: all deliverable messages may be leased."""
        for body, worlds in self.worlds.items():
            self.may_die_again[body] += any(self._due(s, now_ms) == DEAD for w in worlds for s in w)
        self._event(self.worlds, self._leased(State(LEASED, 0, until_ms, delivery), now_ms, None))
        self.looked("", now_ms)

    def repeated(self, found: list[Delivery], given: list[Delivery], now_ms: int) -> bool:
        """Returns whether a repeated receive got the remaining messages of its first answer.

        found   with the numbers of `given` where body and attempt are those
        """

        def holds(lease: State, world: World) -> list[World]:
            leases = [s for s in world if (s.kind, s.delivery) == (LEASED, lease.delivery)]
            return [world for s in leases if s.at_ms > now_ms or not self.is_ordered]

        left = [one for one in given if any(holds(one[1], w) for w in self.worlds[one[0]])]
        is_same = bool(found) and all(one in left for one in found)
        for body, lease in given:
            ok = None if body in self.gone else is_same and (body, lease) in found
            self._event([body], partial(holds, lease), f"came again as {lease}", ok)
        return is_same

    def looked(self, tag: str, now_ms: int) -> None:
        """Records a receive's look: it may skip filtered messages, dead-letter and renew."""
        after = partial(self._next, now_ms=now_ms)
        seen: Ways = {LEASED: [None, after], DEAD: [None, after]}
        passing: Ways = {**seen, WAITING: [None, lambda s: s._replace(kind=SKIPPED)]}
        for body, message in self.messages.items():
            self._event([body], self._each(now_ms, seen if tag in ("", message.tag) else passing))

    def steps_done(self, now_ms: int) -> None:
        """Records that all due work is done, except work that only a receive does."""
        after = partial(self._next, now_ms=now_ms)
        back: Ways = {"": [None, after] if self.was_ordered else [after], LEASED: [None, after]}
        self._event(self.worlds, self._each(now_ms, back))

    def leave_order(self) -> None:
        """Ends ordered receiving: at the next look, leases end and count anew."""
        self.is_ordered, self.was_ordered, self.has_left_order = False, True, True

        def ways(s: State) -> set[State]:
            return {
                s._replace(number=n, renews=r) for n in (s.number, 1) for r in (s.renews, False)
            }

        self._event(self.worlds, lambda w: product(*[ways(s) if s.number else {s} for s in w]))

    def restarted(self, *, is_crash: bool, now_ms: int) -> None:
        """Ends automatic renewal; a crash may also undo results that no client was told."""
        if is_crash and self.at_end and now_ms - self.begun_ms < WRITTEN_MS:
            self.is_begun = None

        def ways(state: State) -> list[State]:
            was = [SKIPPED, WAITING, *[LEASED][: state.delivery]]
            kinds = was if is_crash and state.kind == SKIPPED else [state.kind]
            return [state._replace(kind=kind, renews=False) for kind in kinds]

        self._event(self.worlds, lambda world: product(*map(ways, world)))

    def nothing_more(self, now_ms: int) -> None:
        """Records that a receive got fewer than it asked for: no other message was deliverable."""
        none = self._each(now_ms, {WAITING: [], DEAD: []})
        for body, message in self.messages.items():
            mates = [(let_by, self.worlds[m]) for m, let_by in self._lets_by(message, now_ms)]
            if all([*let_by(world)] for let_by, worlds in mates for world in worlds):
                self._event([body], none, "could have come as well")
        self.was_ordered = False

    def applied(
        self, body: str, delivery: int, ok: Told, *changes: Callable[[State], World]
    ) -> None:
        """Records the use of a handle, valid or not; one of the changes is its effect."""

        def event(world: World) -> Iterable[World]:
            for used in [s for s in world if (s.kind, s.delivery) == (LEASED, delivery)]:
                yield from ((*(s for s in world if s != used), *way(used)) for way in changes)

        self._event([body], event, f"settled by a handle of delivery {delivery}", ok)

    def reset(self, queue_id: int, queue_offset: int, *, is_told: bool = True) -> None:
        """Records a set offset of the group in a queue; without an answer: perhaps."""

        def left(new: World, world: World) -> Iterable[World]:
            if not self.is_ordered:
                yield (*(s for s in world if s.kind == DEAD or s.number > 0), *new)
            if self.is_ordered or self.was_ordered:
                yield (*(s for s in world if s.kind == DEAD), *new)

        for body, message in self.messages.items():
            if message.queue_id == queue_id:
                begin = max(queue_offset, self.floors.get(queue_id, 0))
                new = (State(WAITING),) if message.queue_offset >= begin else ()
                event = partial(left, new)
                self._event([body], event, ok=is_told or None)

    def removed(self, *, is_told: bool) -> None:
        """The topic was deleted, with the group's offsets; not told: perhaps without them."""
        if self.at_end:
            self.is_begun = False if is_told else None

    def made_again(self) -> None:
        """The group was deleted with its retry topics and dead letters, and created again.

        It begins anew. Open leases and what was sent back may still come.
        """
        self.is_begun = not self.at_end
        self.gone |= self.messages.keys()

        def ways(state: State) -> list[World]:
            if state.kind in (DEAD, SKIPPED) or not state.number:
                return [()]
            return [(state,), ()]

        for body, message in self.messages.items():
            is_there = message.queue_offset >= self.floors.get(message.queue_id, 0)
            new = (State(WAITING),) if is_there else ()
            self._event([body], partial(self._anew, ways, new), "in a new group")

    @staticmethod
    def _anew(ways: Callable[[State], list[World]], new: World, world: World) -> Iterable[World]:
        return ((*left, *new) for left in _parts(ways, world))

    def emptied(self, floors: dict[int, int], *, is_whole: bool) -> None:
        """Messages below offsets of queues were purged, of a whole topic with their retries.

        A retry after a time that was asked for, and a lease of such a retry, are elsewhere: they
        stay. A lease of a record that is gone ends without a redelivery.
        """
        self.floors |= floors
        for body, message in self.messages.items():
            is_below = message.queue_offset < self.floors.get(message.queue_id, 0)
            if is_below or is_whole:
                self.gone.add(body)
                event = partial(self._emptied, is_below=is_below, is_whole=is_whole)
                self._event([body], event, "purged")

    def _emptied(self, world: World, *, is_below: bool, is_whole: bool) -> Iterable[World]:
        def ways(state: State) -> list[World]:
            if state.kind in (DEAD, DELAYED):
                return [(state,)]
            if state.kind != LEASED and not state.number and is_below:
                return [()]
            may_go = is_whole if state.number and state.kind != LEASED else is_below or is_whole
            is_retry = bool(state.number) or state.kind == LEASED
            return [(state,), ()] if may_go and is_retry else [(state,)]

        return _parts(ways, world)

    def kinds(self, body: str) -> set[str]:
        """Returns the possible kinds of a message's copies."""
        return {state.kind for world in self.worlds.get(body, ()) for state in world}

    def check_end(self, dead_letters: list[str]) -> None:
        """Compares what is left: nothing is pending, and every dead letter exists once."""
        for body, worlds in self.worlds.items():
            assert self.kinds(body) <= {SKIPPED, DEAD}, f"{body} is stuck: {set(worlds)}"
            deaths = [sum(s.kind == DEAD for s in world) for world in worlds]
            least, most = min(deaths), max(deaths) + self.may_die_again[body]
            count = dead_letters.count(body)
            assert least <= count <= most, f"{body} died {count} times: {set(worlds)}"


def _parts(ways: Callable[[State], list[World]], world: World) -> Iterable[World]:
    """Returns the worlds in which each copy has become one of its ways."""
    return (tuple(s for part in parts for s in part) for parts in product(*map(ways, world)))
