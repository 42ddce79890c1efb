"""Identifies the pending message that keeps the oldest files of the log from expiring.

    physical offset ─► delayed message | lease | open transaction | unknown record

Source: none; RocketMQ removes pending messages.
"""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from pocketmq.format.pop_records import PopCheckpoint, read_entry
from pocketmq.format.record import BadRecord
from pocketmq.model.errors import BrokerError
from pocketmq.model.message import PRODUCER_GROUP, TIMER_OUT, StoredMessage
from pocketmq.model.system_topics import REVIVE_TOPIC_PREFIX, TIMER_TOPIC, real_place
from pocketmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.read.reading import Reading

DELAY: Final = "delayed message"
LEASE: Final = "lease"
TRANSACTION: Final = "open transaction"
RECORD: Final = "record"
ARCHIVE: Final = "archive"
"""Nothing is pending; an archive does not have the files yet."""
LEADER: Final = "leader"
"""A follower keeps every file that its leader has."""
FOLLOWER: Final = "follower"
"""A follower or slave has not copied the files yet."""
CLOCK: Final = "clock"
"""The files are only old by a clock that is far ahead of the last time in the store."""


class RetentionHolder(NamedTuple):
    """The message, broker or archive that keeps files from its physical offset on from expiring.

    kind       DELAY, LEASE, TRANSACTION, ARCHIVE, LEADER, FOLLOWER, CLOCK; RECORD if it is unknown
    topic      target topic, or topic from which the message was leased; "" if unknown
    group      consumer group of a lease, producer group of a transaction; else ""
    until_ms   wall time at which the message is due, the lease expires, or the clock is believed; 0
               if unknown
    name       path or URL of an archive; else ""
    """

    kind: str
    topic: str
    group: str
    physical_offset: int
    until_ms: int = 0
    name: str = ""

    def text(self, *, with_names: bool = True) -> str:
        """Returns a description; without names, any user may see it."""
        of = f" of group {self.group}" if self.group and with_names else ""
        where = f" in topic {self.topic}" if self.topic and with_names else ""
        named = f" {self.name}" if self.name and with_names else ""
        until = f" until {_time_text(self.until_ms)}" if self.until_ms else ""
        if self.kind == CLOCK:
            return f"held{until}, as the clock was set forward, or no broker ran for an hour"
        return f"held by {self.kind}{named}{of}{where} at offset {self.physical_offset}{until}"


def _time_text(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


async def holder_at(reading: Reading, physical_offset: int) -> RetentionHolder:
    """Returns the pending message at a physical offset; kind RECORD if it cannot be read.

    Cost     one read of the log, two for a lease
    """
    nothing = RetentionHolder(RECORD, "", "", physical_offset)
    try:
        message = await value_of(reading.message_at(physical_offset))
        if message is None:
            return nothing
        place = real_place(message.properties)
        topic = place.topic if place is not None else ""
        if message.topic == HALF_TOPIC:
            group = message.properties.get(PRODUCER_GROUP, "")
            return RetentionHolder(TRANSACTION, topic, group, physical_offset)
        if message.topic == SCHEDULE_TOPIC:
            return RetentionHolder(DELAY, topic, "", physical_offset)
        if message.topic != TIMER_TOPIC:
            return nothing
        if topic.startswith(REVIVE_TOPIC_PREFIX):
            return await _lease(reading, message)
    except (BrokerError, BadRecord):  # An unreadable record also keeps its file from expiring.
        return nothing
    return RetentionHolder(DELAY, topic, "", physical_offset, _until_ms(message))


async def _lease(reading: Reading, message: StoredMessage) -> RetentionHolder:
    place = message.physical_offset
    wanted = [(place, message.store_size)]
    (record,) = await value_of(reading.placed(TIMER_TOPIC, 0, wanted))
    entry = read_entry(record) if record else None
    if entry is None:
        return RetentionHolder(LEASE, "", "", place, _until_ms(message))
    said, _ = entry
    until_ms = _until_ms(message)
    if isinstance(said, PopCheckpoint):
        until_ms = said.batched.popped_at_ms + said.invisible_ms
    return RetentionHolder(LEASE, said.batched.topic, said.batched.group, place, until_ms)


def _until_ms(message: StoredMessage) -> int:
    return max(message.number(TIMER_OUT), 0)
