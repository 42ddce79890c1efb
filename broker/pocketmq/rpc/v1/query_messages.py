"""QueryByKey and QueryById, for clients and operators.

Broker serves them for topics that clients may read, Admin for all topics with read permission.
Admin also has QueryByTag.
"""

from pocketmq.model.errors import MessageNotFound
from pocketmq.model.reading import PAGE_BYTES_MAX, KeyRange
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.topic_access import TopicCheck, find_readable, may_see
from pocketmq.rpc.v1.stored_reply import proto_message
from pocketmq.services.query import Query
from pocketmq.store.tables.tables import Tables


class QueryMessages:
    """Message queries; `check` decides which topics callers may read."""

    __slots__ = ("_check", "_query", "_tables")

    def __init__(self, query: Query, tables: Tables, *, check: TopicCheck) -> None:
        self._query = query
        self._tables = tables
        self._check = check

    async def by_key(self, request: pb.QueryByKeyRequest, call: Call) -> pb.QueryByKeyResponse:
        """Returns a page of the messages with a key.

        Errors   those of `find_readable` and `Query.by_key`
        """
        return await self._page(request, "", call)

    async def by_tag(self, request: pb.QueryByKeyRequest, call: Call) -> pb.QueryByKeyResponse:
        """Returns a page of the messages whose tag is the request's key.

        Errors   those of `find_readable` and `Query.by_key`
        """
        return await self._page(request, "T", call)

    async def by_id(self, request: pb.QueryByIdRequest, call: Call) -> pb.QueryByIdResponse:
        """Returns the message with an id.

        Errors   those of `find_readable` and `Query.by_id`
        """
        find_readable(self._tables.topics, request.topic, "", self._check)
        found = await self._query.by_id(request.topic, request.id)
        if not may_see(call, self._tables, found.topic, found.properties):
            raise MessageNotFound(topic=request.topic, message_id=request.id)
        return pb.QueryByIdResponse(message=proto_message(found))

    async def _page(
        self, request: pb.QueryByKeyRequest, index_type: str, call: Call
    ) -> pb.QueryByKeyResponse:
        find_readable(self._tables.topics, request.topic, "", self._check)
        wanted = KeyRange(
            *(request.topic, request.key, request.max, request.begin_ms, request.end_ms),
            *(request.page_token, index_type, call.room(PAGE_BYTES_MAX)),
        )
        page = await self._query.by_key(wanted)
        found = [
            message
            for message in page.messages
            if may_see(call, self._tables, message.topic, message.properties)
        ]
        call.room(sum(len(message.body) for message in found))
        return pb.QueryByKeyResponse(
            messages=map(proto_message, found),
            complete=page.complete,
            next_page_token=page.next_cursor,
        )
