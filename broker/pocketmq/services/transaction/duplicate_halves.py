"""Determines from the log the outcomes of half messages that may have copies.

A half message is stored again for each check; the copy contains the queue offset of the original.
The first row that applies is the outcome:

    the half message or a copy was committed                  COMMITTED
    a copy is in the topic of expired half messages           GIVEN_UP
    the topic of half messages contains a later copy          MOVED
    none of these                                             ROLLED_BACK

Cost: linear in the number of half messages.
"""

from typing import Final, NamedTuple

from pocketmq.model.decimal import number_of
from pocketmq.model.message import FIRST_HALF_OFFSET, StoredMessage
from pocketmq.model.system_topics import real_place
from pocketmq.services.transaction.halves import HalfState

NOWHERE: Final = ""
"""Used as target topic if a half message names no target topic."""


class Became(NamedTuple):
    """Outcome of a half message, and the queue offset of its newest copy."""

    state: HalfState
    queue_offset: int


class _Copies:
    """Physical offsets of half messages, and the highest queue offset."""

    __slots__ = ("newest", "places")

    def __init__(self) -> None:
        self.places: set[int] = set()
        self.newest = -1

    def add(self, queue_offset: int, place: int) -> None:
        self.places.add(place)
        self.newest = max(self.newest, queue_offset)
        assert self.newest >= queue_offset


class DuplicateHalves:
    """Half messages with equal key, born time, born host, body and group.

    topics        target topics of the half messages
    is_given_up   whether one of the half messages has expired
    """

    __slots__ = ("_committed", "_halves", "_loose", "_of_origin", "is_given_up", "topics")

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.is_given_up = False
        self._committed: dict[str, set[int]] = {}
        self._halves: dict[int, tuple[int, str, str]] = {}
        """Queue offset -> (physical offset, queue offset of the original, target topic)."""
        self._loose = _Copies()
        """Half messages that do not name an original: originals, and copies of any of them."""
        self._of_origin: dict[str, _Copies] = {}

    def see(self, half: StoredMessage) -> None:
        """Adds a half message; adding it again has no effect."""
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
        """Adds a committed message; `place` is the physical offset of its half message."""
        self._committed.setdefault(topic, set()).add(place)

    def became(self) -> dict[int, Became]:
        """Returns the outcomes of all half messages, by queue offset."""
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
