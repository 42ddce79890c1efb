"""Sending: check, choose a queue, add what the broker adds, put.

The order of checks is RocketMQ's: time, broker permission, topic, topic creation, topic permission,
queue, messages, sizes. One bad message refuses the whole request and stores nothing. Requests with
nothing unusual take a quicker way (plain.py).

Stored properties, in this order: UNIQ_KEY, WAIT, KEYS, TAGS, __SHARDINGKEY, the user's own,
CLUSTER, MSG_REGION, TRACE_ON.
Source: SendMessageProcessor, AbstractSendMessageProcessor.msgCheck, MessageExtEncoder.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from broker.format.addresses import UniqueKeyMaker
from broker.format.content import PROPERTIES_SIZE_MAX
from broker.format.java_hash import java_hash
from broker.format.record import PROPERTY_CRC_SIZE
from broker.format.send_request import MESSAGES_MAX
from broker.model.batch import Batch, Destination, PutResult
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
)
from broker.model.message import KEY_SEPARATOR, KEYS, TAGS
from broker.model.names import (
    PROPERTY_COUNT_MAX,
    check_key,
    check_message_group,
    check_message_id,
    check_property,
    check_tag,
    check_topic,
)
from broker.model.stats import Stat
from broker.model.step import Clock
from broker.model.topic import (
    DEFAULT_TOPIC,
    PERMISSION_INHERIT,
    PERMISSION_READ,
    PERMISSION_WRITE,
    TopicConfig,
    is_group_topic,
    is_system_topic,
)
from broker.services.sending.plain import PlainSend
from broker.services.sending.rules import SendRules, SendStats
from broker.store.message_store import MessageStore
from broker.store.settings import FLUSH_SYNC
from broker.store.writing.flush_group import FlushGroup

ABSENT_QUEUE: Final = -1
PEER: Final = b""
PLAIN_ID_LENGTH: Final = 64
"""Letters and digits up to here are an id without a closer look."""


class Drafts(NamedTuple):
    """Messages as a client asks for them, by column; nothing of them is checked yet.

    wait         answer when what the flush mode promises holds
    keys         a list for each message
    message_ids  "" where the broker is to make one
    queue_ids    ABSENT_QUEUE where the broker is to choose; groups: "" for none
    born_ms      0 for now
    born_hosts   packed, PEER for the sender's address
    properties   the user's own
    """

    wait: bool
    topics: list[str]
    bodies: list[bytes]
    tags: list[str]
    keys: list[Sequence[str]]
    message_ids: list[str]
    queue_ids: list[int]
    groups: list[str]
    born_ms: list[int]
    born_hosts: list[bytes]
    flags: list[int]
    properties: list[Mapping[str, str]]


class Sent(NamedTuple):
    """Where the messages of a request lie: next to each other in one queue.

    Message i has message_ids[i], result.physical_offsets[i] and queue offset result.queue_offset +
    i.
    """

    destination: Destination
    message_ids: list[str]
    result: PutResult


class Send:
    """The send pipeline over one store."""

    __slots__ = (
        "_clock", "_heads", "_key_maker", "_properties_max", "_random", "_rules", "_store", "_tail",
        "counts", "plain",
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
        self._tail = rules.block_tail
        self.counts = SendStats()
        self.plain = PlainSend(
            store, rules, clock, self.counts, key_maker=key_maker, random=random,
            block_size_max=self._properties_max,
        )  # fmt: skip

    def take(self, rules: SendRules) -> None:
        """Follow other rules from the next request on; host and cluster stay."""
        assert rules.store_host == self._rules.store_host
        assert rules.cluster == self._rules.cluster
        self._rules = rules
        self.plain.take(rules)

    @property
    def stats(self) -> list[Stat]:
        """What metrics show of it."""
        return self.counts.all

    @property
    def is_durable(self) -> bool:
        """Whether what lies in the log is as durable as the flush mode promises."""
        return self._store.settings.flush != FLUSH_SYNC

    def flush_group(self) -> FlushGroup:
        """Return what is told True once all that was sent so far is durable, False where late.

        Errors   FsyncFailed
        """
        return self._store.writing.flush_group()

    async def send(self, drafts: Drafts, peer_host: bytes) -> Sent:
        """Store the messages of one request next to each other in one queue.

        Errors   RequestError kinds: nothing is stored; Unavailable kinds: try again
        Source   SendMessageProcessor.sendMessage, sendBatchMessage
        """
        self._check_moment()
        count = len(drafts.bodies)
        if not count:
            raise NoMessages()
        if count > MESSAGES_MAX:
            raise TooManyMessages(count=count, limit=MESSAGES_MAX)
        topic = drafts.topics[0]
        config = self._store.tables.topics.find(topic)
        if config is None or not config.is_plain:
            config = await self._make_topic(topic)
        if not config.is_writable:
            config.check_writable()
        destination = Destination(topic, self._choose_queue(config, drafts), self._rules.store_host)
        batch = self._batch(topic, drafts, peer_host)
        (result,) = await self._store.writing.put(((destination, batch),), wait=drafts.wait)
        assert len(result.physical_offsets) == count
        stored_bytes = result.end - result.physical_offsets[0]
        self.counts.count(topic, "fifo" if drafts.groups[0] else "normal", count, stored_bytes)
        return Sent(destination, batch.unique_keys, result)

    def _check_moment(self) -> None:
        rules = self._rules
        if rules.accept_from_ms and self._clock.wall_ms() < rules.accept_from_ms:
            raise NotAccepting(accept_from_ms=rules.accept_from_ms)
        if not rules.permission & PERMISSION_WRITE:
            raise BrokerReadOnly(why=f"its permission is {rules.permission}")

    async def _make_topic(self, topic: str) -> TopicConfig:
        """Return a topic that the table does not hold: kept if it has queues, else made.

        A new one is like the default topic.
        Source   TopicConfigManager.createTopicInSendMessageMethod
        """
        check_topic(topic)
        if is_system_topic(topic) or is_group_topic(topic):
            raise SystemTopic(topic=topic, why="write to")
        if self._store.tables.topics.find(topic) is not None:
            return await self._store.tables.topics.keep(topic)
        if not self._rules.auto_create_topics:
            raise TopicNotFound(topic=topic)
        queue_count = self._rules.default_queue_count
        permission = PERMISSION_READ | PERMISSION_WRITE
        template = self._store.tables.topics.find(DEFAULT_TOPIC)
        if template is not None:
            if not template.permission & PERMISSION_INHERIT:
                raise TopicNotFound(topic=topic)
            queue_count = min(queue_count, template.write_queue_count)
            permission = template.permission & ~PERMISSION_INHERIT
        return await self._store.tables.topics.create(
            topic, queue_count=queue_count, permission=permission
        )

    def _choose_queue(self, config: TopicConfig, drafts: Drafts) -> int:
        """Return the queue of a request: the one named, the group's, or a random one."""
        count = config.write_queue_count
        queue_id, group = drafts.queue_ids[0], drafts.groups[0]
        if drafts.queue_ids.count(queue_id) != len(drafts.queue_ids):
            raise MixedQueues(why="queue ids")
        if drafts.groups.count(group) != len(drafts.groups):
            raise MixedQueues(why="message groups")
        if group:
            check_message_group(group)
        if queue_id == ABSENT_QUEUE:
            if group:
                return (java_hash(group) & 0x7FFFFFFF) % count
            return int(self._random.random() * count)
        if not 0 <= queue_id < count:
            raise QueueOutOfRange(topic=config.name, queue_id=queue_id, count=count)
        return queue_id

    def _batch(self, topic: str, drafts: Drafts, peer_host: bytes) -> Batch:
        """Return checked messages as the store takes them.

        Plain messages pass together; where anything is unusual each is looked at closely.
        """
        now_ms, ids, born_ms = self._clock.wall_ms(), drafts.message_ids, drafts.born_ms
        if "" in ids:
            make_key = self._key_maker.make
            ids = [message_id or make_key(now_ms) for message_id in ids]
        if not any(born_ms):
            born_ms = [now_ms] * len(ids)
        elif 0 in born_ms:
            born_ms = [moment or now_ms for moment in born_ms]
        keys = list(map(KEY_SEPARATOR.join, drafts.keys))
        blocks = self._blocks(ids, keys, drafts)
        if not _are_plain(topic, drafts, keys) or max(map(len, blocks)) > self._properties_max:
            self._check_each(topic, drafts, blocks)
        size_sum, limit = sum(map(len, drafts.bodies)), self._rules.max_message_size_bytes
        if size_sum > limit:
            raise BodyTooLarge(size_bytes=size_sum, limit_bytes=limit)
        return Batch(
            bodies=drafts.bodies,
            property_blocks=blocks,
            unique_keys=ids,
            keys=keys,
            tags=drafts.tags,
            born_ms=born_ms,
            born_hosts=[host or peer_host for host in drafts.born_hosts],
            flags=drafts.flags,
            reconsume_times=[0] * len(ids),
        )

    def _blocks(self, ids: list[str], keys: list[str], drafts: Drafts) -> list[bytes]:
        """Return the property block of each message."""
        head, tail, tags = self._heads[drafts.wait], self._tail, drafts.tags
        group = f"__SHARDINGKEY\x01{drafts.groups[0]}\x02" if drafts.groups[0] else ""
        if "" in keys or "" in tags or group or any(drafts.properties):
            return [
                (
                    f"UNIQ_KEY\x01{message_id}{head}"
                    f"{_text({KEYS: names}) if names else ''}"
                    f"{_text({TAGS: tag}) if tag else ''}"
                    f"{group}{_text(properties)}{tail}"
                ).encode()
                for message_id, names, tag, properties in zip(
                    ids, keys, tags, drafts.properties, strict=True
                )
            ]
        return [
            f"UNIQ_KEY\x01{message_id}{head}KEYS\x01{names}\x02TAGS\x01{tag}\x02{tail}".encode()
            for message_id, names, tag in zip(ids, keys, tags, strict=True)
        ]

    def _check_each(self, topic: str, drafts: Drafts, blocks: list[bytes]) -> None:
        """Raise what is wrong with the first message of which anything is."""
        for number, block in enumerate(blocks):
            if drafts.topics[number] != topic:
                raise MixedTopics(topic=topic, other=drafts.topics[number])
            if not drafts.bodies[number]:
                raise BodyEmpty(position=number)
            if drafts.message_ids[number]:
                check_message_id(drafts.message_ids[number])
            for key in drafts.keys[number]:
                check_key(key)
            if drafts.tags[number]:
                check_tag(drafts.tags[number])
            properties = drafts.properties[number]
            if len(properties) > PROPERTY_COUNT_MAX:
                raise TooManyProperties(count=len(properties), limit=PROPERTY_COUNT_MAX)
            for name, value in properties.items():
                check_property(name, value)
            if len(block) > self._properties_max:
                raise PropertiesTooLarge(size_bytes=len(block), limit_bytes=self._properties_max)


def _are_plain(topic: str, drafts: Drafts, keys: list[str]) -> bool:
    """Return whether nothing in these messages needs a closer look: letters and digits mostly."""
    ids, tags, text = "".join(drafts.message_ids), "".join(drafts.tags), "".join(keys)
    if not (ids.isalnum() or not ids) or not (tags.isalnum() or not tags):
        return False
    if len(ids) > PLAIN_ID_LENGTH and max(map(len, drafts.message_ids)) > PLAIN_ID_LENGTH:
        return False
    if drafts.topics.count(topic) != len(keys) or any(drafts.properties):
        return False
    key_count = sum(map(len, drafts.keys))
    has_separator = KEY_SEPARATOR in text
    if has_separator or "" in keys or key_count != len(keys):
        with_keys = sum(map(bool, drafts.keys))
        if text.count(KEY_SEPARATOR) != key_count - with_keys or not all(map(all, drafts.keys)):
            return False
    return all(drafts.bodies) and text.isprintable()


def _text(properties: Mapping[str, str]) -> str:
    """Return a user's own properties as they stand in a block."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
