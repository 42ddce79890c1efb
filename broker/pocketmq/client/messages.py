"""Pulls and queries, which both Broker and Admin serve."""

from pocketmq.client.channel import Stub, value_of
from pocketmq.client.values import KeyQuery, PullPage, PullQuery, check_kind
from pocketmq.format.addresses import host_from_text
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import PullStatus, QueryResult
from pocketmq.rpc.pb import broker_pb2


async def pull(stub: Stub, query: PullQuery) -> PullPage:
    """Pulls messages of one queue."""
    check_kind(query, PullQuery)
    kind = broker_pb2.Filter.SQL if query.sql else broker_pb2.Filter.TAG
    answer = await stub.ask(
        "PullMessage",
        is_repeatable=query.commit_offset is None and not query.begin,
        wait_for_ms=query.wait_ms,
        group=query.group,
        topic=query.topic,
        queue_id=query.queue_id,
        offset=query.queue_offset,
        max_messages=query.max_messages,
        max_bytes=query.max_bytes,
        filter=broker_pb2.Filter(kind=kind, expression=query.expression),
        wait_ms=query.wait_ms,
        shape=query.shape.name,
        commit_offset=query.commit_offset,
        begin=query.begin,
        client_id=query.client_id,
    )
    messages = [stored_message(message) for message in answer.messages]
    return value_of(PullPage, answer, status=PullStatus(answer.status), messages=messages)


async def find_by_key(stub: Stub, method: str, query: KeyQuery) -> QueryResult:
    """Returns a page of the messages with a key (for QueryByTag: a tag), newest first."""
    check_kind(query, KeyQuery)
    fields = query._asdict()
    answer = await stub.read(method, max=fields.pop("count_max"), **fields)
    messages = [stored_message(message) for message in answer.messages]
    return QueryResult(messages, answer.complete, answer.next_page_token)


async def find_by_id(stub: Stub, topic: str, message_id: str) -> StoredMessage:
    """Returns the message with a unique key or offset id."""
    return stored_message((await stub.read("QueryById", topic=topic, id=message_id)).message)


def stored_message(message: broker_pb2.StoredMessage) -> StoredMessage:
    """Returns a protobuf message as a StoredMessage."""
    fields = {name: getattr(message, name) for name in StoredMessage.__slots__}
    fields["properties"] = dict(message.properties)
    for name in ("born_host", "store_host"):
        fields[name] = host_from_text(fields[name])
    return StoredMessage(**fields)
