"""Outcome of half messages that were sent as one, derived from the log.

    a committed message of one of its places     COMMITTED
    a copy in the topic of given-up ones         GIVEN_UP
    a later copy among half messages             MOVED, to the offset of the newest copy
    otherwise                                    ROLLED_BACK

Copies name the first of their kind. Total cost: linear in their number.
"""

from typing import Final, NamedTuple

from pocketmq.model.decimal import number_of
from pocketmq.model.message import FIRST_HALF_OFFSET, StoredMessage
from pocketmq.model.system_topics import real_place
from pocketmq.services.transaction.halves import HalfState

NOWHERE: Final = ""
"""The topic of one that does not name its real topic."""


class Became(NamedTuple):
    """Outcome of a half message, and its current queue offset."""

    state: HalfState
    queue_offset: int


class _Copies:
    """Positions of some half messages, and the newest of them."""

    __slots__ = ("newest", "places")

    def __init__(self) -> None:
        self.places: set[int] = set()
        self.newest = -1

    def add(self, queue_offset: int, place: int) -> None:
        self.places.add(place)
        self.newest = max(self.newest, queue_offset)
        assert self.newest >= queue_offset


class DuplicateHalves:
    """Half messages of one key, birth, body and group, and the committed ones of these.

    topics        where they go
    is_given_up   whether one of them is among the expired ones
    """

    __slots__ = ("_committed", "_halves", "_loose", "_of_origin", "is_given_up", "topics")

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.is_given_up = False
        self._committed: dict[str, set[int]] = {}
        self._halves: dict[int, tuple[int, str, str]] = {}
        """By queue offset: its position, the first of its kind, its target."""
        self._loose = _Copies()
        """Those that name no first one may be copies of any."""
        self._of_origin: dict[str, _Copies] = {}

    def see(self, half: StoredMessage) -> None:
        """Adds a half message; adding the same one again changes nothing."""
        at, place = half.queue_offset, half.physical_offset
        real = real_place(half.properties)
        topic = NOWHERE if real is None else real.topic
        origin = half.properties.get(FIRST_HALF_OFFSET)
        if origin is None:
            self._loose.add(at, place)
        else:
            self._of_origin.setdefault(origin, _Copies()).add(at, place)
        self._halves[at] = place, str(at) if origin is None else origin, topic
        self.topics.add(topic)

    def see_committed(self, topic: str, place: int) -> None:
        """Adds a committed message of a topic by the half message's place that it names."""
        self._committed.setdefault(topic, set()).add(place)

    def became(self) -> dict[int, Became]:
        """Returns the outcome of each half message, by its queue offset."""
        hits: dict[tuple[str, str], bool] = {}
        loose = {t: not its.isdisjoint(self._loose.places) for t, its in self._committed.items()}
        found: dict[int, Became] = {}
        for at, (place, origin, topic) in self._halves.items():
            committed, copies = self._committed.get(topic, set()), self._of_origin.get(origin)
            key = origin, topic
            if key not in hits:
                first = self._halves.get(number_of(origin))
                is_hit = copies is not None and not committed.isdisjoint(copies.places)
                hits[key] = is_hit or (first is not None and first[0] in committed)
            newest = max(at, self._loose.newest, -1 if copies is None else copies.newest)
            if hits[key] or place in committed or loose.get(topic, False):
                state = HalfState.COMMITTED
            elif self.is_given_up:
                state = HalfState.GIVEN_UP
            else:
                state = HalfState.MOVED if newest > at else HalfState.ROLLED_BACK
            found[at] = Became(state, newest)
        return found
