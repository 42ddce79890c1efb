"""Histories of a leader and its follower, compared with what both have in the end.

    R-lost    what was acknowledged is in both queues, at the place that its producer was told
    R-dense   queue offsets have no gap; no place is given twice, and no message has two places,
              unless its producer sent it again
    R-order   a queue has the same messages in the same order on both brokers
    R-seen    what a consumer read of either broker stays: no promotion removes it
    R-purge   messages of an acknowledged purge are on neither broker in the end, and not read where
              it was acknowledged; no other message is removed
    R-fence   a leader that knows of a later term acknowledges nothing; nor does one what was sent
              after another broker was promoted

`faults_of` is a pure function: what is wrong as texts, each with its kind first.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.faults.history import Code, Queue

LOST, GAP, TWICE, COPIES = "lost", "gap", "place given twice", "stored twice"
ORDER, SEEN, FENCED, LATE = "order", "read and removed", "after its fence", "after a promotion"
BACK: Final = "purged and there"
KINDS: Final = (LOST, GAP, TWICE, COPIES, ORDER, SEEN, FENCED, LATE, BACK)


class Place(NamedTuple):
    """An ordinal in a queue."""

    queue: Queue
    queue_offset: int


class Ack(NamedTuple):
    """A broker acknowledged a message, which was sent at `sent_at`."""

    at: float
    node: str
    place: Place
    code: Code
    sent_at: float


class Seen(NamedTuple):
    """A consumer read a message."""

    at: float
    node: str
    place: Place
    code: Code


class Leads(NamedTuple):
    """A broker leads a term from now on; the one that never was promoted leads epoch 0."""

    at: float
    node: str
    epoch: int


class Knows(NamedTuple):
    """A broker that led has learned of a later term."""

    at: float
    node: str
    epoch: int


class Purged(NamedTuple):
    """A broker reported that the messages below a place are purged."""

    at: float
    node: str
    place: Place


Rows = Mapping[Queue, Sequence[tuple[int, Code]]]
"""Queue offset and message of everything that a reader found in a queue."""


@dataclass
class PairHistory:
    """The views that clients and operators have of both brokers, in any order.

    ends      what each broker has once both have settled
    purging   queue offset below which messages may be missing, as a purge was asked for
    again     how often a message was sent, if more than once
    is_sync   whether acknowledgements waited for the follower
    """

    events: list[Ack | Seen | Leads | Knows | Purged] = field(default_factory=list)
    ends: dict[str, Rows] = field(default_factory=dict)
    purging: dict[Queue, int] = field(default_factory=dict)
    again: Counter[Code] = field(default_factory=Counter)
    is_sync: bool = True


def faults_of(history: PairHistory) -> list[str]:
    """Returns what is wrong, "KIND: details" each."""
    acks = [one for one in history.events if isinstance(one, Ack)]
    found = [*_dense(history, acks), *_ordered(history.ends), *_fenced(history)]
    found += _back(history)
    if history.is_sync:
        found += _kept(history)
    return found


def _kept(history: PairHistory) -> Iterator[str]:
    ends = {
        node: {Place(queue, at): code for queue, rows in found.items() for at, code in rows}
        for node, found in history.ends.items()
    }
    for event in history.events:
        if not isinstance(event, Ack | Seen):
            continue
        kind, verb = (LOST, "acknowledged") if isinstance(event, Ack) else (SEEN, "read")
        for node, places in ends.items():
            there = places.get(event.place)
            is_purged = event.place.queue_offset < history.purging.get(event.place.queue, 0)
            if there != event.code and not (is_purged and there is None):
                yield (
                    f"{kind}: {event.code} was {verb} at {event.place} of {event.node} "
                    f"({event.at:g}), {node} has {there} there"
                )


def _dense(history: PairHistory, acks: Sequence[Ack]) -> Iterator[str]:
    given: dict[Place, Ack] = {}
    for ack in acks:
        before = given.setdefault(ack.place, ack)
        if history.is_sync and before.code != ack.code:
            yield f"{TWICE}: {ack.place} is that of {before.code} ({before.node}) and {ack.code}"
    for node, found in history.ends.items():
        times: Counter[Code] = Counter()
        for queue, rows in found.items():
            begin = min(rows[0][0], history.purging.get(queue, 0)) if rows else 0
            for number, (queue_offset, code) in enumerate(rows, begin):
                times[code] += 1
                if queue_offset != number:
                    yield f"{GAP}: {node} has {code} at {queue} {queue_offset}, not {number}"
                    break
        for code, count in times.items():
            if count > max(history.again[code], 1):
                yield f"{COPIES}: {node} has {code} {count} times"


def _ordered(ends: Mapping[str, Rows]) -> Iterator[str]:
    queues = {queue for found in ends.values() for queue in found}
    for queue in sorted(queues):
        (one, first), *others = ((node, list(found.get(queue, ()))) for node, found in ends.items())
        for node, second in others:
            if first != second:
                rows = [pair for pair in zip(first, second, strict=False) if pair[0] != pair[1]]
                where = f"first {rows[0]}" if rows else f"{len(first)} and {len(second)} messages"
                yield f"{ORDER}: {one} and {node} differ in {queue}, {where}"


def _back(history: PairHistory) -> Iterator[str]:
    """A read that began in the instant of a purge may still find its messages."""
    floors: dict[tuple[str, Queue], int] = {}
    for event in sorted(history.events, key=lambda one: (one.at, isinstance(one, Purged))):
        if isinstance(event, Purged | Seen):
            queue, queue_offset = event.place
            floor = floors.setdefault((event.node, queue), 0)
            if isinstance(event, Purged):
                floors[event.node, queue] = max(floor, queue_offset)
            elif queue_offset < floor:
                yield f"{BACK}: {event} after a purge of all below {floor}"
    for (_, queue), floor in floors.items():
        for node, found in history.ends.items():
            first = next(iter(found.get(queue, ())), None)
            if first is not None and first[0] < floor:
                yield f"{BACK}: {node} has {first[1]} at {queue} {first[0]}, purged below {floor}"


def _fenced(history: PairHistory) -> Iterator[str]:
    led: dict[str, int] = {}
    known: dict[str, int] = {}
    latest = Leads(0, "", -1)
    for event in sorted(history.events, key=lambda one: one.at):
        if isinstance(event, Leads):
            led[event.node] = event.epoch
            known.pop(event.node, None)
            latest = max(latest, event, key=lambda one: one.epoch)
        elif isinstance(event, Knows):
            known[event.node] = event.epoch
        elif isinstance(event, Ack):
            own = led.get(event.node, -1)
            if event.node in known:
                yield f"{FENCED}: {event} by a leader of {own} that knows of {known[event.node]}"
            if own < latest.epoch and event.sent_at > latest.at:
                yield f"{LATE}: {event} by a leader of {own}, {latest.node} leads {latest.epoch}"
