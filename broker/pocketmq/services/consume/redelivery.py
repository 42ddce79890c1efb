"""Builds the records that replace messages which a group failed to consume.

    sent back          delayed by a delay level, then in %RETRY%group
    lease expired      at once in %RETRY%group_topic
    no attempts left   dead letter in %DLQ%group

The topics of these records must exist (`prepare`, `prepare_lease_retry`).
Source: AbstractSendMessageProcessor.consumerSendMsgBack, PopReviveService.reviveRetry,
TopicConfigManager.createTopicInSendMessageBackMethod.
"""

from typing import Final

from pocketmq.format.rewrite import facts_of, put_again
from pocketmq.model.administration import GroupConfig
from pocketmq.model.batch import Run
from pocketmq.model.store_shape import DelayLevels
from pocketmq.model.system_topics import (
    ParkedMessage,
    QueuePlace,
    back_level,
    dead,
    delayed,
    lease_retry_topic,
    leased_topic,
    revived,
    sent_back,
)
from pocketmq.model.topic import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    dead_letter_topic,
    retry_topic,
)
from pocketmq.store.tables.topics import TopicTable

DEAD_LETTER_QUEUE_COUNT: Final = 1
LEASE_RETRY_QUEUE_COUNT: Final = 1


class Redelivery:
    """Builds replacements for messages that a group failed to consume."""

    __slots__ = ("_levels", "_store_host", "_topics")

    def __init__(self, topics: TopicTable, levels: DelayLevels, store_host: bytes) -> None:
        assert levels.delays_ms, "no delay levels"
        self._topics = topics
        self._levels = levels
        self._store_host = store_host

    async def prepare(self, group: GroupConfig) -> None:
        """Creates the delay, retry and dead-letter topics of a group; durable when it returns.

        Errors   DiskFull, NotReplicated, StoreFailed
        """
        await self._topics.ensure(SCHEDULE_TOPIC, len(self._levels.delays_ms))
        await self._topics.ensure(
            retry_topic(group.name), max(group.settings.retry_queue_count or 0, 1)
        )
        await self._topics.ensure(dead_letter_topic(group.name), DEAD_LETTER_QUEUE_COUNT)

    async def prepare_lease_retry(self, group: GroupConfig, topic: str) -> None:
        """Creates the topics for messages of a topic whose leases expire; durable when it returns.

        Errors   DiskFull, NotReplicated, StoreFailed
        """
        name = topic if topic.startswith(RETRY_PREFIX) else lease_retry_topic(group.name, topic)
        await self._topics.ensure(name, LEASE_RETRY_QUEUE_COUNT)
        await self._topics.ensure(dead_letter_topic(group.name), DEAD_LETTER_QUEUE_COUNT)

    def back(
        self, record: bytes, group: GroupConfig, topic: str, level: int = 0, turn: int = 0,
        *, tried: int = 0,
    ) -> Run:  # fmt: skip
        """Returns the replacement for a message that is sent back.

        topic    topic that the message was received from
        level    delay level; 0: the retry count plus 3, below 0: dead letter at once
        turn     selects a queue of the retry topic; callers increment it
        tried    number of redeliveries in FIFO order, which the record does not contain
        """
        times, properties, message_id = _facts_of(record, topic)
        times += tried
        if level < 0 or is_last_attempt(group, times):
            return self.dead(record, group, topic, tried=tried)
        level = back_level(level, times)
        origin = leased_topic(topic, group.name)
        back = sent_back(group.name, origin, properties, message_id, level)
        found = self._topics.find(back.place.topic)
        count = found.write_queue_count if found is not None else 1
        place = QueuePlace(back.place.topic, turn % max(count, 1))
        wait = delayed(place, level, len(self._levels.delays_ms))
        changed = back.changed | wait.changed
        return self._run(record, wait._replace(changed=changed), times + 1)

    def over(
        self, record: bytes, group: GroupConfig, topic: str, popped_at_ms: int,
        *, is_counted: bool = True,
    ) -> Run:  # fmt: skip
        """Returns the replacement for a message whose lease expired.

        topic         topic that the message was received from
        popped_at_ms  wall time of the receive
        is_counted    whether the delivery counts as an attempt
        """
        times, properties, _ = _facts_of(record, topic)
        if is_counted and is_last_attempt(group, times):
            return self.dead(record, group, topic)
        again = revived(group.name, topic, properties, popped_at_ms)
        return self._run(record, again, times + is_counted, is_copied=True)

    def dead(self, record: bytes, group: GroupConfig, topic: str, *, tried: int = 0) -> Run:
        """Returns the dead letter of a message; parameters as for `back`."""
        times, properties, message_id = _facts_of(record, topic)
        letter = dead(group.name, leased_topic(topic, group.name), properties, message_id)
        return self._run(record, letter, times + tried + 1)

    def _run(
        self, record: bytes, disguise: ParkedMessage, times: int, *, is_copied: bool = False
    ) -> Run:
        return put_again(
            record,
            topic=disguise.place.topic,
            queue_id=disguise.place.queue_id,
            store_host=self._store_host,
            changed=disguise.changed,
            dropped=disguise.dropped,
            reconsume_times=times,
            born_host=self._store_host if is_copied else None,
            is_copied=is_copied,
        )


def _facts_of(record: bytes, topic: str) -> tuple[int, dict[str, str], str]:
    """Returns the result of `facts_of`; but the retry count of a received dead letter is 0."""
    times, properties, message_id = facts_of(record)
    return 0 if topic.startswith(DLQ_PREFIX) else times, properties, message_id


def is_last_attempt(group: GroupConfig, reconsume_times: int) -> bool:
    """Returns whether a message with this retry count has no attempts left in the group."""
    return reconsume_times + 1 >= (group.settings.max_attempts or 0)
