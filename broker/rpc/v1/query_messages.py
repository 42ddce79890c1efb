"""QueryByKey and QueryById, for clients and for operators alike.

Broker and Admin serve the same two methods; they differ in the topics that may be read. Operators
also look messages up by tag.
"""

import asyncio

from broker.model.cold_read import ColdRead, LongChain
from broker.model.errors import DiskSlow
from broker.rpc.call import Call
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.service import COLD_READS_MAX
from broker.rpc.topic_access import TopicCheck, Topics, find_readable
from broker.rpc.v1.convert import proto_message
from broker.services.query import Query


class QueryMessages:
    """Lookups of messages; `check` says who may read which topic."""

    __slots__ = ("_check", "_query", "_topics", "_turn")

    def __init__(self, query: Query, topics: Topics, *, check: TopicCheck) -> None:
        self._query = query
        self._topics = topics
        self._check = check
        self._turn = asyncio.Lock()

    async def by_key_in_turns(
        self, request: pb.QueryByKeyRequest, call: Call
    ) -> pb.QueryByKeyResponse:
        """Return what `by_key` does; of pages that end at a limit one a turn of the event loop."""
        async with self._turn:
            answer = self.by_key(request, call)
            if answer.next_page_token:
                await asyncio.sleep(0)
        return answer

    def by_key(self, request: pb.QueryByKeyRequest, call: Call) -> pb.QueryByKeyResponse:
        """Return one page of the messages that carry a key.

        Errors   those of finding the topic and of `Query.by_key`
        """
        return self._page(request, "")

    def by_tag(self, request: pb.QueryByKeyRequest, call: Call) -> pb.QueryByKeyResponse:
        """Return one page of the messages whose tag is the request's key.

        Errors   those of finding the topic and of `Query.by_key`
        """
        return self._page(request, "T")

    async def by_id_in_turns(
        self, request: pb.QueryByIdRequest, call: Call
    ) -> pb.QueryByIdResponse:
        """Return the message with an id; other calls get their turn between pages of a search.

        Ids that hash alike make a long chain; many such searches take turns one at a time.
        Errors   those of `by_id`, DiskSlow
        """
        cursor, cold_count = "", 0
        while True:
            try:
                async with self._turn:
                    try:
                        return self.by_id(request, call, cursor=cursor)
                    except LongChain as chain:
                        cursor = chain.cursor
                        await asyncio.sleep(0)
            except ColdRead as cold:
                cold_count += 1
                if cold_count > COLD_READS_MAX:
                    raise DiskSlow(tries=COLD_READS_MAX) from cold
                await asyncio.to_thread(cold.fetch)

    def by_id(
        self, request: pb.QueryByIdRequest, call: Call, *, cursor: str = ""
    ) -> pb.QueryByIdResponse:
        """Return the message with an id.

        Errors   those of finding the topic and of `Query.by_id`
        """
        find_readable(self._topics, request.topic, "", self._check)
        found = self._query.by_id(request.topic, request.id, cursor=cursor)
        return pb.QueryByIdResponse(message=proto_message(found))

    def _page(self, request: pb.QueryByKeyRequest, index_type: str) -> pb.QueryByKeyResponse:
        find_readable(self._topics, request.topic, "", self._check)
        page = self._query.by_key(
            request.topic,
            request.key,
            count_max=request.max,
            begin_ms=request.begin_ms,
            end_ms=request.end_ms,
            cursor=request.page_token,
            index_type=index_type,
        )
        return pb.QueryByKeyResponse(
            messages=map(proto_message, page.messages),
            complete=page.complete,
            next_page_token=page.next_cursor,
        )
