"""Queries messages by key, by id and by time.

An id is first searched in the index, as a unique key. If the index does not contain the id, it is
read as an offset message id. As a unique key may have the form of an offset message id, the message
is returned only if its topic and store host match.
Source: QueryMessageProcessor, AdminBrokerProcessor.searchOffsetByTimestamp.
"""

import asyncio
from typing import Final

from pocketmq.format.addresses import parse_offset_message_id
from pocketmq.format.body_codec import BodyBudget
from pocketmq.format.properties import PROPERTIES_SIZE_MAX
from pocketmq.format.record import is_shown
from pocketmq.model.errors import IllegalKey, MessageNotFound
from pocketmq.model.message import OFFSET_MAX, StoredMessage
from pocketmq.model.names import (
    check_key,
    check_message_id,
    check_number,
    check_tag,
)
from pocketmq.model.reading import Bound, KeyRange, QueryResult
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

MESSAGE_COUNT_DEFAULT: Final = 64
MESSAGE_COUNT_MAX: Final = 1_024
PAGE_SIZE_MAX: Final = 14 * 1024 * 1024
"""Maximum size of a page by `size_in_reply`; such a page fits a reply of 16 MiB."""
FIXED_SIZE_MAX: Final = 512
"""Maximum bytes of a message in a reply, without body and properties."""
PROPERTY_FACTOR: Final = 8
"""Maximum bytes in a reply for each character of the properties. A character has up to four bytes
in UTF-8; tags, keys and ids are sent twice, as properties and in fields."""


class Query:
    """All message queries of a broker."""

    __slots__ = ("_store",)

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    async def by_key(self, wanted: KeyRange) -> QueryResult:
        """Returns a page of the messages with a key, newest first.

        wanted   `count_max` 0 means 64; `end_ms` 0 means no upper bound
        Errors   IllegalKey, IllegalTag, IllegalNumber, IllegalPageToken, StorageError, DiskSlow
        """
        key = wanted.key
        if wanted.index_type:
            check_tag(key)
        else:
            check_key(key)
        if len(key) > PROPERTIES_SIZE_MAX:
            raise IllegalKey(key=key, why=f"it is longer than {PROPERTIES_SIZE_MAX} characters")
        check_number("max", wanted.count_max, upper=MESSAGE_COUNT_MAX)
        check_number("begin_ms", wanted.begin_ms)
        check_number("end_ms", wanted.end_ms, lower=wanted.begin_ms if wanted.end_ms else 0)
        wanted = wanted._replace(
            count_max=wanted.count_max or MESSAGE_COUNT_DEFAULT, end_ms=wanted.end_ms or OFFSET_MAX
        )
        page, budget = await self._store.reading.query(wanted), BodyBudget()
        fitting = await _shown_count(page.messages, budget)
        if fitting == len(page.messages):
            return page
        # Decompressed bodies do not fit. The second query returns the cursor after fewer messages.
        shown = {message.physical_offset: message for message in page.messages[:fitting]}
        page = await self._store.reading.query(wanted._replace(count_max=fitting))
        for number, message in enumerate(page.messages):
            page.messages[number] = shown.get(message.physical_offset, message)
            if message.physical_offset not in shown:
                is_shown(message, budget, always=True)
        return page

    async def by_id(self, topic: str, message_id: str) -> StoredMessage:
        """Returns the message of a topic with this unique key or offset id.

        A body is decompressed unless it would exceed SHOWN_SIZE_MAX.

        Errors   errors of `place_of`
        """
        message = await self.place_of(topic, message_id)
        is_shown(message, BodyBudget())
        return message

    async def place_of(self, topic: str, message_id: str) -> StoredMessage:
        """Returns the message of a topic with this id; the body is not decompressed.

        Errors   IllegalMessageId, MessageNotFound, StorageError, DiskSlow
        """
        check_message_id(message_id)
        reading = self._store.reading
        message = await reading.message_by_unique_key(topic, message_id)
        if message is not None:
            return message
        place = parse_offset_message_id(message_id)
        if place is not None:
            store_host, physical_offset = place
            message = await value_of(reading.message_at(physical_offset))
            is_it = message is not None and (message.topic, message.store_host) == (
                topic,
                store_host,
            )
            if message is not None and is_it and not reading.is_purged(message):
                return message
        raise MessageNotFound(topic=topic, message_id=message_id)

    async def offset_by_time(self, topic: str, queue_id: int, time_ms: int, bound: Bound) -> int:
        """Returns the queue offset for a store time.

        time_ms   ms since 1970
        Errors    IllegalNumber, StorageError, DiskSlow
        """
        check_number("time_ms", time_ms)
        reading = self._store.reading
        return await value_of(reading.queue_offset_by_time(topic, queue_id, time_ms, bound))


def size_in_reply(message: StoredMessage) -> int:
    """Returns an upper bound of a message's bytes in a reply."""
    characters = sum(len(name) + len(value) + 1 for name, value in message.properties.items())
    return len(message.body) + PROPERTY_FACTOR * characters + FIXED_SIZE_MAX


async def _shown_count(messages: list[StoredMessage], budget: BodyBudget) -> int:
    """Decompresses the bodies that fit one reply; returns how many messages fit."""
    size_bytes = 0
    for number, message in enumerate(messages):
        left_bytes = budget.left_bytes
        if not is_shown(message, budget):
            return number
        size_bytes += size_in_reply(message)
        if number and size_bytes > PAGE_SIZE_MAX:
            return number
        if budget.left_bytes < left_bytes:
            await asyncio.sleep(0)
    return len(messages)
