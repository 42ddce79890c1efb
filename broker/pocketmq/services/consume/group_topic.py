"""One topic as one group receives it: its queues, and the order they are read in.

The topic's queues are read round-robin; of a topic with priorities, the last queue is read first.
Then the retry topics are read: %RETRY%group_topic, %RETRY%group+topic (RocketMQ's second format),
and %RETRY%group. Of a topic without priorities, every RETRY_TURNth receive reads the retry topics
first.
Source: PopMessageProcessor.popMsgFromTopic.
"""

import asyncio
from collections import deque
from typing import Final, final

from pocketmq.format.receipt_handle import GROUP_RETRY, RETRY_V1
from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.model.topic import RETRY_PREFIX
from pocketmq.services.consume.handles import topics_of
from pocketmq.services.consume.leases import GroupQueue, LeaseTable
from pocketmq.store.job import Job
from pocketmq.store.tables.topics import TopicTable

RETRY_TURN: Final = 5
"""Every RETRY_TURNth receive reads retry topics first (popFromRetryProbability: 20 %)."""
PARKED_KEPT_MIN: Final = 64
"""Ended receives are not removed from shorter lists of parked receives."""


@final
class Parked:
    """A parked receive; `future` is its answer.

    is_served   whether messages are being leased for the receive
    """

    __slots__ = ("future", "is_served", "request")

    def __init__(self, request: ReceiveRequest, future: "asyncio.Future[Received]") -> None:
        self.request = request
        self.future = future
        self.is_served = False


@final
class GroupTopic:
    """A group's receives of one topic."""

    __slots__ = (
        "_counts", "_leases", "_names", "_topics", "ends_at_ms", "expecting", "group", "is_capped",
        "is_ordered", "parked", "queues", "serving", "sweep_above", "topic", "turn", "watches",
    )  # fmt: skip

    def __init__(self, group: str, topic: str, topics: TopicTable, leases: LeaseTable) -> None:
        self.group = group
        self.topic = topic
        self._topics = topics
        self._leases = leases
        names = [topic] if topic.startswith(RETRY_PREFIX) else topics_of(group, topic)
        self._names = [(name, retry) for retry, name in enumerate(names)]
        self.is_capped = False
        """Whether a queue with too many messages in flight was skipped since the last ack."""
        self._counts: list[int] = []
        self.turn = 0
        self.queues: list[list[GroupQueue]] = []
        """A list of queues for the topic, then one for each retry topic."""
        self.parked: deque[Parked] = deque()
        self.expecting: set[Parked] = set()
        """Waits that end with the next message, and lease nothing."""
        self.sweep_above = PARKED_KEPT_MIN
        self.serving: Job[None] | None = None
        self.is_ordered = False
        """Whether messages are received in order."""
        self.ends_at_ms: int | None = None
        """Monotonic time of the next lease end that parked receives wait for."""
        self.watches: dict[GroupQueue, asyncio.Future[bool]] = {}

    def refresh(self) -> None:
        """Updates the list of queues to the current queue counts."""
        found = [self._count(name, retry) for name, retry in self._names]
        if found == self._counts:
            return
        self._counts = found
        queue = self._leases.queue
        self.queues = [
            [queue(self.group, name, number, retry) for number in range(count)]
            for (name, retry), count in zip(self._names, found, strict=True)
        ]

    def _count(self, name: str, retry: int) -> int:
        """Returns a topic's queue count; 1 for a missing retry topic that the group may create."""
        topic = self._topics.find(name)
        if topic is None:
            return int(retry in (RETRY_V1, GROUP_RETRY))
        return topic.read_queue_count if topic.is_readable else 0

    def reads(self, topics: set[str]) -> bool:
        """Returns whether `topics` contains the topic or one of its retry topics."""
        return any(name in topics for name, _ in self._names)

    def in_turn(self) -> list[GroupQueue]:
        """Returns all queues in the order in which the next receive reads them."""
        self.refresh()
        self.turn = turn = self.turn + 1
        first, *retries = self.queues
        retried = [queue for queues in retries for queue in queues]
        topic = self._topics.find(self.topic)
        if topic is not None and topic.has_priorities:
            return [*reversed(first), *retried]
        begin = turn % len(first) if first else 0
        normal = first[begin:] + first[:begin]
        return retried + normal if turn % RETRY_TURN == 0 else normal + retried

    def park(self, parked: Parked) -> None:
        """Appends a receive to `parked`."""
        assert (parked.request.group, parked.request.topic) == (self.group, self.topic)
        self.parked.append(parked)
        if len(self.parked) > self.sweep_above:
            self.parked = deque(one for one in self.parked if not one.future.done())
            self.sweep_above = max(PARKED_KEPT_MIN, 2 * len(self.parked))

    def all_queues(self) -> list[GroupQueue]:
        """Returns the queues of the topic and of its retry topics."""
        self.refresh()
        return [queue for queues in self.queues for queue in queues]
