"""Plain requests: stored at once, by one loop over their bytes.

    request (places) ─► rules, topic, queue ─► records ─► the log
                             └ anything unusual: None, and nothing has changed

What `Send.send` does for every request this does for those that nearly all clients send, in the
same order and with the same effects; tests compare records, views and replies. It never refuses:
what it does not take `send` takes, or tells why not.
"""

import asyncio
from random import Random
from typing import Final

from broker.format.addresses import UniqueKeyMaker
from broker.format.index_layout import STYLE_5_5
from broker.format.send_records import SendRecords, TopicFrame
from broker.model.step import Clock
from broker.model.topic import PERMISSION_WRITE, TopicConfig
from broker.services.sending.rules import SendRules, SendStats
from broker.store.message_store import MessageStore

FRAMES_MAX: Final = 4_096
"""Topics whose frames are kept; beyond that all are made again."""


class PlainSend:
    """The quick way through the send pipeline of one store."""

    __slots__ = (
        "_block_size_max", "_clock", "_frames", "_is_open", "_is_tagged", "_key_maker", "_random",
        "_rules", "_stats", "_store",
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
        self._store = store
        self._clock = clock
        self._stats = stats
        self._key_maker = key_maker
        self._random = random
        self._block_size_max = block_size_max
        self._is_tagged = store.settings.index_style == STYLE_5_5
        self._frames: dict[bytes, tuple[TopicConfig, TopicFrame]] = {}
        self.take(rules)

    def take(self, rules: SendRules) -> None:
        """Follow other rules from the next request on."""
        self._rules = rules
        self._is_open = bool(rules.permission & PERMISSION_WRITE) and not rules.accept_from_ms

    def send(self, records: SendRecords, peer_host: bytes) -> bool | asyncio.Future[bool]:
        """Store the messages of a plain request next to each other in one queue.

        Shape    records whose request was read
        Returns  True: stored, and as durable as it asks for; a future: stored, True once it is,
                 False when that takes too long; False: nothing has changed, and `Send.send` serves
                 it or tells why not
        Errors   StoreBusy: nothing was stored; FsyncFailed: whether it survives is unknown
        Source   SendMessageProcessor.sendMessage, sendBatchMessage
        """
        request, rules, store = records.request, self._rules, self._store
        frame = self._frame(request.topic)
        if frame is None or not self._is_open:
            return False
        queue_id, queue_count = request.queue_id, len(frame.destinations)
        if queue_id >= queue_count or request.bodies_size > rules.max_message_size_bytes:
            return False
        now_ms = self._clock.wall_ms()
        if not records.fit(frame, peer_host, now_ms, self._block_size_max):
            return False
        if not store.writing.takes_plain(records):
            return False
        if queue_id < 0:
            queue_id = int(self._random.random() * queue_count)
        if request.unnamed_count:
            records.name(*self._key_maker.make_several(now_ms, request.unnamed_count))
        store.writing.put_plain(records, frame.destinations[queue_id])
        self._stats.count(frame.topic, "normal", len(records.sizes), records.size_sum)
        if not request.waits:
            return True
        durable = store.writing.durable()
        return True if durable is None else durable

    def _frame(self, name: bytes) -> TopicFrame | None:
        """Return what all messages of a topic share, None where clients may not send to it."""
        config, frame = self._frames.get(name, (None, None))
        if frame is not None and self._store.tables.topics.find(frame.topic) is config:
            return frame
        found = self._store.tables.topics.find(name.decode("ascii", "replace"))
        if found is None or not found.is_plain or not found.is_writable:
            return None
        if not found.write_queue_count:
            return None
        frame = TopicFrame(
            found.name,
            found.write_queue_count,
            store_host=self._rules.store_host,
            tail=self._rules.block_tail.encode(),
            is_tagged=self._is_tagged,
        )
        if len(self._frames) >= FRAMES_MAX:
            self._frames.clear()
        self._frames[name] = found, frame
        assert frame.topic.encode() == name
        return frame
