"""Sending: checks the request, chooses a queue, adds system properties, puts the messages.

The order of checks is RocketMQ's. If one message is invalid, the whole request is refused and
nothing is stored. Plain requests take a fast path (fast_send.py).

Stored properties, in this order: UNIQ_KEY, WAIT, KEYS, TAGS, __SHARDINGKEY, user properties,
properties of delayed delivery (delayed.py), CLUSTER, MSG_REGION, TRACE_ON.
Source: SendMessageProcessor, AbstractSendMessageProcessor.msgCheck, MessageExtEncoder.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.format.java_hash import java_hash
from pocketmq.format.properties import PAIR_SEPARATOR, PROPERTIES_SIZE_MAX
from pocketmq.format.recall_handle import RecallHandle, decode_recall_handle, recall_marker
from pocketmq.format.record import PROPERTY_CRC_SIZE
from pocketmq.format.send_request import MESSAGES_MAX
from pocketmq.format.transaction_id import HalfPlace, transaction_id
from pocketmq.model.batch import Batch, Destination, PutResult, PutStatus, Run
from pocketmq.model.errors import (
    BodyEmpty,
    BodyTooLarge,
    IllegalRecallHandle,
    MixedQueues,
    MixedTopics,
    NoMessages,
    NotWaiting,
    PropertiesTooLarge,
    QueueOutOfRange,
    SystemTopic,
    TooManyMessages,
    TooManyProperties,
    TopicNotFound,
    TransactionsRefused,
)
from pocketmq.model.message import KEY_SEPARATOR, KEYS, TAGS, TIMER_OUT
from pocketmq.model.message_kind import MessageKind
from pocketmq.model.names import (
    PROPERTY_COUNT_MAX,
    check_key,
    check_message_group,
    check_message_id,
    check_property,
    check_tag,
    check_topic,
)
from pocketmq.model.stats import Stat
from pocketmq.model.step import Clock, Now
from pocketmq.model.system_topics import TIMER_TOPIC, ParkedMessage, QueuePlace
from pocketmq.model.topic import (
    DEFAULT_TOPIC,
    DEFAULT_TYPE,
    HALF_TOPIC,
    PERMISSION_INHERIT,
    PERMISSION_READ,
    PERMISSION_WRITE,
    SCHEDULE_TOPIC,
    TRACE_TOPIC,
    TYPE_ATTRIBUTE,
    TopicConfig,
    is_brokers_topic,
    is_group_topic,
    is_system_topic,
)
from pocketmq.services.produce.dedup import MESSAGES_KEPT_MAX, SendDedup
from pocketmq.services.produce.delayed import DelayLimits, disguise, parted, recall_handle
from pocketmq.services.produce.drafts import (
    ABSENT_QUEUE,
    PLAIN_ENVELOPE,
    Drafts,
    Envelope,
    kind_of,
)
from pocketmq.services.produce.encoded import (
    AT_ONCE_KINDS,
    check_encoded,
    completed_blocks,
)
from pocketmq.services.produce.fast_send import PlainSend
from pocketmq.services.produce.rules import SendRules, SendStats
from pocketmq.store.message_store import MessageStore
from pocketmq.store.write.flush_group import FlushGroup


# -- recall ------------------------------------------------------------------------------------
class Recall:
    """Recalls delayed messages by putting recall markers."""

    __slots__ = ("_clock", "_places", "_rules", "_store")

    def __init__(self, store: MessageStore, rules: SendRules, clock: Clock) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock
        self._places: dict[tuple[str, str], int] = {}
        """(topic, unique key) -> physical offset of the newest marker; only with deduplication."""

    def take(self, rules: SendRules) -> None:
        """Replaces the rules for later requests."""
        assert rules.store_host == self._rules.store_host
        self._rules = rules

    async def recall(
        self, topic: str, text: str, peer_host: bytes, *, of_any_type: bool = False
    ) -> str:
        """Recalls a delayed message durably; returns its unique key. Recalls may be repeated.

        text         recall handle from the answer to the send
        of_any_type  whether the topic may have a type without delayed messages
        Errors   TopicNotFound, KindConflict, IllegalRecallHandle, NotWaiting, NotAccepting,
                 BrokerReadOnly; errors of a put
        """
        now_ms = self._clock.wall_ms()
        self._rules.check_moment(now_ms)
        config = self._store.tables.topics.find(topic)
        if config is None or is_system_topic(topic) or is_group_topic(topic):
            raise TopicNotFound(topic=topic)
        if self._rules.check_kinds and not of_any_type:
            config.check_kind(MessageKind.DELAY)
        handle = self._read(topic, text)
        if handle.at_ms <= now_ms:
            raise NotWaiting(topic=topic, message_id=handle.unique_key)
        if handle.at_ms - now_ms > self._rules.delay_max_ms:
            raise IllegalRecallHandle(why="its delivery time is beyond the longest delay")
        run = recall_marker(handle, now_ms, peer_host, self._rules.store_host)
        (result,) = await self._store.writing.put([run])
        if self._rules.dedupe_window_ms:
            key = topic, handle.unique_key
            self._places.pop(key, None)
            self._places[key] = result.physical_offsets[0]
            if len(self._places) > MESSAGES_KEPT_MAX:
                del self._places[next(iter(self._places))]
        is_durable = result.status is PutStatus.OK
        while not is_durable:  # Clients that time out repeat the recall.
            is_durable = await self._store.writing.durable()
        return handle.unique_key

    def has_recalled(self, sent: "Sent") -> bool:
        """Returns whether all messages of a send were recalled, as far as is remembered."""
        topic = sent.destination.topic
        stored = zip(sent.message_ids, sent.result.physical_offsets, strict=True)
        return all(place < self._places.get((topic, name), -1) for name, place in stored)

    def _read(self, topic: str, text: str) -> RecallHandle:
        try:
            handle = decode_recall_handle(text)
        except ValueError as error:
            raise IllegalRecallHandle(why=str(error)) from error
        if handle.topic != topic:
            raise IllegalRecallHandle(why="it belongs to another topic")
        if handle.broker != self._store.settings.broker:
            raise IllegalRecallHandle(why="it belongs to another broker")
        return handle


# -- checks of messages ------------------------------------------------------------------------
PLAIN_ID_LENGTH: Final = 63
"""A message id of letters and digits is valid up to this length: a letter has at most 4 bytes."""


def are_plain(topic: str, drafts: Drafts, keys: list[str]) -> bool:
    """Returns True only if all messages are valid; False: `check_each` decides.

    keys   for each message: its keys, joined
    """
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


def check_each(topic: str, drafts: Drafts, blocks: list[bytes], size_max: int) -> None:
    """Checks each message.

    blocks     property blocks of the messages
    size_max   upper limit of bytes of a property block
    Errors     MixedTopics, BodyEmpty, IllegalMessageId, IllegalKey, IllegalTag, TooManyProperties,
               IllegalProperty, PropertiesTooLarge
    """
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
        if len(block) > size_max:
            raise PropertiesTooLarge(size_bytes=len(block), limit_bytes=size_max)


# -- the send pipeline -------------------------------------------------------------------------
BROKERS_OWN: Final = frozenset({HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC})


class Sent(NamedTuple):
    """Result of a send.

    destination    the target queue; delayed and half messages are stored in another queue
    queue_offsets  the queue offset of each message; empty: consecutive from result.queue_offset on
    handles        recall handles of delayed messages, "" for a message that cannot be recalled
    transactions   transaction ids of half messages
    """

    destination: Destination
    message_ids: list[str]
    result: PutResult
    queue_offsets: Sequence[int] = ()
    handles: Sequence[str] = ()
    transactions: Sequence[str] = ()


class Send:
    """The send pipeline over one store."""

    __slots__ = (
        "_clock", "_heads", "_key_maker", "_level_count", "_properties_max", "_random", "_rules",
        "_store", "_tail", "counts", "plain", "recall", "repeats",
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
        self._level_count = len(store.settings.levels.delays_ms)
        self.counts = SendStats()
        self.recall = Recall(store, rules, clock)
        self.repeats: SendDedup[Sent] = SendDedup(clock)
        self.plain = PlainSend(
            store, rules, clock, self.counts, key_maker=key_maker, random=random,
            block_size_max=self._properties_max,
        )  # fmt: skip

    def take(self, rules: SendRules) -> None:
        """Replaces the rules for later requests; host and cluster must not change."""
        assert rules.store_host == self._rules.store_host
        assert rules.cluster == self._rules.cluster
        self._rules = rules
        self.plain.take(rules)
        self.recall.take(rules)

    @property
    def stats(self) -> list[Stat]:
        """Metrics of sending."""
        return [*self.counts.all, self.repeats.answered]

    @property
    def is_durable(self) -> bool:
        """Whether sends are answered without a wait for a flush or for followers."""
        return not self._store.settings.waits

    @property
    def late_status(self) -> PutStatus:
        """The status of messages whose acknowledgement did not come in time."""
        return self._store.writing.late_status

    def flush_group(self) -> FlushGroup:
        """Returns the flush group of all messages sent so far; its future is False on a timeout.

        Errors   StoreFailed, such as FsyncFailed
        """
        return self._store.writing.flush_group()

    async def send(
        self, drafts: Drafts, peer_host: bytes, envelope: Envelope = PLAIN_ENVELOPE
    ) -> Sent:
        """Stores the messages of one request contiguously in the log, all for one target queue.

        Repeats within the deduplication window return the first result.

        Errors   subclasses of RequestError: nothing is stored; subclasses of Unavailable: the
                 request may be retried; StoreFailed: the messages may be stored or not
        Source   SendMessageProcessor.sendMessage, sendBatchMessage
        """
        window_ms = self._rules.dedupe_window_ms
        if not window_ms or not drafts.message_ids or "" in drafts.message_ids:
            return await self._send(drafts, peer_host, envelope)
        key = drafts.topics[0], tuple(drafts.message_ids), tuple(drafts.deliveries)
        sent, is_repeated = await self.repeats.once(
            key, window_ms, lambda: self._send(drafts, peer_host, envelope), self._is_gone
        )
        # The first request may not have waited for the flush.
        if is_repeated and drafts.wait and not self.is_durable:
            status = await self._store.writing.acknowledged()
            sent = sent._replace(result=sent.result._replace(status=status))
        return sent

    def _is_gone(self, sent: Sent) -> bool:
        """Returns whether messages were purged or recalled, or their topic was removed."""
        tables, key = self._store.tables, (sent.destination.topic, sent.destination.queue_id)
        below = max(tables.floors.all().get(key, 0), tables.removed.next_offsets.get(key, 0))
        if sent.queue_offsets:  # They are of another topic.
            return self.recall.has_recalled(sent)
        return sent.result.queue_offset < below

    async def _send(self, drafts: Drafts, peer_host: bytes, envelope: Envelope) -> Sent:
        self._rules.check_moment(self._clock.wall_ms())
        count = len(drafts.bodies)
        if not count:
            raise NoMessages()
        if count > MESSAGES_MAX:
            raise TooManyMessages(count=count, limit=MESSAGES_MAX)
        topic = drafts.topics[0]
        config = self._store.tables.topics.find(topic)
        is_again = envelope.returned_times is not None
        is_made = config is not None and (config.is_plain or is_again)
        if config is None or not is_made:
            config = self._planned(topic, envelope.queue_count)
        if not config.is_writable:
            config.check_writable()
        kind = kind_of(drafts)
        if self._rules.check_kinds and not (is_again or envelope.blocks):
            config.check_kind(kind)
        if self._rules.refuses_transactions and kind is MessageKind.TRANSACTION:
            raise TransactionsRefused()
        queue_id, store_host = self._choose_queue(config, drafts), self._rules.store_host
        destination = Destination(topic, queue_id, store_host, envelope.system_flag)
        if kind in AT_ONCE_KINDS:
            batch = self._batch(topic, drafts, peer_host, envelope)
            if not is_made:
                await self._make_topic(topic, ((destination, batch),), envelope.queue_count)
            (result,) = await self._store.writing.put(((destination, batch),), wait=drafts.wait)
            sent = Sent(destination, batch.unique_keys, result)
        else:
            sent = await self._send_waiting(destination, drafts, peer_host, envelope)
        result = sent.result
        assert len(result.physical_offsets) == count
        self.counts.count(topic, kind.label, count, result.end - min(result.physical_offsets))
        return sent

    async def _send_waiting(
        self, destination: Destination, drafts: Drafts, peer_host: bytes, envelope: Envelope
    ) -> Sent:
        """Stores messages with a delay, a transaction or a priority.

        Errors   IllegalDeliveryTime, errors of `send`
        """
        place = QueuePlace(destination.topic, destination.queue_id)
        drafts = drafts._replace(message_ids=self._named(drafts.message_ids, self._clock.wall_ms()))
        while True:
            disguises, batch = self._disguised(place, drafts, peer_host, envelope)
            parting = parted([one.place for one in disguises], batch, destination)
            # The clock may have been set during a wait: it is read again.
            if not await self._made_room(place.topic, parting.runs, envelope.queue_count):
                break
        results = await self._store.writing.put(parting.runs, wait=drafts.wait)
        self._observe(disguises, batch.born_ms)
        result, queue_offsets = parting.joined(results)
        if drafts.deliveries[0].transactional:
            rows = zip(queue_offsets, result.physical_offsets, batch.unique_keys, strict=True)
            ids = [transaction_id(HalfPlace(*row)) for row in rows]
            return Sent(destination, batch.unique_keys, result, queue_offsets, transactions=ids)
        handles = [
            recall_handle(one, place, self._store.settings.broker, message_id)
            for one, message_id in zip(disguises, batch.unique_keys, strict=True)
        ]
        if all(one.place == place for one in disguises):
            queue_offsets = []  # Nothing waits: the messages are next to each other.
        return Sent(destination, batch.unique_keys, result, queue_offsets, handles)

    def _disguised(
        self, place: QueuePlace, drafts: Drafts, peer_host: bytes, envelope: Envelope
    ) -> tuple[list[ParkedMessage], Batch]:
        now_ms = self._clock.wall_ms()
        self._store.look_at_clocks(Now(self._clock.monotonic_ms(), now_ms))
        waiting = DelayLimits(self._level_count, self._rules.delay_max_ms)
        rows = zip(drafts.deliveries, drafts.message_ids, strict=True)
        disguises = [disguise(place, one, name, now_ms, waiting) for one, name in rows]
        added = [_text(one.changed) for one in disguises]
        return disguises, self._batch(place.topic, drafts, peer_host, envelope, added)

    async def _made_room(self, topic: str, runs: Sequence[Run], wanted: int) -> bool:
        """Creates missing topics, and waits until the log has room; returns whether it waited."""
        config, has_waited = self._store.tables.topics.find(topic), False
        if config is None or not config.is_kept:
            await self._make_topic(topic, runs, wanted)
            has_waited = True
        for name in {destination.topic for destination, _ in runs} & BROKERS_OWN:
            # Recovery finds delayed messages only if their topic is in the topic table.
            found = self._store.tables.topics.find(name)
            if found is None or not found.is_kept:
                queue_count = self._level_count if name == SCHEDULE_TOPIC else 1
                await self._store.tables.topics.ensure(name, queue_count)
                has_waited = True
        return await self._store.writing.room(runs) or has_waited

    def _observe(self, disguises: Sequence[ParkedMessage], born_ms: Sequence[int]) -> None:
        """Adds the delays of timed messages to the metrics: whole seconds from born time to slot.

        Source   TimerMessageStore.enqueue
        """
        for one, born in zip(disguises, born_ms, strict=True):
            if TIMER_OUT in one.changed:
                self.counts.ahead.observe(max(int(one.changed[TIMER_OUT]) - born, 0) // 1_000)

    def _named(self, message_ids: list[str], now_ms: int) -> list[str]:
        if "" not in message_ids:
            return message_ids
        make_key = self._key_maker.make
        return [message_id or make_key(now_ms) for message_id in message_ids]

    async def topic(self, name: str) -> TopicConfig:
        """Returns a topic by its name; creates a missing topic if automatic creation is on.

        Errors   IllegalTopic, SystemTopic, TopicNotFound, LimitReached, DiskFull, NotReplicated,
                 StoreFailed
        """
        config = self.planned_topic(name)
        found = self._store.tables.topics.find(name)
        return found or await self._create(config)

    def planned_topic(self, name: str) -> TopicConfig:
        """Returns a topic by its name; if it is missing, the topic that `topic` would create.

        Errors   IllegalTopic, SystemTopic, TopicNotFound
        """
        config = self._store.tables.topics.find(name)
        if config is None and is_group_topic(name):
            raise TopicNotFound(topic=name)
        return config or self._planned(name)

    async def _make_topic(self, topic: str, runs: Sequence[Run], wanted: int) -> None:
        """Adds a topic to the topic table, unless the store refuses the runs.

        Source   TopicConfigManager.createTopicInSendMessageMethod
        """
        await self._store.writing.room(runs)
        if self._store.tables.topics.find(topic) is not None:
            await self._store.tables.topics.keep(topic)
        else:
            await self._create(self._planned(topic, wanted))

    async def _create(self, config: TopicConfig) -> TopicConfig:
        return await self._store.tables.topics.create(
            config.name,
            queue_count=config.write_queue_count,
            permission=config.permission,
            attributes=config.attributes,
        )

    def _planned(self, topic: str, wanted: int = 0) -> TopicConfig:
        """Returns an existing topic, or the topic that a send would create.

        If the topic TBW102 exists, a new topic has its permissions and at most its queues. The
        trace topic has one queue.

        wanted   upper limit of a new topic's queues; 0: no limit but the default
        Errors   IllegalTopic, SystemTopic, TopicNotFound
        """
        check_topic(topic)
        if is_brokers_topic(topic) or is_group_topic(topic):
            raise SystemTopic(topic=topic, why="write to")
        config = self._store.tables.topics.find(topic)
        if config is not None:
            return config
        if topic == TRACE_TOPIC:
            return TopicConfig(topic, 1, 1)
        if not self._rules.auto_create_topics:
            raise TopicNotFound(topic=topic)
        queue_count, type_name = self._rules.default_queue_count, self._rules.default_type
        permission = PERMISSION_READ | PERMISSION_WRITE
        template = self._store.tables.topics.find(DEFAULT_TOPIC)
        if template is not None:
            if not template.permission & PERMISSION_INHERIT:
                raise TopicNotFound(topic=topic)
            queue_count = min(queue_count, template.write_queue_count)
            permission = template.permission & ~PERMISSION_INHERIT
        if wanted > 0:
            queue_count = min(queue_count, wanted)
        attributes = {} if type_name == DEFAULT_TYPE else {TYPE_ATTRIBUTE: type_name}
        return TopicConfig(topic, queue_count, queue_count, permission, attributes=attributes)

    def _choose_queue(self, config: TopicConfig, drafts: Drafts) -> int:
        count = config.write_queue_count
        queue_id, group = drafts.queue_ids[0], drafts.groups[0]
        if drafts.queue_ids.count(queue_id) != len(drafts.queue_ids):
            raise MixedQueues(why="queue ids")
        if drafts.groups.count(group) != len(drafts.groups):
            raise MixedQueues(why="message groups")
        if group:
            check_message_group(group)
        priority = drafts.deliveries[0].priority
        if priority is not None:
            if any(one.priority != priority for one in drafts.deliveries):
                raise MixedQueues(why="priorities")
            return min(priority, count - 1)
        if queue_id == ABSENT_QUEUE:
            if group:
                return (java_hash(group) & 0x7FFFFFFF) % count
            return int(self._random.random() * count)
        if not 0 <= queue_id < count:
            raise QueueOutOfRange(topic=config.name, queue_id=queue_id, count=count)
        return queue_id

    def _batch(
        self, topic: str, drafts: Drafts, peer_host: bytes, envelope: Envelope,
        added: Sequence[str] = (),
    ) -> Batch:  # fmt: skip
        """Checks messages, and returns them as a batch for the store.

        added   for each message: encoded properties to add; empty: no message has any
        """
        now_ms, born_ms = self._clock.wall_ms(), drafts.born_ms
        ids = self._named(drafts.message_ids, now_ms)
        if not any(born_ms):
            born_ms = [now_ms] * len(ids)
        elif 0 in born_ms:
            born_ms = [moment or now_ms for moment in born_ms]
        keys = list(map(KEY_SEPARATOR.join, drafts.keys))
        if envelope.blocks:
            blocks = completed_blocks(ids, envelope.blocks, added, self._tail)
            check_encoded(drafts.bodies, blocks, self._properties_max)
        else:
            blocks = self._blocks(ids, keys, drafts, envelope.notes, added)
        is_short = max(map(len, blocks)) <= self._properties_max
        if not envelope.blocks and not (is_short and are_plain(topic, drafts, keys)):
            check_each(topic, drafts, blocks, self._properties_max)
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
            reconsume_times=[envelope.returned_times or 0] * len(ids),
        )

    def _blocks(
        self, ids: list[str], keys: list[str], drafts: Drafts, notes: Sequence[str],
        added: Sequence[str],
    ) -> list[bytes]:  # fmt: skip
        head, tail, tags = self._heads[drafts.wait], self._tail, drafts.tags
        if notes:
            head = PAIR_SEPARATOR
            waits = added or [""] * len(ids)
            added = [note + waiting for note, waiting in zip(notes, waits, strict=True)]
        group = f"__SHARDINGKEY\x01{drafts.groups[0]}\x02" if drafts.groups[0] else ""
        if "" in keys or "" in tags or group or added or any(drafts.properties):
            return [
                (
                    f"UNIQ_KEY\x01{message_id}{head}"
                    f"{_text({KEYS: names}) if names else ''}"
                    f"{_text({TAGS: tag}) if tag else ''}"
                    f"{group}{_text(properties)}{waits}{tail}"
                ).encode()
                for message_id, names, tag, properties, waits in zip(
                    ids, keys, tags, drafts.properties, added or [""] * len(ids), strict=True
                )
            ]
        return [
            f"UNIQ_KEY\x01{message_id}{head}KEYS\x01{names}\x02TAGS\x01{tag}\x02{tail}".encode()
            for message_id, names, tag in zip(ids, keys, tags, strict=True)
        ]


def _text(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
