"""Fast path of decisions: applied at once, to open half messages that are in memory.

The fast path has the effects of `EndTransactions`; tests compare records, views and replies. It
declines each unusual request without an effect; `EndTransactions` then handles the request.
"""

from collections.abc import Sequence
from typing import Final, final

from pocketmq.format.end_records import EndRecords
from pocketmq.format.end_request import EndRequest
from pocketmq.format.half_record import HalfRecord
from pocketmq.format.index_layout import STYLE_5_5
from pocketmq.format.topic_frame import TopicFrame
from pocketmq.model.message import TRANSACTION_COMMIT
from pocketmq.model.topic import OP_HALF_TOPIC, TopicConfig
from pocketmq.model.transaction import Decision, Resolution
from pocketmq.services.transaction.half_counts import HalfCounts
from pocketmq.services.transaction.half_table import TOPICS, HalfTable
from pocketmq.services.transaction.halves import HalfState
from pocketmq.store.message_store import MessageStore

FRAMES_MAX: Final = 1_024
"""Upper limit of cached topics; the cache is cleared when it is full."""
_COMMITTED: Final = int(HalfState.COMMITTED)
_ROLLED_BACK: Final = int(HalfState.ROLLED_BACK)


@final
class _Topic:
    __slots__ = ("config", "frame")

    def __init__(self, config: TopicConfig, frame: TopicFrame) -> None:
        assert config.name == frame.topic
        self.config = config
        self.frame = frame


@final
class PlainEnd:
    """The fast path of decisions."""

    __slots__ = (
        "_clock", "_counts", "_ended", "_half", "_is_tagged", "_known", "_ledger", "_log",
        "_records", "_said", "_states", "_topics", "_writer",
    )  # fmt: skip

    def __init__(self, store: MessageStore, ledger: HalfTable, counts: HalfCounts) -> None:
        self._ledger = ledger
        self._log = store.log
        self._writer = store.writing.writer
        self._topics = store.tables.topics
        self._clock = store.clock
        self._counts = counts
        self._is_tagged = store.settings.index_style == STYLE_5_5
        self._known: dict[bytes, _Topic] = {}
        self._ended: list[tuple[str, int]] = []
        """(topic, store time in ms) of each half message of the request."""
        self._states: list[int] = []
        """HalfState of each half message of the request."""
        self._half = HalfRecord()
        self._said = EndRequest()
        self._records = EndRecords(self._frame(OP_HALF_TOPIC, 1, 0))

    def _frame(self, topic: str, queue_count: int, system_flag: int) -> TopicFrame:
        return TopicFrame(
            topic,
            queue_count,
            store_host=self._ledger.store_host,
            tail=b"",
            is_tagged=self._is_tagged,
            system_flag=system_flag,
        )

    def decide(self, group: str, decisions: Sequence[Decision]) -> bool:
        """Applies decisions like `end`; returns False if the path declines."""
        said = self._said
        said.begin(group.encode())
        for text, resolution in decisions:
            is_commit = resolution is Resolution.COMMIT
            if not is_commit and resolution is not Resolution.ROLLBACK:
                return False
            if not said.take(text.encode("utf-8", "replace"), is_commit=is_commit):
                return False
        return bool(decisions) and self.end(said)

    def end(self, request: EndRequest) -> bool:
        """Applies the decisions of a plain request in one put; returns False if the path declines.

        Does not wait until the put is durable.

        Errors   StoreBusy: nothing was stored
        Source   EndTransactionProcessor.processRequest
        """
        if self._log.pool is not None or not self._is_ready() or not self._collect(request):
            return False
        records, ledger = self._records, self._ledger
        if records.size_sum > ledger.put_bytes or not self._writer.takes_plain(records.size_sum):
            return False
        now_ms = self._clock.wall_ms()
        self._writer.append(records, now_ms)
        assert records.written[-1].destination.topic == OP_HALF_TOPIC
        ledger.ops.add(records.written[-1].queue_offset, request.at)
        ledger.finish_open(request.at, bytes(self._states))
        self._count()
        return True

    def _count(self) -> None:
        number, count = 0, len(self._states)
        while number < count:
            topic, store_ms = self._ended[number]
            state, end = self._states[number], number + 1
            while end < count and self._states[end] == state:
                if self._ended[end] != (topic, store_ms):
                    break
                end += 1
            self._counts.end(topic, store_ms, HalfState(state), end - number)
            number = end

    def _is_ready(self) -> bool:
        for topic in TOPICS:
            config = self._topics.find(topic)
            if config is None or not config.is_kept:
                return False
        return True

    def _collect(self, request: EndRequest) -> bool:
        """Reads the half messages of all decisions; returns False if the path declines."""
        records, halves = self._records, self._ledger.halves
        records.begin()
        if len(set(request.at)) < len(request.at):
            return False
        self._ended.clear()
        self._states.clear()
        rows = zip(request.at, request.places, request.keys, request.commits, strict=True)
        for at, place, key, is_commit in rows:
            if not halves.is_open_at(at, place) or not self._read(at, place):
                return False
            half = self._half
            if half.group != request.group or half.key != key:
                return False
            topic = self._topic(half.real_topic)
            if topic is None or not 0 <= half.real_queue_id < topic.config.write_queue_count:
                return False
            if is_commit:
                records.commit(half, topic.frame)
            self._ended.append((topic.config.name, half.store_ms))
            self._states.append(_COMMITTED if is_commit else _ROLLED_BACK)
        return records.tell(request.at)

    def _read(self, at: int, place: int) -> bool:
        """Reads a half message; returns False if it is not in memory or not plain."""
        log = self._log
        if place < log.hot_begin:
            return False
        file = log.files.file_at(place)
        if file is None or place - file.base < file.written_from:
            return False
        position = place - file.base
        size = int.from_bytes(file.view[position : position + 4])
        return self._half.read(bytes(file.view[position : position + size]), at, place)

    def _topic(self, name: bytes) -> _Topic | None:
        """Returns a topic; None if this path cannot commit messages to the topic."""
        known = self._known.get(name)
        if known is not None and self._topics.find(known.config.name) is known.config:
            return known
        config = self._topics.find(name.decode("ascii", "replace"))
        if config is None or not config.is_plain or not config.write_queue_count:
            return None
        if len(self._known) >= FRAMES_MAX:
            self._known.clear()
        frame = self._frame(config.name, config.write_queue_count, TRANSACTION_COMMIT)
        found = self._known[name] = _Topic(config, frame)
        return found
