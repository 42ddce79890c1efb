"""Fast path of sends, for plain requests: those that `SendRequest` (format/send_request.py) scans.

The fast path has the effects of `Send.send`, in the same order; tests compare records, views and
replies. It declines each unusual request without an effect; `Send.send` then stores or refuses the
request.
"""

from random import Random
from typing import Final, final

from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.format.index_layout import STYLE_5_5
from pocketmq.format.send_records import SendRecords
from pocketmq.format.send_request import SendRequest
from pocketmq.format.topic_frame import TopicFrame
from pocketmq.model.message import FLAG_COMPRESSED, QueueKey
from pocketmq.model.message_kind import MessageKind
from pocketmq.model.names import is_group
from pocketmq.model.step import Clock
from pocketmq.model.topic import DEFAULT_TYPE, HALF_TOPIC, PERMISSION_WRITE, TopicConfig
from pocketmq.services.produce.rules import SendCounts, SendRules, SendStats
from pocketmq.store.message_store import MessageStore

FRAMES_MAX: Final = 4_096
"""Upper limit of topics in each of the four caches; a full cache is cleared."""


@final
class _Topic:
    __slots__ = ("config", "frame", "queue_count", "tally")

    def __init__(self, config: TopicConfig, frame: TopicFrame, tally: SendCounts) -> None:
        assert config.name == tally.topic
        self.config = config
        self.queue_count = config.write_queue_count
        self.frame = frame
        self.tally = tally


@final
class PlainSend:
    """The fast path of the send pipeline."""

    __slots__ = (
        "_block_size_max", "_body_size_max", "_classic", "_clock", "_dedupes", "_halves",
        "_is_open", "_is_tagged", "_key_maker", "_known", "_others", "_random", "_rules", "_stats",
        "_topics", "_writer",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        rules: SendRules,
        clock: Clock,
        stats: SendStats,
        *,
        key_maker: UniqueKeyMaker,
        random: Random,
        block_size_max: int,
    ) -> None:
        self._writer = store.writing.writer
        self._topics = store.tables.topics
        self._clock = clock
        self._stats = stats
        self._key_maker = key_maker
        self._random = random
        self._block_size_max = block_size_max
        self._is_tagged = store.settings.index_style == STYLE_5_5
        self._known: dict[bytes, _Topic] = {}
        """Topics of usual messages; the keys of the four caches are returned by `_named`."""
        self._classic: dict[bytes, _Topic] = {}
        """Topics of usual messages of classic clients, for which types are not checked."""
        self._halves: dict[bytes, _Topic] = {}
        """Topics of half messages."""
        self._others: dict[bytes, _Topic] = {}
        """Topics of messages that are compressed or have a message group."""
        self.take(rules)

    def take(self, rules: SendRules) -> None:
        """Replaces the rules, from the next request on."""
        self._rules = rules
        self._known.clear()
        self._classic.clear()
        self._halves.clear()
        self._others.clear()
        self._body_size_max = rules.max_message_size_bytes
        self._dedupes = rules.dedupe_window_ms > 0
        self._is_open = bool(rules.permission & PERMISSION_WRITE) and not rules.accept_from_ms

    def send(self, records: SendRecords, peer_host: bytes) -> bool:
        """Stores the messages of a plain request contiguously in one queue; False: it declines.

        Shape    records of a scanned request
        Errors   StoreBusy: nothing was stored
        Source   SendMessageProcessor.sendMessage, sendBatchMessage
        """
        request = records.request
        name, known = self._named(request)
        topic = known.get(name)
        if topic is None or self._topics.find(topic.config.name) is not topic.config:
            topic = self._topic(name, known, request)
        if topic is None or not self._is_open:
            return False
        if request.is_half and not self._takes_halves():
            return False
        if self._dedupes and request.unnamed_count < request.count:
            return False
        queue_count = topic.queue_count
        queue_id: int = request.queue_id
        if queue_id >= queue_count or request.bodies_size > self._body_size_max:
            return False
        now_ms = self._clock.wall_ms()
        if not records.fit(topic.frame, peer_host, now_ms, self._block_size_max):
            return False
        if not self._writer.takes_plain(records.size_sum):
            return False
        if queue_id < 0:
            queue_id = self._queue(request, queue_count)
        records.aim(queue_id)
        if request.unnamed_count:
            stamp, number = self._key_maker.make_several(now_ms, request.unnamed_count)
            records.name(stamp, number)
        self._writer.append(records, now_ms)
        topic.tally.add(request.count, records.size_sum)
        return True

    def _named(self, request: SendRequest) -> tuple[bytes, dict[bytes, _Topic]]:
        """Returns the cache that a request uses, and the request's key in that cache."""
        if request.is_half:
            return b"%b\x02%b" % (request.topic, request.group), self._halves
        if request.order or request.is_compressed:
            which = 2 * bool(request.order) + request.is_compressed + 4 * request.has_blocks
            return b"%b\x02%d" % (request.topic, which), self._others
        return request.topic, self._classic if request.has_blocks else self._known

    def _queue(self, request: SendRequest, queue_count: int) -> int:
        if request.order:
            hashed: int = request.order_hash
            return (hashed & 0x7FFFFFFF) % queue_count
        return int(self._random.random() * queue_count)

    def _takes_halves(self) -> bool:
        config = self._topics.find(HALF_TOPIC)
        return not self._rules.refuses_transactions and config is not None and config.is_kept

    def _topic(
        self, name: bytes, known: dict[bytes, _Topic], request: SendRequest
    ) -> _Topic | None:
        """Adds a topic to a cache, and returns it; None if this path cannot send to the topic."""
        config = self._topics.find(request.topic.decode("ascii", "replace"))
        if config is None or not config.is_plain or not config.is_writable:
            return None
        if not config.write_queue_count:
            return None
        kind = MessageKind.TRANSACTION if request.is_half else MessageKind.NORMAL
        if request.order:
            kind = MessageKind.FIFO
            if config.type_name == DEFAULT_TYPE:
                return None  # v2 refuses FIFO messages for a topic without a type.
        if self._rules.check_kinds and not request.has_blocks and kind not in config.kinds:
            return None
        topic, queue_count = config.name, config.write_queue_count
        real: QueueKey | None = None
        group = ""
        if request.is_half:
            group = request.group.decode("ascii", "replace") or topic
            if len(request.group) and not is_group(group):
                return None
            real = (topic, queue_count)
            topic, queue_count = HALF_TOPIC, 1
        frame = TopicFrame(
            topic,
            queue_count,
            store_host=self._rules.store_host,
            tail=self._rules.block_tail.encode(),
            is_tagged=self._is_tagged,
            real=real,
            group=group,
            system_flag=FLAG_COMPRESSED if request.is_compressed else 0,
        )
        assert len(frame.destinations) == queue_count
        if len(known) >= FRAMES_MAX:
            known.clear()
        tally = self._stats.tally(config.name, kind.label)
        found = known[name] = _Topic(config, frame, tally)
        return found
