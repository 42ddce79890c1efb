"""The command line's gRPC client: one method here for each of the broker's.

Answers and errors are the plain values of client_values.py; stored messages are as everywhere
else. A pull that waits has as much longer to answer.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

from broker.format.hosts import host_from_text
from broker.model.message import StoredMessage
from broker.model.results import Bound, PullStatus, PutStatus, QueryResult
from broker.rpc.client_values import (
    ClientError,
    DeadlineExceeded,
    KeyQuery,
    Outgoing,
    PullPage,
    PullQuery,
    QueueState,
    Receipt,
    StoreStatus,
    TopicPage,
    TopicState,
    Unreachable,
    Wait,
)
from broker.rpc.pb import admin_pb2, broker_pb2
from broker.rpc.status import DETAILS_KEY, ERROR_INFO_URL, RETRY_INFO_URL

TIMEOUT_MS: Final = 10_000
MESSAGE_SIZE_MAX: Final = 17 * 1024 * 1024
"""More than the broker ever sends."""
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_SIZE_MAX),
    ("grpc.max_send_message_length", MESSAGE_SIZE_MAX),
    ("grpc.enable_http_proxy", 0),  # brokers are spoken to directly
)
BROKER: Final = "/pocketmq.v1.Broker/"
ADMIN: Final = "/pocketmq.v1.Admin/"

_Answer = TypeVar("_Answer", bound=Message)


class BrokerClient:
    """A connection to one endpoint, "host:port", for the length of an `async with`.

    Errors   of every method: ClientError and its kinds
    """

    __slots__ = ("_channel", "_endpoint", "_methods", "_timeout_ms")

    def __init__(self, endpoint: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self._endpoint = endpoint
        self._timeout_ms = timeout_ms
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}

    async def __aenter__(self) -> Self:
        self._channel = grpc.aio.insecure_channel(self._endpoint, options=OPTIONS)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()

    # --- pocketmq.v1.Broker -----------------------------------------------------------------------

    async def send(
        self, messages: Sequence[Outgoing], *, wait: Wait = Wait.DURABLE
    ) -> list[Receipt]:
        """Send messages of one topic: all are stored or none; receipts in their order."""
        request = broker_pb2.SendMessageRequest(
            messages=map(_proto_outgoing, messages), wait=wait.name
        )
        answer = await self._ask(BROKER + "SendMessage", request, broker_pb2.SendMessageResponse)
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
        answer = await self._ask(BROKER + "QueryByTime", request, broker_pb2.QueryByTimeResponse)
        return answer.queue_offset

    async def query_offsets(self, topic: str, queue_id: int) -> QueueState:
        """Return where a queue begins and ends."""
        request = broker_pb2.QueryOffsetsRequest(topic=topic, queue_id=queue_id)
        answer = await self._ask(BROKER + "QueryOffsets", request, broker_pb2.QueryOffsetsResponse)
        return _queue_state(queue_id, answer)

    async def commit_offset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Remember where a group stands; durable when this returns."""
        request = broker_pb2.CommitOffsetRequest(
            group=group, topic=topic, queue_id=queue_id, offset=queue_offset
        )
        await self._ask(BROKER + "CommitOffset", request, broker_pb2.CommitOffsetResponse)

    async def fetch_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where a group stands, None before its first commit."""
        request = broker_pb2.FetchOffsetRequest(group=group, topic=topic, queue_id=queue_id)
        answer = await self._ask(BROKER + "FetchOffset", request, broker_pb2.FetchOffsetResponse)
        return answer.offset if answer.HasField("offset") else None

    # --- pocketmq.v1.Admin ------------------------------------------------------------------------

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

    async def create_topic(
        self, name: str, *, queue_count: int = 0, type_name: str = "NORMAL"
    ) -> TopicState:
        """Make a topic; `type_name` is one of the proto's TopicType, in any case."""
        request = admin_pb2.CreateTopicRequest(
            name=name, queue_count=queue_count, type=type_name.upper()
        )
        answer = await self._ask(ADMIN + "CreateTopic", request, admin_pb2.CreateTopicResponse)
        return _topic_state(answer.topic, [])

    async def list_topics(
        self, *, page_size: int = 0, page_token: str = "", include_system: bool = False
    ) -> TopicPage:
        """Return a page of the topics, by name, without their queues."""
        request = admin_pb2.ListTopicsRequest(
            page_size=page_size, page_token=page_token, include_system=include_system
        )
        answer = await self._ask(ADMIN + "ListTopics", request, admin_pb2.ListTopicsResponse)
        topics = [_topic_state(topic, []) for topic in answer.topics]
        return TopicPage(topics, answer.next_page_token)

    async def describe_topic(self, name: str) -> TopicState:
        """Return a topic with its queues."""
        request = admin_pb2.DescribeTopicRequest(name=name)
        answer = await self._ask(ADMIN + "DescribeTopic", request, admin_pb2.DescribeTopicResponse)
        queues = [_queue_state(queue.queue_id, queue) for queue in answer.queues]
        return _topic_state(answer.topic, queues)

    async def store_status(self) -> StoreStatus:
        """Return what the store is doing and how far it has come."""
        request = admin_pb2.StoreStatusRequest()
        answer = await self._ask(ADMIN + "StoreStatus", request, admin_pb2.StoreStatusResponse)
        return StoreStatus(**{name: getattr(answer, name) for name in StoreStatus._fields})

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
        answer = await self._ask(method, request, broker_pb2.QueryByKeyResponse)
        messages = [stored_message(message) for message in answer.messages]
        return QueryResult(messages, answer.complete, answer.next_page_token)

    async def _query_by_id(self, service: str, topic: str, message_id: str) -> StoredMessage:
        request = broker_pb2.QueryByIdRequest(topic=topic, id=message_id)
        answer = await self._ask(service + "QueryById", request, broker_pb2.QueryByIdResponse)
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
        answer = await self._ask(
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

    async def _ask(
        self, path: str, request: Message, answer_type: type[_Answer], *, wait_ms: int = 0
    ) -> _Answer:
        method = self._methods.get(path)
        if method is None:
            method = self._methods[path] = self._channel.unary_unary(
                path,
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer_type.FromString,
            )
        try:
            answer: _Answer = await method(request, timeout=(self._timeout_ms + wait_ms) / 1000)
        except grpc.aio.AioRpcError as error:
            raise self._client_error(error) from error
        return answer

    def _client_error(self, error: grpc.aio.AioRpcError) -> ClientError:
        """Return what a status means for whoever asked."""
        code, message = error.code(), error.details() or ""
        details = _details(error)
        if details is not None:
            return _told_error(code.name, message, details)
        is_connected = self._channel.get_state() is grpc.ChannelConnectivity.READY
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and is_connected:
            text = f"{self._endpoint} did not answer in time"
            return DeadlineExceeded("DeadlineExceeded", text, code=code.name, retryable=True)
        if code in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE):
            text = f"nobody answers at {self._endpoint}: {message}"
            return Unreachable("Unreachable", text, code=code.name, retryable=True)
        return ClientError(code.name, message, code=code.name)


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


def _queue_state(
    queue_id: int, state: broker_pb2.QueryOffsetsResponse | admin_pb2.QueueState
) -> QueueState:
    return QueueState(
        queue_id,
        state.min_offset,
        state.max_offset,
        state.min_store_timestamp_ms,
        state.max_store_timestamp_ms,
    )


def _topic_state(topic: admin_pb2.Topic, queues: list[QueueState]) -> TopicState:
    return TopicState(
        name=topic.name,
        read_queue_count=topic.read_queue_count,
        write_queue_count=topic.write_queue_count,
        permission=topic.permission,
        type=admin_pb2.TopicType.Name(topic.type),
        system=topic.system,
        order=topic.order,
        attributes=dict(topic.attributes),
        queues=queues,
    )


def _details(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    """Return the google.rpc.Status that came with a status, None when none did."""
    raw = error.trailing_metadata().get(DETAILS_KEY)
    if not isinstance(raw, bytes):
        return None
    try:
        return status_pb2.Status.FromString(raw)
    except DecodeError:
        return None


def _told_error(code: str, message: str, details: status_pb2.Status) -> ClientError:
    """Return the error that google.rpc details tell of."""
    parts = {part.type_url: part.value for part in details.details}
    info = error_details_pb2.ErrorInfo.FromString(parts.get(ERROR_INFO_URL, b""))
    return ClientError(
        info.reason or code,
        message,
        code=code,
        retryable=RETRY_INFO_URL in parts,
        fields=dict(info.metadata),
    )
