"""Messages, receipts, topics, groups and offsets as JSON documents.

The proto3 mapping with the names of the proto: every field is there, except optional ones that are
unset; enums go by name, bytes as base64; 64-bit integers are numbers. Properties stand in the order
of their names, `body_text` beside `body` where that is UTF-8.
"""

from base64 import b64encode
from typing import Any, Final

from broker.client.values import GroupState, Receipt, TopicState
from broker.format.hosts import text_from_host
from broker.format.message_id import offset_message_id
from broker.model.administration import MovedOffset, TopicCounts, TopicLag
from broker.model.message import DELAY, DELIVER_AT, SHARDING_KEY, StoredMessage
from broker.model.results import PutStatus

Document = dict[str, Any]

SEND_STATUS_NAMES: Final = {
    PutStatus.OK: "SEND_OK",
    PutStatus.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    PutStatus.FLUSH_REPLICA_TIMEOUT: "FLUSH_REPLICA_TIMEOUT",
    PutStatus.REPLICA_NOT_AVAILABLE: "REPLICA_NOT_AVAILABLE",
}
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


def message_document(message: StoredMessage) -> Document:
    """Return a stored message."""
    properties = message.properties
    document: Document = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "store_size": message.store_size,
        "message_id": message.unique_key,
        "offset_message_id": offset_message_id(message.store_host, message.physical_offset),
        "tag": message.tag,
        "keys": message.keys,
        "message_group": properties.get(SHARDING_KEY),
        "properties": dict(sorted(properties.items())),
        "body": b64encode(message.body).decode(),
        "body_text": _text(message.body),
        "body_crc": message.body_crc,
        "system_flag": message.system_flag,
        "flag": message.flag,
        "reconsume_times": message.reconsume_times,
        "born_timestamp_ms": message.born_timestamp_ms,
        "born_host": text_from_host(message.born_host),
        "store_timestamp_ms": message.store_timestamp_ms,
        "store_host": text_from_host(message.store_host),
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "delay_level": _number(properties.get(DELAY), INT32_MAX),
        "deliver_at_ms": _number(properties.get(DELIVER_AT), INT64_MAX),
    }
    return {name: value for name, value in document.items() if value is not None}


def receipt_document(receipt: Receipt) -> Document:
    """Return where a message that was sent lies."""
    return {**receipt._asdict(), "status": SEND_STATUS_NAMES[receipt.status]}


def topic_document(topic: TopicState) -> Document:
    """Return a topic, with its queues where they are known."""
    document = topic._asdict()
    queues = [queue._asdict() for queue in document.pop("queues")]
    return {**document, "queues": queues} if queues else document


def counts_document(counts: TopicCounts) -> Document:
    """Return how many messages a topic holds, with its queues where they were asked for."""
    document = counts._asdict()
    queues = [
        {**queue._asdict(), "message_count": queue.max_offset - queue.min_offset}
        for queue in document.pop("queues")
    ]
    return {**document, "queues": queues} if queues else document


def group_document(group: GroupState) -> Document:
    """Return a group, its settings beside its name."""
    document = group._asdict()
    settings = document.pop("settings")._asdict()
    topics = document.pop("topics")
    return {"name": document.pop("name"), **settings, **document} | (
        {"topics": topics} if topics else {}
    )


def lag_documents(lag: TopicLag) -> list[Document]:
    """Return a group's lag in a topic, one document a queue; else one, without queue and age."""
    place = {"group": lag.group, "topic": lag.topic}
    if not lag.queues:
        sums = {"committed_sum": lag.committed_sum, "lag_messages": lag.lag_messages}
        return [{**place, **sums}]
    rows = [{**place, **queue._asdict()} for queue in lag.queues]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def moved_document(group: str, moved: MovedOffset) -> Document:
    """Return where a group stood in a queue, absent for nowhere, and where it stands now."""
    row = {"group": group, **moved._asdict()}
    return {name: value for name, value in row.items() if value is not None}


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _number(text: str | None, largest: int) -> int | None:
    """Return a property's number, None for none and for what is no number the field can hold."""
    if text is None or len(text) > 20:
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -largest - 1 <= value <= largest else None
