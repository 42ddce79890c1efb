"""Finds timed messages that were delivered before a crash, but after the last save of progress.

The timer's progress is saved each second. Messages beyond it that were due when the store was last
written to are searched in their target topic, by unique key, among the records stored since. A
message without unique key, or whose copy the index has lost, may be delivered twice.
"""

from typing import Final

from pocketmq.format.record import decode_record
from pocketmq.format.timed_records import rolls_after
from pocketmq.model.message import (
    PROPERTY_CRC,
    TIMER_DEQUEUED,
    TIMER_ENQUEUED,
    TIMER_OUT_NOW,
    TIMER_ROLLS,
    StoredMessage,
)
from pocketmq.model.reading import KeyRange
from pocketmq.model.system_topics import QueuePlace, real_place
from pocketmq.store.message_store import MessageStore

COPIES_MAX: Final = 64
"""Upper limit of messages that one index query for a unique key returns."""
_ADDED: Final = frozenset(
    {PROPERTY_CRC, TIMER_ENQUEUED, TIMER_DEQUEUED, TIMER_OUT_NOW, TIMER_ROLLS}
)


class TimerResumption:
    """Finds the messages that were delivered before the store was opened.

    delivered_before   physical offset up to which the saved progress covers all deliveries
    """

    __slots__ = ("_before", "_end", "_store", "_used")

    def __init__(self, store: MessageStore, delivered_before: int) -> None:
        self._store = store
        self._before = delivered_before
        self._end = store.appended
        self._used: dict[int, int] = {}
        """Copy that was found -> its message, both as physical offsets; queries may repeat."""

    @property
    def is_over(self) -> bool:
        """Whether nothing was stored since the timer's progress was saved."""
        return self._before >= self._end

    async def is_delivered(self, record: bytes, place: QueuePlace | None = None) -> bool:
        """Returns whether the target queue has a copy of a record.

        place    the target queue; None: from the record's properties
        Errors   StorageError, DiskSlow
        """
        message = decode_record(record, decompress=False)
        key, rolls = message.unique_key, message.properties.get(TIMER_ROLLS, "")
        if place is not None:
            rolls = str(rolls_after(rolls))
        place = place or real_place(message.properties)
        if self.is_over or not key or place is None or message.physical_offset >= self._end:
            return False
        lowest = max(self._before, message.physical_offset + 1)
        # Without time bounds: store times go back when a clock that was ahead is corrected.
        wanted = KeyRange(place.topic, key, COPIES_MAX, lowest=lowest, with_purged=True)
        while True:
            page = await self._store.reading.query(wanted)
            for copy in page.messages:
                is_new = copy.physical_offset < self._end
                is_same = copy.queue_id == place.queue_id and _marks(copy) == _marks(message)
                is_same &= copy.properties.get(TIMER_ROLLS, "") == rolls
                own = message.physical_offset
                if is_new and is_same and self._used.setdefault(copy.physical_offset, own) == own:
                    return True
            if not page.next_cursor:
                return False
            wanted = wanted._replace(cursor=page.next_cursor)


def _marks(message: StoredMessage) -> tuple[object, ...]:
    """Returns the fields that a message and its delivered copy share."""
    properties = {k: v for k, v in message.properties.items() if k not in _ADDED}
    return message.reconsume_times, message.born_timestamp_ms, message.body_crc, properties
