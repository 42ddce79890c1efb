"""Queries of single messages by classic clients (33 VIEW_MESSAGE_BY_ID, 12 QUERY_MESSAGE).

Answers contain the records as they are stored. Source: QueryMessageProcessor.
"""

from typing import Final

from pocketmq.model.errors import MessageNotFound
from pocketmq.model.message import OFFSET_MAX, StoredMessage
from pocketmq.model.reading import PAGE_BYTES_MAX, KeyRange
from pocketmq.model.topic import is_brokers_topic
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.status import QUERY_NOT_FOUND
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import check_operator_reads, find_readable, may_see
from pocketmq.wire.remoting import Command

MESSAGES_MAX: Final = 64
"""Upper limit of messages in an answer; RocketMQ's is 32 (defaultQueryMaxNum)."""
TAG_INDEX: Final = "T"
NOT_FOUND: Final = "can not find message, maybe time range not correct"
NOTHING: Final = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
"""Remark and fields of an answer without messages."""


class ClassicQuery:
    """The requests for single messages."""

    __slots__ = ("_query", "_store")

    def __init__(self, backing: Services) -> None:
        self._store = backing.store
        self._query = backing.query

    async def by_offset(self, request: Command, call: ClassicCall) -> Command:
        """Returns the message at a physical offset; clients take it from an offset message id.

        Errors   MalformedRequest, IllegalNumber, MessageNotFound, Corruption, DiskSlow
        """
        physical_offset = number_field(request, "offset", upper=OFFSET_MAX)
        found = await self._store.reading.record_at(physical_offset)
        if found is None or not self._is_shown(found[0], call):
            raise MessageNotFound(topic="", message_id=f"offset {physical_offset}")
        return Command(0, body=found[1])

    async def by_key(self, request: Command, call: ClassicCall) -> Command:
        """Returns the newest messages of a topic with a key, unique key or tag, oldest first.

        Errors   MalformedRequest, IllegalNumber, those of `find_readable` and `Query.by_key`
        """
        topic, count = text_field(request, "topic"), number_field(request, "maxNum", absent=0)
        find_readable(self._store.tables.topics, topic, "", check_operator_reads)
        begin_ms = number_field(request, "beginTimestamp", upper=OFFSET_MAX, absent=0)
        end_ms = number_field(request, "endTimestamp", upper=OFFSET_MAX, absent=0)
        index_type = request.fields.get("indexType", "")
        wanted = KeyRange(
            topic,
            text_field(request, "key"),
            min(count, MESSAGES_MAX),
            begin_ms,
            end_ms,
            index_type=index_type if index_type == TAG_INDEX else "",
            bytes_max=call.room(PAGE_BYTES_MAX),
        )
        page = await self._query.by_key(wanted)
        found: list[tuple[StoredMessage, bytes]] = []
        for message in page.messages:
            one = await self._store.reading.record_at(message.physical_offset)
            if one is not None and self._is_shown(message, call):
                found.append(one)
        call.room(sum(len(record) for _, record in found))
        if not found:
            return Command(QUERY_NOT_FOUND, NOTHING, remark=NOT_FOUND)
        found.sort(key=lambda one: one[0].physical_offset)
        newest = found[-1][0]
        fields = {
            "indexLastUpdateTimestamp": str(newest.store_timestamp_ms),
            "indexLastUpdatePhyoffset": str(newest.physical_offset),
        }
        return Command(0, fields, b"".join(record for _, record in found))

    def _is_shown(self, message: StoredMessage, call: ClassicCall) -> bool:
        if is_brokers_topic(message.topic):
            return False
        return may_see(call, self._store.tables, message.topic, message.properties)
