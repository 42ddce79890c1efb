"""Recalls timed messages: a marker follows each into its slot of the timer.

    handle ─► topic, time, unique key ─► a record in rmq_sys_wheel_timer with TIMER_DEL_UNIQKEY

The marker is durable when the call returns. It cancels the message in any broker of this store:
this one, this one after a start, or a real one.
Source: RecallMessageProcessor.
"""

from pocketmq.format.recall_handle import RecallHandle, decode_recall_handle, recall_marker
from pocketmq.model.batch import PutStatus
from pocketmq.model.errors import IllegalRecallHandle, NotWaiting, TopicNotFound
from pocketmq.model.message_kind import MessageKind
from pocketmq.model.step import Clock
from pocketmq.model.topic import is_group_topic, is_system_topic
from pocketmq.services.produce.rules import SendRules
from pocketmq.store.message_store import MessageStore


class Recall:
    """Recalls delayed messages by putting markers."""

    __slots__ = ("_clock", "_rules", "_store")

    def __init__(self, store: MessageStore, rules: SendRules, clock: Clock) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock

    def take(self, rules: SendRules) -> None:
        """Follows other rules from the next request on."""
        assert rules.store_host == self._rules.store_host
        self._rules = rules

    async def recall(self, topic: str, text: str, peer_host: bytes) -> str:
        """Takes a waiting message back; returns its unique key. A repeated recall changes nothing.

        text     recall handle from the answer to the send
        Errors   TopicNotFound, KindConflict, IllegalRecallHandle, NotWaiting, NotAccepting,
                 BrokerReadOnly; those of a put
        """
        now_ms = self._clock.wall_ms()
        self._rules.check_moment(now_ms)
        config = self._store.tables.topics.find(topic)
        if config is None or is_system_topic(topic) or is_group_topic(topic):
            raise TopicNotFound(topic=topic)
        if self._rules.check_kinds:
            config.check_kind(MessageKind.DELAY)
        handle = self._read(topic, text)
        if handle.at_ms <= now_ms:
            raise NotWaiting(topic=topic, message_id=handle.unique_key)
        if handle.at_ms - now_ms > self._rules.delay_max_ms:
            raise IllegalRecallHandle(why="its time is further ahead than messages may wait")
        run = recall_marker(handle, now_ms, peer_host, self._rules.store_host)
        (result,) = await self._store.writing.put([run])
        is_durable = result.status is PutStatus.OK
        while not is_durable:  # Not recalled before: clients that time out repeat it.
            is_durable = await self._store.writing.durable()
        return handle.unique_key

    def _read(self, topic: str, text: str) -> RecallHandle:
        try:
            handle = decode_recall_handle(text)
        except ValueError as error:
            raise IllegalRecallHandle(why=str(error)) from error
        if handle.topic != topic:
            raise IllegalRecallHandle(why="it is of another topic")
        if handle.broker != self._store.settings.broker:
            raise IllegalRecallHandle(why="it is of another broker")
        return handle
