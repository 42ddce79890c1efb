"""What the log tells of a half message that is done and forgotten, or was put again before a start.

    a committed message of one of its places     COMMITTED
    a copy among those given up                  GIVEN_UP
    a later copy among half messages             MOVED, and where the newest one lies
    otherwise                                    ROLLED_BACK

Found by the unique key; what counts is the place that a copy or a committed message names. Messages
that were sent twice under one key stay apart.
"""

from collections.abc import AsyncIterator
from typing import Final

from broker.format.transaction_id import HalfPlace
from broker.model.message import (
    FIRST_HALF_OFFSET,
    FLAG_TRANSACTION_MASK,
    PRODUCER_GROUP,
    TRANSACTION_COMMIT,
    StoredMessage,
)
from broker.model.reading import KeyRange
from broker.model.system_topics import real_place
from broker.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC
from broker.services.transaction.halves import HalfState
from broker.store.message_store import MessageStore
from broker.store.reading.patience import value_of

PAGE: Final = 64


class Finding:
    """Looks into an open store."""

    __slots__ = ("_store",)

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    async def first(self, group: str, place: HalfPlace) -> StoredMessage | None:
        """Return the half message that a place and a group name, None where none is there.

        Errors   Corruption, DiskSlow
        """
        message = await value_of(self._store.reading.message_at(place.physical_offset))
        if message is None or (message.topic, message.queue_id) != (HALF_TOPIC, 0):
            return None
        if message.queue_offset != place.queue_offset or message.unique_key != place.unique_key:
            return None
        return message if message.properties.get(PRODUCER_GROUP, "") == group else None

    async def became(self, first: StoredMessage) -> tuple[HalfState, int]:
        """Return what became of a half message, and where it lies among them now.

        Cost     some searches by key
        Errors   Corruption, DiskSlow
        """
        await self._store.marks.dispatched.reached(self._store.appended)
        place = real_place(first.properties)
        origin = first.properties.get(FIRST_HALF_OFFSET, str(first.queue_offset))
        places, at = {first.physical_offset}, first.queue_offset
        async for copy in self._same(HALF_TOPIC, first):
            if copy.properties.get(FIRST_HALF_OFFSET, origin) == origin or (
                str(copy.queue_offset) == origin
            ):
                places.add(copy.physical_offset)
                at = max(at, copy.queue_offset)
        if place is not None:
            async for message in self._same(place.topic, first):
                is_committed = message.system_flag & FLAG_TRANSACTION_MASK == TRANSACTION_COMMIT
                if is_committed and message.prepared_transaction_offset in places:
                    return HalfState.COMMITTED, at
        async for _ in self._same(GIVEN_UP_TOPIC, first):
            return HalfState.GIVEN_UP, at
        return (HalfState.MOVED if at > first.queue_offset else HalfState.ROLLED_BACK), at

    async def _same(self, topic: str, first: StoredMessage) -> AsyncIterator[StoredMessage]:
        """Yield the messages of a topic that were sent as this one was, newest first."""
        wanted = KeyRange(topic, first.unique_key, PAGE)
        while True:
            page = await self._store.reading.query(wanted)
            for message in page.messages:
                if _birth(message) == _birth(first):
                    yield message
            if not page.next_cursor:
                return
            wanted = wanted._replace(cursor=page.next_cursor)


def _birth(message: StoredMessage) -> tuple[object, ...]:
    return (
        message.unique_key, message.born_timestamp_ms, message.born_host, message.body_crc,
        message.properties.get(PRODUCER_GROUP),
    )  # fmt: skip
