"""Finds timed messages that were delivered between the last save of progress and a crash.

Their copies are searched in the target topic by unique key, among the records stored since the
save. A message may be delivered twice if it has no unique key, or if the index lost its copy.
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
    """Finds messages that were delivered before the store was opened.

    delivered_before   the saved progress covers all deliveries below this physical offset
    """

    __slots__ = ("_before", "_end", "_store", "_used")

    def __init__(self, store: MessageStore, delivered_before: int) -> None:
        self._store = store
        self._before = delivered_before
        self._end = store.appended
        self._used: dict[int, int] = {}
        """Physical offset of a copy -> physical offset of its message; calls may be repeated."""

    @property
    def is_over(self) -> bool:
        """Whether no record was stored between the save of the progress and the start."""
        return self._before >= self._end

    async def is_delivered(self, record: bytes, place: QueuePlace | None = None) -> bool:
        """Returns whether the target queue contains a copy of a record.

        place    the timer's queue if the record is rolled; None: the queue in its properties
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
                is_same = _marks(copy) == _marks(message)
                is_same &= copy.properties.get(TIMER_ROLLS, "") == rolls
                own = message.physical_offset
                if is_new and is_same and self._used.setdefault(copy.physical_offset, own) == own:
                    return True
            if not page.next_cursor:
                return False
            wanted = wanted._replace(cursor=page.next_cursor)


def _marks(message: StoredMessage) -> tuple[object, ...]:
    """Returns the fields that are equal in a message and its delivered copy."""
    properties = {k: v for k, v in message.properties.items() if k not in _ADDED}
    return message.reconsume_times, message.born_timestamp_ms, message.body_crc, properties
