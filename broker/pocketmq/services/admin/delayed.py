"""Lists delayed messages, in pages or by unique key.

Messages of delay levels (SCHEDULE_TOPIC_XXXX) are listed first, then timed messages
(rmq_sys_wheel_timer). Due messages are not listed. Neither are timed messages that a newer record
with the same key recalls or postpones. An empty page need not be the last page.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from pocketmq.format.delayed_message import WAITING_TOPICS, delayed_message, goes_to
from pocketmq.format.record import decode_record
from pocketmq.model.administration import (
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_MAX,
    DelayedMessage,
    Page,
    token_number,
)
from pocketmq.model.errors import MessageNotFound
from pocketmq.model.names import check_message_id, check_number
from pocketmq.model.reading import KeyRange, ReadRange
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

LOOKED_AT_MAX: Final = 1_024
"""Number of records, listed or not, after which a page ends: about 15 ms of work."""
READ_COUNT: Final = 256
READ_BYTES: Final = 1024 * 1024
RECORDS_OF_KEY: Final = 64
SCHEDULED, TIMED = WAITING_TOPICS
_TIMES: Final = "t"


class DelayedPage(NamedTuple):
    """Start of a page."""

    topic: str
    queue_id: int
    queue_offset: int

    @property
    def token(self) -> str:
        """Page token with which a client requests the page."""
        return f"{_TIMES if self.topic == TIMED else self.queue_id}-{self.queue_offset}"


class Delayed:
    """Lists the delayed messages of an open store."""

    __slots__ = ("_broker", "_levels", "_store")

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._broker = store.settings.broker
        self._levels = store.settings.levels
        assert self._levels.delays_ms, "no delay levels"

    async def page(
        self, topic: str = "", *, page_size: int = 0, page_token: str = ""
    ) -> Page[DelayedMessage]:
        """Returns a page of delayed messages; the last page has the token "".

        topic    target topic; "": all topics
        Errors   IllegalNumber, IllegalPageToken, StorageError, DiskSlow; for the first page
                 FollowersLate
        """
        check_number("page_size", page_size, upper=PAGE_SIZE_MAX)
        if not page_token:  # The list must contain all messages whose sends were answered before.
            await self._store.all_dispatched()
        size, looked_at = page_size or PAGE_SIZE_DEFAULT, 0
        found: list[DelayedMessage] = []
        for begin in self._places(page_token):
            place: DelayedPage | None = begin
            while place is not None:
                if len(found) >= size or looked_at >= LOOKED_AT_MAX:
                    return Page(found, place.token)
                records, place = await self._read(place, size - len(found))
                looked_at += len(records)
                found += [one for one in await self._waiting(records) if topic in ("", one.topic)]
        return Page(found, "")

    async def _waiting(self, records: list[bytes]) -> list[DelayedMessage]:
        """Returns the messages of records that are still delayed."""
        found = []
        for record in records:
            message = decode_record(record, decompress=False)
            one = delayed_message(message, self._levels, self._broker)
            if one is not None and await self._waits(one):
                found.append(one)
        return found

    async def of_id(self, message_id: str) -> list[DelayedMessage]:
        """Returns the delayed messages with a unique key.

        Errors   IllegalMessageId, MessageNotFound, StorageError, DiskSlow
        """
        check_message_id(message_id)
        found = []
        for topic in WAITING_TOPICS:
            page = await self._store.reading.query(KeyRange(topic, message_id, RECORDS_OF_KEY))
            for message in page.messages:
                one = delayed_message(message, self._levels, self._broker)
                if one is not None and one.message_id == message_id and await self._waits(one):
                    found.append(one)
        if not found:
            raise not_waiting(message_id)
        return found

    async def _waits(self, one: DelayedMessage) -> bool:
        """Returns whether a message is not due yet, and was neither recalled nor postponed."""
        if one.deliver_at_ms <= self._store.clock.wall_ms():
            return False
        if one.delay_level is not None or not one.message_id:
            return True
        wanted = KeyRange(TIMED, one.message_id, RECORDS_OF_KEY)
        newer = (await self._store.reading.query(wanted)).messages
        return all(
            message.physical_offset <= one.physical_offset or not goes_to(message, one.topic)
            for message in newer
        )

    def _places(self, token: str) -> Iterator[DelayedPage]:
        """Yields where to read: in the queue of the token, then in each later queue.

        Errors   IllegalPageToken
        """
        count = len(self._levels.delays_ms)
        first, queue_offset = _parts(token, count)
        for number in range(first, count + 1):
            topic, queue_id = (SCHEDULED, number) if number < count else (TIMED, 0)
            yield DelayedPage(topic, queue_id, queue_offset if number == first else 0)

    async def _read(self, place: DelayedPage, count: int) -> tuple[list[bytes], DelayedPage | None]:
        """Returns records from `place` on, and where to continue; None: at the queue's end."""
        reading = self._store.reading
        lower, upper = reading.queue_range(place.topic, place.queue_id)
        if place.topic == SCHEDULED:
            lower = max(lower, self._store.tables.delay_offsets.find(place.queue_id + 1))
        begin = max(lower, place.queue_offset)
        if begin >= upper:
            return [], None
        count = min(READ_COUNT, max(count, 1))
        wanted = ReadRange(place.topic, place.queue_id, begin, count, READ_BYTES)
        found = await value_of(reading.pull(wanted))
        return found.records, place._replace(queue_offset=max(found.next_begin_offset, begin + 1))


def not_waiting(message_id: str) -> MessageNotFound:
    """Returns the error for a message id to which no delayed message belongs."""
    return MessageNotFound(topic=", ".join(WAITING_TOPICS), message_id=message_id)


def _parts(token: str, level_count: int) -> tuple[int, int]:
    """Parses a page token to (queue number, queue offset).

    Shape    the number is the level - 1, or `level_count` for the timer's queue
    Errors   IllegalPageToken
    """
    if not token:
        return 0, 0
    name, _, text = token.partition("-")
    number = level_count if name == _TIMES else token_number(token, name, level_count)
    return number, token_number(token, text)
