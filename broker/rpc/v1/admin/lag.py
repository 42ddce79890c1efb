"""How far consumer groups are behind, queue by queue, and how old what they missed is.

A queue that a group has no offset in counts as consumed; messages that expired unread do not wait
any more. Metrics count the same way (metrics/lag.py).
Source: AdminBrokerProcessor.getConsumeStats, ConsumerLagCalculator.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.model.errors import IllegalPageToken
from broker.rpc.call import Call
from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.topic_access import find_topic
from broker.rpc.v1.admin.groups import find_group
from broker.rpc.v1.admin.needs import GroupTable, Offsets, Store, TopicTable
from broker.rpc.v1.admin.pages import page_of
from broker.store.reading.patience import value_of

TOKEN_SEPARATOR: Final = "@"
"""Between group and topic; neither name may hold it."""


class QueuePlace(NamedTuple):
    """A queue's offsets, [min, max), and where a group stands in it."""

    queue_id: int
    committed: int | None
    min_offset: int
    max_offset: int

    @property
    def begin(self) -> int:
        """The first message not consumed that is still there, or the queue's end."""
        if self.committed is None:
            return self.max_offset
        return min(max(self.committed, self.min_offset), self.max_offset)

    @property
    def lag_messages(self) -> int:
        """Messages not consumed."""
        return self.max_offset - self.begin


class LagMethod:
    """The method that tells the lag of groups."""

    __slots__ = ("_groups", "_offsets", "_store", "_topics")

    def __init__(
        self, groups: GroupTable, *, store: Store, topics: TopicTable, offsets: Offsets
    ) -> None:
        self._groups = groups
        self._store = store
        self._topics = topics
        self._offsets = offsets

    async def group_lag(self, request: pb.GroupLagRequest, call: Call) -> pb.GroupLagResponse:
        """Return the lag of one group with its queues, or a page of the lags of all.

        Errors   IllegalGroup, GroupNotFound, IllegalTopic, TopicNotFound, IllegalNumber,
                 IllegalPageToken
        Cost     one look into the log for each queue that is behind, none without a group
        """
        topic = request.topic and find_topic(self._topics, request.topic).name
        if not request.group:
            return await self._lags_of_all(request, topic)
        group = find_group(self._groups, request.group).name
        rows = self._offsets.all_of(group)
        chosen = [topic] if topic else sorted(rows)
        lags = [await self._lag(group, name, rows.get(name, {})) for name in chosen]
        return pb.GroupLagResponse(topics=lags)

    async def _lags_of_all(self, request: pb.GroupLagRequest, topic: str) -> pb.GroupLagResponse:
        if request.page_token and TOKEN_SEPARATOR not in request.page_token:
            raise IllegalPageToken(token=request.page_token)
        pairs = sorted(
            f"{group}{TOKEN_SEPARATOR}{name}"
            for group, names in self._offsets.topics_by_group().items()
            for name in names
            if not topic or name == topic
        )
        page = page_of(pairs, request.page_size, request.page_token)
        lags = []
        for pair in page.names:
            group, _, name = pair.partition(TOKEN_SEPARATOR)
            places = self._places(name, self._offsets.all_of(group).get(name, {}))
            lags.append(_topic_lag(group, name, places))
            await asyncio.sleep(0)
        return pb.GroupLagResponse(topics=lags, next_page_token=page.next_token)

    async def _lag(self, group: str, topic: str, committed: Mapping[int, int]) -> pb.TopicLag:
        places = self._places(topic, committed)
        queues = [await self._queue_lag(topic, place) for place in places]
        lag = _topic_lag(group, topic, places)
        lag.lag_ms = max((queue.lag_ms for queue in queues), default=0)
        lag.queues.extend(queues)
        return lag

    async def _queue_lag(self, topic: str, place: QueuePlace) -> pb.QueueLag:
        return pb.QueueLag(
            queue_id=place.queue_id,
            committed_offset=place.committed,
            min_offset=place.min_offset,
            max_offset=place.max_offset,
            lag_messages=place.lag_messages,
            lag_ms=await self._age_ms(topic, place) if place.lag_messages else 0,
        )

    async def _age_ms(self, topic: str, place: QueuePlace) -> int:
        reading = self._store.reading
        stored_ms = await value_of(reading.store_timestamp_at(topic, place.queue_id, place.begin))
        return 0 if stored_ms is None else max(self._store.clock.wall_ms() - stored_ms, 0)

    def _places(self, topic: str, committed: Mapping[int, int]) -> list[QueuePlace]:
        """Return every queue the topic has, and those the group knows besides."""
        config = self._topics.find(topic)
        count = config.queue_count if config is not None else 0
        queue_range = self._store.reading.queue_range
        return [
            QueuePlace(queue_id, committed.get(queue_id), *queue_range(topic, queue_id))
            for queue_id in sorted({*range(count), *committed})
        ]


def _topic_lag(group: str, topic: str, places: list[QueuePlace]) -> pb.TopicLag:
    return pb.TopicLag(
        group=group,
        topic=topic,
        committed_sum=sum(place.committed or 0 for place in places),
        lag_messages=sum(place.lag_messages for place in places),
    )
