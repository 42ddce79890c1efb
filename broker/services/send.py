"""Sending: check, choose a queue, add what the broker adds, put.

The order of checks is RocketMQ's: time, broker permission, topic, topic creation, topic permission,
queue, messages, sizes. One bad message refuses the whole request and stores nothing.

Stored properties, in this order: UNIQ_KEY, WAIT, KEYS, TAGS, __SHARDINGKEY, the user's own,
CLUSTER, MSG_REGION, TRACE_ON.
Source: SendMessageProcessor, AbstractSendMessageProcessor.msgCheck, MessageExtEncoder.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from broker.format.java_hash import java_hash
from broker.format.message_id import UniqueKeyMaker
from broker.format.properties import PROPERTIES_SIZE_MAX
from broker.format.record import PROPERTY_CRC_SIZE
from broker.model.clock import Clock
from broker.model.errors import (
    BodyEmpty,
    BodyTooLarge,
    BrokerReadOnly,
    MixedQueues,
    MixedTopics,
    NoMessages,
    NotAccepting,
    PropertiesTooLarge,
    QueueOutOfRange,
    SystemTopic,
    TooManyMessages,
    TooManyProperties,
    TopicNotFound,
    TopicNotWritable,
)
from broker.model.message import KEY_SEPARATOR, PutAddress, PutRow
from broker.model.results import PutStatus
from broker.model.stats import MESSAGE_SIZE_BUCKETS, Counter, Histograms, Stat
from broker.model.system_topics import DEFAULT_TOPIC, is_group_topic, is_system_topic
from broker.model.topic import (
    PERMISSION_INHERIT,
    PERMISSION_READ,
    PERMISSION_WRITE,
    TopicConfig,
)
from broker.model.topic_names import (
    PROPERTY_COUNT_MAX,
    check_key,
    check_message_group,
    check_message_id,
    check_property,
    check_tag,
    check_topic,
)
from broker.store.message_store import MessageStore

MESSAGES_MAX: Final = 1_024
"""Messages of one request: about 10 ms of the event loop."""
REGION: Final = "DefaultRegion"
PLAIN_ID_LENGTH: Final = 64
"""Letters and digits up to here are an id without a closer look."""

Draft = tuple[str, bytes, str, Sequence[str], str, int, str, int, bytes, int, dict[str, str]]
"""A message as asked for: (topic, body, tag, keys, message id, queue id or -1, message group, born
timestamp in ms or 0, packed born host, flag, the user's properties); "" stands for absent."""


class Sent(NamedTuple):
    """Where the messages of a request lie: next to each other in one queue.

    Message i has message_ids[i], physical_offsets[i] and queue offset queue_offset + i; store_host
    is packed.
    """

    topic: str
    queue_id: int
    queue_offset: int
    store_timestamp_ms: int
    store_host: bytes
    status: PutStatus
    message_ids: list[str]
    physical_offsets: list[int]


class SendRules(NamedTuple):
    """What the operator decided about sending; store_host is packed (8 or 20 bytes)."""

    store_host: bytes
    cluster: str
    permission: int = PERMISSION_READ | PERMISSION_WRITE
    accept_from_ms: int = 0
    auto_create_topics: bool = True
    default_queue_count: int = 8
    max_message_size_bytes: int = 4 * 1024 * 1024


class Send:
    """The send pipeline over one store."""

    __slots__ = (
        "_clock", "_heads", "_key_maker", "_properties_max", "_random", "_rules", "_store", "_tail",
        "message_size", "messages_in", "stats", "throughput_in",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        rules: SendRules,
        clock: Clock,
        *,
        key_maker: UniqueKeyMaker,
        random: Random,
    ) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock
        self._key_maker = key_maker
        self._random = random
        crc_size = PROPERTY_CRC_SIZE if store.settings.property_crc else 0
        self._properties_max = PROPERTIES_SIZE_MAX - crc_size
        self._heads = ("\x02WAIT\x01false\x02", "\x02WAIT\x01true\x02")
        self._tail = f"CLUSTER\x01{rules.cluster}\x02MSG_REGION\x01{REGION}\x02TRACE_ON\x01true\x02"
        labels = ("topic", "message_type", "is_system")
        self.messages_in = Counter("rocketmq_messages_in_total", "Messages stored.", labels)
        self.throughput_in = Counter(
            "rocketmq_throughput_in_total", "Bytes of records stored.", labels
        )
        self.message_size = Histograms(
            "rocketmq_message_size", "Stored bytes of messages.", MESSAGE_SIZE_BUCKETS, labels
        )
        self.stats: list[Stat] = [self.messages_in, self.throughput_in, self.message_size]

    async def send(self, drafts: list[Draft], *, wait: bool) -> Sent:
        """Store the messages of one request next to each other in one queue.

        wait     answer when what the flush mode promises holds
        Errors   RequestError kinds: nothing is stored; Unavailable kinds: try again
        Source   SendMessageProcessor.sendMessage, sendBatchMessage
        """
        self._check_moment()
        if not drafts:
            raise NoMessages()
        if len(drafts) > MESSAGES_MAX:
            raise TooManyMessages(count=len(drafts), limit=MESSAGES_MAX)
        topic = drafts[0][0]
        config = self._store.topics.find(topic)
        if config is None or config.is_internal:
            config = await self._make_topic(topic)
        if not config.is_writable:
            raise TopicNotWritable(topic=topic, permission=config.permission)
        queue_id = self._choose_queue(config, drafts)
        rows, _ = self._rows(topic, drafts, wait)
        address = PutAddress(topic, queue_id, self._rules.store_host)
        result = await self._store.put_batch(address, rows, wait=wait)
        labels = (topic, "fifo" if drafts[0][6] else "normal", "false")
        self.messages_in.add(labels, len(rows))
        stored_bytes = result.end - result.physical_offsets[0]
        self.throughput_in.add(labels, stored_bytes)
        self.message_size.at(labels).observe_many(stored_bytes / len(rows), len(rows))
        return Sent(
            topic,
            queue_id,
            result.queue_offset,
            result.store_timestamp_ms,
            address.store_host,
            result.status,
            [row[5] for row in rows],
            result.physical_offsets,
        )

    def _check_moment(self) -> None:
        rules = self._rules
        if rules.accept_from_ms and self._clock.wall_ms() < rules.accept_from_ms:
            raise NotAccepting(accept_from_ms=rules.accept_from_ms)
        if not rules.permission & PERMISSION_WRITE:
            raise BrokerReadOnly(why=f"its permission is {rules.permission}")

    async def _make_topic(self, topic: str) -> TopicConfig:
        """Return a topic that was not known, made after the default topic.

        Source   TopicConfigManager.createTopicInSendMessageMethod
        """
        check_topic(topic)
        if is_system_topic(topic) or is_group_topic(topic):
            raise SystemTopic(topic=topic, why="write to")
        if not self._rules.auto_create_topics:
            raise TopicNotFound(topic=topic)
        queue_count = self._rules.default_queue_count
        permission = PERMISSION_READ | PERMISSION_WRITE
        template = self._store.topics.find(DEFAULT_TOPIC)
        if template is not None:
            if not template.permission & PERMISSION_INHERIT:
                raise TopicNotFound(topic=topic)
            queue_count = min(queue_count, template.write_queue_count)
            permission = template.permission & ~PERMISSION_INHERIT
        return await self._store.topics.create(
            topic, queue_count=queue_count, permission=permission
        )

    def _choose_queue(self, config: TopicConfig, drafts: list[Draft]) -> int:
        """Return the queue of a request: the one named, the group's, or a random one."""
        count = config.write_queue_count
        queue_id, group = drafts[0][5], drafts[0][6]
        if len(drafts) > 1:
            if any(draft[5] != queue_id for draft in drafts):
                raise MixedQueues(why="queue ids")
            if any(draft[6] != group for draft in drafts):
                raise MixedQueues(why="message groups")
        if group:
            check_message_group(group)
        if queue_id == -1:
            if group:
                return (java_hash(group) & 0x7FFFFFFF) % count
            return int(self._random.random() * count)
        if not 0 <= queue_id < count:
            raise QueueOutOfRange(topic=config.name, queue_id=queue_id, count=count)
        return queue_id

    def _rows(self, topic: str, drafts: list[Draft], wait: bool) -> tuple[list[PutRow], int]:
        """Return checked messages as the store takes them, and the sum of their bodies."""
        head, tail, now_ms = self._heads[wait], self._tail, self._clock.wall_ms()
        properties_max, make_key = self._properties_max, self._key_maker.make
        size_sum = 0
        rows: list[PutRow] = []
        for draft in drafts:
            other, body, tag, keys, key, _, group, born_ms, born_host, flag, properties = draft
            if other != topic:
                raise MixedTopics(topic=topic, other=other)
            if not body:
                raise BodyEmpty(position=len(rows))
            size_sum += len(body)
            if not key:
                key = make_key(now_ms)
            elif not key.isalnum() or len(key) > PLAIN_ID_LENGTH:
                check_message_id(key)
            joined, middle = _own_properties(tag, keys, group, properties)
            block = f"UNIQ_KEY\x01{key}{head}{middle}{tail}".encode()
            if len(block) > properties_max:
                raise PropertiesTooLarge(size_bytes=len(block), limit_bytes=properties_max)
            rows.append((body, block, flag, born_ms or now_ms, born_host, key, joined, tag))
        limit = self._rules.max_message_size_bytes
        if size_sum > limit:
            raise BodyTooLarge(size_bytes=size_sum, limit_bytes=limit)
        return rows, size_sum


def _own_properties(
    tag: str, keys: Sequence[str], group: str, properties: dict[str, str]
) -> tuple[str, str]:
    """Return (keys joined, property text) of what the user gave.

    Plain printable text passes at once; anything else goes through the full check.
    """
    text = joined = ""
    if keys:
        joined = keys[0] if len(keys) == 1 else KEY_SEPARATOR.join(keys)
        is_plain = joined.isprintable() and joined.count(KEY_SEPARATOR) == len(keys) - 1
        if not is_plain or "" in keys:
            for key in keys:
                check_key(key)
        text = f"KEYS\x01{joined}\x02"
    if tag:
        if not tag.isalnum():
            check_tag(tag)
        text = f"{text}TAGS\x01{tag}\x02"
    if group:
        text = f"{text}__SHARDINGKEY\x01{group}\x02"
    if properties:
        if len(properties) > PROPERTY_COUNT_MAX:
            raise TooManyProperties(count=len(properties), limit=PROPERTY_COUNT_MAX)
        for name, value in properties.items():
            check_property(name, value)
        text += "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return joined, text
