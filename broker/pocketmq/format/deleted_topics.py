"""Finds log records of deleted topics from queue state.

RocketMQ deletes a topic's row and queues but never its messages. If the topic is created again, its
messages are numbered from 0. Left-over records are therefore:

    of a topic with neither a row nor a queue   all its records
    of a queue that begins with offset 0        its records before that message
    of a missing queue of such a topic          its records before the earliest such message

RocketMQ 5.0.0 counts refused sends, so its records contain offsets above their unit numbers. Once
the log's first records have expired, only the queue shows the difference, at its first remaining
message. A record with queue offset 0 may have any unit number: brokers append its unit at the end
of the queue. The dead letter of a lite topic's first message, for example, is such a record.
log/deleted_topics.py finds these facts; code that builds queues from the log applies them.
"""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from pocketmq.format.json_text import read_object
from pocketmq.model.message import QueueKey
from pocketmq.model.topic import LMQ_PREFIX, is_system_topic

DRIFT_MAX: Final = 65_536
"""Largest difference of a queue offset and its unit number; a larger one counts as damage."""


class LeftOver(NamedTuple):
    """Bounds of left-over records, and the starts of queues whose unit numbers differ.

    topics   (physical offset, topics that existed there): below the offset, the records of all
             other topics are left over
    places   for each existing queue the physical offset of its first message, below which its
             records are left over; 0: offset 0 does not occur in the queue
    starts   by queue: physical offset and unit number of its first remaining message
    """

    topics: tuple[tuple[int, frozenset[str]], ...] = ()
    places: dict[QueueKey, int] = {}  # noqa: RUF012 - never written
    starts: dict[QueueKey, tuple[int, int]] = {}  # noqa: RUF012 - never written

    def floor_of(self, topic: str, queue_id: int) -> int:
        """Returns the physical offset below which a queue's records are left over."""
        floor = self.places.get((topic, queue_id), 0)
        if not self.topics or is_system_topic(topic) or topic.startswith(LMQ_PREFIX):
            return floor
        return max(floor, *(upto for upto, known in self.topics if topic not in known), 0)

    def with_empty(self, met: Iterable[QueueKey], keys: Iterable[QueueKey]) -> "LeftOver":
        """Adds left-over records of queues that got no message after their deletion.

        met    queues with left-over records in the log, whose topics were created again
        keys   all queues with records in the log
        """
        again = {topic for topic, queue_id in met if self.places.get((topic, queue_id))}
        floors: dict[str, int] = {}
        for (topic, _), place in self.places.items():
            if topic in again and place:
                floors[topic] = min(place, floors.get(topic, place))
        empty = {key: floors[key[0]] for key in keys if key[0] in again and key not in self.places}
        return self._replace(places=self.places | empty) if empty else self

    def goes_on_from(self, earlier: "LeftOver") -> bool:
        """Returns whether all these left-over records are also left over in `earlier`."""
        is_same = all(self.places.get(key) == place for key, place in earlier.places.items())
        now = [known for _, known in self.topics]
        before = [known for _, known in earlier.topics]
        return (
            is_same
            and self.starts == earlier.starts
            and len(now) == len(before)
            and all(known <= later for known, later in zip(before, now, strict=True))
        )

    @property
    def text(self) -> str:
        """The bounds as JSON; "" if no record is left over."""
        if self == NOTHING_LEFT_OVER:
            return ""
        topics = [[upto, sorted(known)] for upto, known in self.topics]
        places = [[*key, place] for key, place in sorted(self.places.items())]
        starts = [[*key, *start] for key, start in sorted(self.starts.items())]
        return json.dumps({"topics": topics, "places": places, "starts": starts})


def is_numbered_otherwise(unit: int, queue_offset: int) -> bool:
    """Returns whether brokers may store a record with this queue offset as unit number `unit`."""
    return unit < queue_offset <= unit + DRIFT_MAX or queue_offset == 0 < unit


NOTHING_LEFT_OVER: Final = LeftOver()


def left_over_of(text: str) -> LeftOver:
    """Parses the text of `LeftOver.text`.

    Errors   ValueError: the text is invalid
    """
    if not text:
        return NOTHING_LEFT_OVER
    try:
        document = read_object(text)
        topics = tuple((int(upto), frozenset(known)) for upto, known in document["topics"])
        places = {(str(t), int(i)): int(place) for t, i, place in document["places"]}
        starts = {
            (str(t), int(i)): (int(place), int(unit))
            for t, i, place, unit in document.get("starts", ())
        }
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError("it does not list left-over records") from error
    return LeftOver(topics, places, starts)
