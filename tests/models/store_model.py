"""A model of a store's answers in a few lists, without files, time or loss."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pocketmq.model.reading import PullStatus

Queue = tuple[str, int]


class Told(NamedTuple):
    """The expected answer of a pull."""

    status: PullStatus
    next_begin: int
    bodies: list[str]


@dataclass
class Message:
    """A stored message; `is_listed` until its queue is removed."""

    topic: str
    queue_id: int
    queue_offset: int
    place: int
    time_ms: int
    body: str
    key: str
    unique_key: str
    is_listed: bool = True


@dataclass
class StoreModel:
    """All messages in the order of the log, and the state of topics, groups and offsets."""

    log: list[Message] = field(default_factory=list)
    ends: dict[Queue, int] = field(default_factory=dict)
    """The next queue offset of each queue."""
    topics: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    listed: set[Queue] = field(default_factory=set)
    """Queues that got messages since their last removal."""

    def put(
        self, queue: Queue, rows: Iterable[tuple[str, str, str]], told: list[int], at: int
    ) -> int:
        """Stores (body, key, unique key) at physical offsets; returns the first offset."""
        first = number = self.ends.get(queue, 0)
        for (body, key, unique_key), place in zip(rows, told, strict=True):
            self.log.append(Message(*queue, number, place, at, body, key, unique_key))
            number += 1
        self.ends[queue] = number
        self.listed.add(queue)
        return first

    def expire(self, lower: int) -> None:
        """Forgets messages below a physical offset."""
        self.log = [message for message in self.log if message.place >= lower]

    def remove_topic(self, topic: str) -> None:
        """Forgets a topic's queues; its messages stay."""
        self.listed = {queue for queue in self.listed if queue[0] != topic}
        self.topics.discard(topic)
        for message in self.log:
            message.is_listed = message.is_listed and message.topic != topic
        self.offsets = {key: value for key, value in self.offsets.items() if key[1] != topic}

    def commit(self, group: str, topic: str, queue_id: int, value: int) -> None:
        """Sets a group's offset."""
        self.groups.add(group)
        self.offsets[group, topic, queue_id] = value

    def listing(self, queue: Queue) -> list[Message]:
        """Returns the messages of a queue that can be pulled."""
        return [m for m in self.log if m.is_listed and (m.topic, m.queue_id) == queue]

    def range_of(self, queue: Queue) -> tuple[int, int]:
        """Returns (min, max)."""
        if queue not in self.listed:
            return 0, 0
        upper = self.ends[queue]
        messages = self.listing(queue)
        return (messages[0].queue_offset if messages else upper), upper

    def pull(self, queue: Queue, begin: int, count_max: int) -> Told:
        """Returns the expected answer of a pull."""
        lower, upper = self.range_of(queue)
        if upper == 0 and begin == 0:
            return Told(PullStatus.NO_NEW_MESSAGE, 0, [])
        if begin < lower:
            return Told(PullStatus.OFFSET_TOO_SMALL, lower, [])
        if begin >= upper:
            is_next = begin == upper
            status = PullStatus.OFFSET_OVERFLOW_ONE if is_next else PullStatus.OFFSET_OVERFLOW_BADLY
            return Told(status, upper, [])
        found = [m.body for m in self.listing(queue) if m.queue_offset >= begin][:count_max]
        return Told(PullStatus.FOUND, begin + len(found), found)

    def by_key(self, topic: str, key: str) -> list[str]:
        """Returns all bodies with a key, newest first."""
        rows = [m for m in self.log if m.topic == topic and key in (m.key, m.unique_key)]
        return [m.body for m in reversed(rows)]

    def by_time(self, queue: Queue, time_ms: int) -> int:
        """Returns the first queue offset stored at or after a time, else the queue's end."""
        later = [m.queue_offset for m in self.listing(queue) if m.time_ms >= time_ms]
        return later[0] if later else self.range_of(queue)[1]
