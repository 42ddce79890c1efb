"""Finds where delay levels resume after a start: after the messages already delivered.

The persisted progress of a level may be some seconds old, and is durable. Each later message that
was due is searched in its real topic, by unique key, among the records stored since. The level
resumes at the first one without a copy there. A message without such a key, or whose copy the index
has lost, counts as not delivered and may be delivered twice.
"""

import logging
from typing import Final

from pocketmq.format.record import decode_record
from pocketmq.model.message import PROPERTY_CRC, StoredMessage
from pocketmq.model.reading import KeyRange
from pocketmq.model.system_topics import QueuePlace
from pocketmq.services.delay.level import Level
from pocketmq.services.delay.level_pending import WaitingMessages
from pocketmq.store.message_store import MessageStore

COPIES_MAX: Final = 64
"""Messages with one unique key in one look at the index."""

logger = logging.getLogger(__name__)


class LevelResumption:
    """Finds out once where the levels of an open store go on."""

    __slots__ = ("_messages", "_store", "_used")

    def __init__(self, store: MessageStore, messages: WaitingMessages) -> None:
        self._store = store
        self._messages = messages
        self._used: set[int] = set()
        """Physical offsets of copies that were found."""

    async def levels(self, now_ms: int) -> list[Level]:
        """Returns all levels.

        Cost     a search by key for each message that was due, up to the first not delivered
        Errors   StorageError, DiskSlow
        """
        assert not self._used, "it is done once"
        find = self._store.tables.delay_offsets.find
        found = []
        for number, delay_ms in enumerate(self._store.settings.levels.delays_ms, start=1):
            lower, upper = self._messages.range_of(number)
            begin = min(max(find(number), lower), upper)
            level = Level(number, delay_ms, begin, self._store.level_clocks.of(number))
            has_more = True
            while has_more:
                has_more = await self._pass_delivered(level, now_ms)
            if level.queue_offset > begin:
                logger.info(
                    "schedule.resumed", extra={"level": number, "count": level.queue_offset - begin}
                )
            found.append(level)
        return found

    async def _pass_delivered(self, level: Level, now_ms: int) -> bool:
        """Returns whether all of some messages were delivered; there may be more then."""
        begin = level.queue_offset
        times_ms = await self._messages.due_ms(level.number, begin)
        if not times_ms:
            return False
        is_due = [due <= now_ms or due > now_ms + level.delay_ms for due in times_ms]
        # The first one may have been delivered before the clock was set back.
        count = max([*is_due, False].index(False), 1)
        waiting, following = await self._messages.read(level.number, begin, count)
        for record, place in waiting:
            message = decode_record(record, decompress=False)
            if place is not None and not await self._is_delivered(message, place):
                return False
            level.advance(message.queue_offset + 1)
        level.advance(max(following, level.queue_offset))
        return level.queue_offset > begin

    async def _is_delivered(self, message: StoredMessage, place: QueuePlace) -> bool:
        """Returns whether a message's real topic contains a copy of it."""
        key = message.unique_key
        if not key:
            return False
        before = self._store.tables.delay_offsets.delivered_before
        lowest = max(before, message.physical_offset)
        # Of any time: the clock may have been set back before it was delivered.
        wanted = KeyRange(place.topic, key, COPIES_MAX, lowest=lowest)
        while True:
            page = await self._store.reading.query(wanted)
            for copy in page.messages:
                is_new = copy.physical_offset not in self._used
                if is_new and copy.queue_id == place.queue_id and _marks(copy) == _marks(message):
                    self._used.add(copy.physical_offset)
                    return True
            if not page.next_cursor:
                return False
            wanted = wanted._replace(cursor=page.next_cursor)


def _marks(message: StoredMessage) -> tuple[object, ...]:
    """Returns the fields that a message and its copy at another place share."""
    properties = {k: v for k, v in message.properties.items() if k != PROPERTY_CRC}
    return message.reconsume_times, message.born_timestamp_ms, message.body_crc, properties
