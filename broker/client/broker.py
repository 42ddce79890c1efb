"""The command line's gRPC client: one method for each of the broker's; Admin's: admin.py.

Answers and errors are the plain values of values.py; stored messages are as everywhere
else. A pull that waits has as much longer to answer.
"""

from collections.abc import Sequence
from typing import Final

from broker.client.admin import ADMIN, AdminClient, queue_state
from broker.client.values import (
    KeyQuery,
    Outgoing,
    PullPage,
    PullQuery,
    QueueState,
    Receipt,
    Wait,
)
from broker.format.hosts import host_from_text
from broker.model.message import StoredMessage
from broker.model.results import Bound, PullStatus, PutStatus, QueryResult
from broker.rpc.pb import broker_pb2

BROKER: Final = "/pocketmq.v1.Broker/"


class BrokerClient(AdminClient):
    """A connection to one endpoint, "host:port", for the length of an `async with`.

    Errors   of every method: ClientError and its kinds
    """

    __slots__ = ()

    # --- pocketmq.v1.Broker -----------------------------------------------------------------------

    async def send(
        self, messages: Sequence[Outgoing], *, wait: Wait = Wait.DURABLE
    ) -> list[Receipt]:
        """Send messages of one topic: all are stored or none; receipts in their order."""
        request = broker_pb2.SendMessageRequest(
            messages=map(_proto_outgoing, messages), wait=wait.name
        )
        answer = await self.ask(BROKER + "SendMessage", request, broker_pb2.SendMessageResponse)
        return [_receipt(result) for result in answer.results]

    async def pull(self, query: PullQuery) -> PullPage:
        """Pull messages of one queue as a client."""
        return await self._pull(BROKER, query)

    async def query_by_key(self, query: KeyQuery) -> QueryResult:
        """Return a page of the messages that carry a key, newest first."""
        return await self._query(BROKER + "QueryByKey", query)

    async def query_by_id(self, topic: str, message_id: str) -> StoredMessage:
        """Return the message with a unique key or offset id."""
        return await self._query_by_id(BROKER, topic, message_id)

    async def query_by_time(self, topic: str, queue_id: int, time_ms: int, bound: Bound) -> int:
        """Return where a queue stands at a time."""
        request = broker_pb2.QueryByTimeRequest(
            topic=topic, queue_id=queue_id, time_ms=time_ms, bound=bound.name
        )
        answer = await self.ask(BROKER + "QueryByTime", request, broker_pb2.QueryByTimeResponse)
        return answer.queue_offset

    async def query_offsets(self, topic: str, queue_id: int) -> QueueState:
        """Return where a queue begins and ends."""
        request = broker_pb2.QueryOffsetsRequest(topic=topic, queue_id=queue_id)
        answer = await self.ask(BROKER + "QueryOffsets", request, broker_pb2.QueryOffsetsResponse)
        return queue_state(queue_id, answer)

    async def commit_offset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Remember where a group stands; durable when this returns."""
        request = broker_pb2.CommitOffsetRequest(
            group=group, topic=topic, queue_id=queue_id, offset=queue_offset
        )
        await self.ask(BROKER + "CommitOffset", request, broker_pb2.CommitOffsetResponse)

    async def fetch_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where a group stands, None before its first commit."""
        request = broker_pb2.FetchOffsetRequest(group=group, topic=topic, queue_id=queue_id)
        answer = await self.ask(BROKER + "FetchOffset", request, broker_pb2.FetchOffsetResponse)
        return answer.offset if answer.HasField("offset") else None

    # --- reading, by pocketmq.v1.Admin ------------------------------------------------------------

    async def admin_pull(self, query: PullQuery) -> PullPage:
        """Pull messages of one queue as an operator, who may read system topics."""
        return await self._pull(ADMIN, query)

    async def admin_query_by_key(self, query: KeyQuery) -> QueryResult:
        """Look up by key as an operator, who may read system topics."""
        return await self._query(ADMIN + "QueryByKey", query)

    async def admin_query_by_tag(self, query: KeyQuery) -> QueryResult:
        """Return a page of the messages whose tag is the query's key, newest first."""
        return await self._query(ADMIN + "QueryByTag", query)

    async def admin_query_by_id(self, topic: str, message_id: str) -> StoredMessage:
        """Look up by id as an operator, who may read system topics."""
        return await self._query_by_id(ADMIN, topic, message_id)

    # --- the wire ---------------------------------------------------------------------------------

    async def _query(self, method: str, query: KeyQuery) -> QueryResult:
        request = broker_pb2.QueryByKeyRequest(
            topic=query.topic,
            key=query.key,
            max=query.count_max,
            begin_ms=query.begin_ms,
            end_ms=query.end_ms,
            page_token=query.page_token,
        )
        answer = await self.ask(method, request, broker_pb2.QueryByKeyResponse)
        messages = [stored_message(message) for message in answer.messages]
        return QueryResult(messages, answer.complete, answer.next_page_token)

    async def _query_by_id(self, service: str, topic: str, message_id: str) -> StoredMessage:
        request = broker_pb2.QueryByIdRequest(topic=topic, id=message_id)
        answer = await self.ask(service + "QueryById", request, broker_pb2.QueryByIdResponse)
        return stored_message(answer.message)

    async def _pull(self, service: str, query: PullQuery) -> PullPage:
        wanted = broker_pb2.Filter
        request = broker_pb2.PullMessageRequest(
            group=query.group,
            topic=query.topic,
            queue_id=query.queue_id,
            offset=query.queue_offset,
            max_messages=query.max_messages,
            max_bytes=query.max_bytes,
            filter=wanted(
                kind=wanted.SQL if query.sql else wanted.TAG, expression=query.expression
            ),
            wait_ms=query.wait_ms,
            shape=query.shape.name,
            commit_offset=query.commit_offset,
        )
        answer = await self.ask(
            service + "PullMessage",
            request,
            broker_pb2.PullMessageResponse,
            wait_ms=max(query.wait_ms, 0),
        )
        return PullPage(
            status=PullStatus(answer.status),
            next_begin_offset=answer.next_begin_offset,
            min_offset=answer.min_offset,
            max_offset=answer.max_offset,
            messages=[stored_message(message) for message in answer.messages],
            records=answer.records,
        )


def stored_message(message: broker_pb2.StoredMessage) -> StoredMessage:
    """Return a message of an answer as it was stored."""
    return StoredMessage(
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        store_size=message.store_size,
        body=message.body,
        body_crc=message.body_crc,
        properties=dict(message.properties),
        system_flag=message.system_flag,
        flag=message.flag,
        reconsume_times=message.reconsume_times,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=host_from_text(message.born_host),
        store_timestamp_ms=message.store_timestamp_ms,
        store_host=host_from_text(message.store_host),
        prepared_transaction_offset=message.prepared_transaction_offset,
    )


def _proto_outgoing(message: Outgoing) -> broker_pb2.Message:
    return broker_pb2.Message(**vars(message))


def _receipt(result: broker_pb2.SendResult) -> Receipt:
    fields = {name: getattr(result, name) for name in Receipt._fields}
    return Receipt(**{**fields, "status": PutStatus(result.status)})
