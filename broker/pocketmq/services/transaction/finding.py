"""Searches the log for the outcome of half messages that are not in memory.

Half messages, their copies and committed messages are found by unique key. Copies and committed
messages contain an offset of their half message, so half messages with the same key are
distinguished (duplicate_halves.py).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from pocketmq.format.half_message import has_delay
from pocketmq.format.transaction_id import HalfPlace
from pocketmq.model.message import (
    FLAG_TRANSACTION_MASK,
    PRODUCER_GROUP,
    TRANSACTION_COMMIT,
    StoredMessage,
)
from pocketmq.model.reading import KeyRange
from pocketmq.model.system_topics import TIMER_TOPIC, real_place
from pocketmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC
from pocketmq.services.transaction.duplicate_halves import NOWHERE, Became, DuplicateHalves
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

PAGE: Final = 64
PARKING: Final = (TIMER_TOPIC, SCHEDULE_TOPIC)
"""Topics in which committed messages wait for their delay."""
_Birth = tuple[object, ...]


class HalfSearch:
    """Searches an open store."""

    __slots__ = ("_store",)

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    async def first(self, group: str, place: HalfPlace) -> StoredMessage | None:
        """Returns the half message with this position, key and group; None if there is none.

        Errors   StorageError, DiskSlow
        """
        message = await value_of(self._store.reading.message_at(place.physical_offset))
        if message is None or (message.topic, message.queue_id) != (HALF_TOPIC, 0):
            return None
        if message.queue_offset != place.queue_offset or message.unique_key != place.unique_key:
            return None
        return message if message.properties.get(PRODUCER_GROUP, "") == group else None

    async def became(self, first: StoredMessage) -> Became:
        """Returns the outcome of a half message, once the whole log is dispatched.

        Cost     a few index queries by key
        Errors   StorageError, DiskSlow; FollowersLate: the log could not be dispatched
        """
        own = _birth(first)
        return (await self._became(first, lambda birth: birth == own))[first.queue_offset]

    async def became_all(self, first: StoredMessage) -> dict[int, Became]:
        """Returns the outcomes of all half messages with the same key, by queue offset.

        Cost     a few index queries by key
        Errors   those of `became`
        """
        return await self._became(first, lambda birth: True)

    async def _became(
        self, first: StoredMessage, is_wanted: Callable[[_Birth], bool]
    ) -> dict[int, Became]:
        await self._store.all_dispatched()
        key, own = first.unique_key, DuplicateHalves()
        own.see(first)
        found = {_birth(first): own}
        async for message in self._of_key(HALF_TOPIC, key):
            birth = _birth(message)
            if is_wanted(birth):
                found.setdefault(birth, DuplicateHalves()).see(message)
        for topic in set[str]().union(*(alike.topics for alike in found.values())) - {NOWHERE}:
            async for message in self._of_key(topic, key):
                is_committed = message.system_flag & FLAG_TRANSACTION_MASK == TRANSACTION_COMMIT
                alike = found.get(_birth(message)) if is_committed else None
                if alike is not None:
                    alike.see_committed(topic, message.prepared_transaction_offset)
        for topic in PARKING if has_delay(first.properties) else ():
            async for message in self._of_key(topic, key):
                place, alike = real_place(message.properties), found.get(_birth(message))
                if place is not None and alike is not None:
                    alike.see_committed(place.topic, message.prepared_transaction_offset)
        async for message in self._of_key(GIVEN_UP_TOPIC, key):
            alike = found.get(_birth(message))
            if alike is not None:
                alike.is_given_up = True
        became: dict[int, Became] = {}
        for alike in found.values():
            became |= alike.became()
            await asyncio.sleep(0)
        assert first.queue_offset in became, "no outcome of the half message"
        return became

    async def _of_key(self, topic: str, key: str) -> AsyncIterator[StoredMessage]:
        wanted = KeyRange(topic, key, PAGE, with_purged=True)
        while True:
            page = await self._store.reading.query(wanted)
            for message in page.messages:
                yield message
            if not page.next_cursor:
                return
            wanted = wanted._replace(cursor=page.next_cursor)


def _birth(message: StoredMessage) -> _Birth:
    return (
        message.unique_key, message.born_timestamp_ms, message.born_host, message.body_crc,
        message.properties.get(PRODUCER_GROUP),
    )  # fmt: skip
