"""Redelivery of messages that a consumer returns by physical offset, without a lease.

Source: AbstractSendMessageProcessor.consumerSendMsgBack.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pocketmq.model.administration import GroupConfig
from pocketmq.model.batch import PutStatus
from pocketmq.model.errors import MessageNotFound
from pocketmq.model.message import INT32_MAX, StoredMessage
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.store.message_store import MessageStore

RETRIES_MAX: Final = INT32_MAX - 1


class Returns:
    """Returned messages of all groups."""

    __slots__ = ("_redelivery", "_store", "_turn")

    def __init__(self, store: MessageStore, redelivery: Redelivery) -> None:
        self._store = store
        self._redelivery = redelivery
        self._turn = 0

    async def prepare(self, group: str) -> GroupConfig:
        """Creates the topics of a group's returned messages, durably; returns the group.

        Errors   GroupNotFound, DiskFull, NotReplicated, StoreFailed
        """
        config = self._store.tables.groups.existing(group)
        await self._redelivery.prepare(config)
        return config

    async def send_back(
        self,
        group: str,
        physical_offset: int,
        level: int,
        *,
        retries_max: int,
        check: Callable[[StoredMessage], object],
    ) -> PutStatus:
        """Schedules redelivery of a message to a group; durable as the flush mode requires.

        level        delay level; 0: the retry count plus 3, below 0: dead letter at once
        retries_max  retries after which the message becomes a dead letter; -1: the group's limit
        check        raises an error for a message that the group may not read
        Errors       GroupNotFound, MessageNotFound, errors of `check`, StorageError, DiskSlow;
                     errors of a put: nothing was stored
        """
        assert physical_offset >= 0, "negative physical offset"
        config = self._store.tables.groups.existing(group)
        found = await self._store.reading.record_at(physical_offset)
        if found is None:
            raise MessageNotFound(topic="", message_id=f"offset {physical_offset}")
        message, record = found
        check(message)
        await self._redelivery.prepare(config)
        config = _with_retries(config, retries_max)
        self._turn += 1
        run = self._redelivery.back(record, config, message.topic, level, self._turn)
        (result,) = await self._store.writing.put([run])
        return result.status


def _with_retries(config: GroupConfig, retries_max: int) -> GroupConfig:
    if retries_max < 0:
        return config
    settings = config.settings._replace(max_attempts=min(retries_max, RETRIES_MAX) + 1)
    return replace(config, settings=settings)
