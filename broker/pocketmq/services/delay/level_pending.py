"""Reads messages of the schedule topic from a level's queue, and prepares them for delivery.

Source: ScheduleMessageService.messageTimeUp.
"""

import logging
from typing import Final, NamedTuple

from pocketmq.format.rewrite import facts_of, put_again
from pocketmq.model.batch import Run
from pocketmq.model.errors import MessageDamaged
from pocketmq.model.reading import PullStatus, ReadRange
from pocketmq.model.system_topics import QueuePlace, real_place
from pocketmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

BATCH_MAX: Final = 128
"""Upper limit of messages in one put."""
BATCH_BYTES_MAX: Final = 256 * 1024

logger = logging.getLogger(__name__)


class LevelPending(NamedTuple):
    """A message of the schedule topic; `place` is the target queue, None: it must be dropped."""

    record: bytes
    place: QueuePlace | None

    @property
    def queue_offset(self) -> int:
        """Offset in the level's queue."""
        return int.from_bytes(self.record[20:28])

    @property
    def physical_offset(self) -> int:
        """Physical offset of the record."""
        return int.from_bytes(self.record[28:36])


class WaitingMessages:
    """Messages of the schedule topic in an open store; level n is queue n - 1.

    store_host   packed address of this broker
    """

    __slots__ = ("_store", "_store_host")

    def __init__(self, store: MessageStore, store_host: bytes) -> None:
        assert store_host
        self._store = store
        self._store_host = store_host

    def range_of(self, level: int) -> tuple[int, int]:
        """Returns the min and max offset of a level's queue."""
        return self._store.reading.queue_range(SCHEDULE_TOPIC, level - 1)

    async def due_ms(self, level: int, queue_offset: int) -> list[int]:
        """Returns the due times of the next messages of a level, BATCH_MAX at most, as wall times.

        Errors   StorageError, DiskSlow
        """
        codes = self._store.reading.tags_codes(SCHEDULE_TOPIC, level - 1, queue_offset, BATCH_MAX)
        return await value_of(codes)

    async def read(
        self, level: int, queue_offset: int, count: int
    ) -> tuple[list[LevelPending], int]:
        """Returns the next messages of a level, and the queue offset after these messages.

        Effects  a damaged message is skipped and logged
        Errors   StorageError, DiskSlow
        """
        wanted = ReadRange(SCHEDULE_TOPIC, level - 1, queue_offset, count, BATCH_BYTES_MAX)
        try:
            found = await value_of(self._store.reading.pull(wanted))
        except MessageDamaged as error:
            logger.warning(
                "schedule.discarded",
                extra={"physical_offset": error.physical_offset, "reason": str(error)},
            )
            return [], queue_offset + 1
        if found.status is PullStatus.EXPIRED:
            return [], max(found.next_begin_offset, queue_offset)
        return [self._judged(record) for record in found.records], found.next_begin_offset

    def _judged(self, record: bytes) -> LevelPending:
        _, properties, message_id = facts_of(record)
        place, why = real_place(properties), ""
        if place is None or place.topic in (HALF_TOPIC, SCHEDULE_TOPIC):
            why = "it has no valid target queue"
        elif self._store.tables.is_removed(place.topic):
            why = f"topic {place.topic} was removed"
        if why:
            logger.warning(
                "schedule.discarded",
                extra={"physical_offset": int(message_id[-16:], 16), "reason": why},
            )
        return LevelPending(record, None if why else place)

    def run(self, waiting: LevelPending) -> Run:
        """Returns the run that puts a message into its target queue."""
        assert waiting.place is not None
        topic, queue_id = waiting.place
        self._store.tables.topics.adopt(topic, queue_id + 1)
        return put_again(
            waiting.record,
            topic=topic,
            queue_id=self._store.tables.topics.read_queue(topic, queue_id),
            store_host=self._store_host,
            changed={},
        )
