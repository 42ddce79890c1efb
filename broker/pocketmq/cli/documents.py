"""Messages, receipts, topics, groups and offsets as JSON documents.

They follow proto3's JSON mapping, with the field names of the proto files. Every field is present,
except unset optional ones. An enum value is its name, bytes are base64, 64-bit integers are
numbers. Properties are sorted by name. A body that is UTF-8 has `body_text` beside `body`.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

from pocketmq.cli.output import Column, PrintedRows, at, columns
from pocketmq.client import GroupState, Leased, Receipt, TopicState
from pocketmq.format.record import message_fields
from pocketmq.model.administration import MovedOffset, PurgedQueue, TopicCounts, TopicLag
from pocketmq.model.batch import PutStatus
from pocketmq.model.message import StoredMessage
from pocketmq.model.tracing import TracedRecord

Document = dict[str, Any]

LISTED_COUNTS: Final = (
    "message_count", "size_bytes", "size_estimated", "in_per_s", "last_store_timestamp_ms",
)  # fmt: skip
"""Fields of a topic's counts that a list of topics has."""
PAGE_COUNT: Final = 256
"""Upper limit of messages in one request."""
MESSAGE_COLUMNS: Final = columns(
    "queue_id", "queue_offset", at("store_timestamp_ms"), "message_id", "tag", "keys",
    Column("body_text", lambda row: row.get("body_text", f"({row['body']})"), also=("body",)),
)  # fmt: skip
FOUND_COLUMNS: Final = [*columns("topic"), *MESSAGE_COLUMNS]
"""Columns of messages of several topics."""
SEND_STATUS_NAMES: Final = {
    PutStatus.OK: "SEND_OK",
    PutStatus.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    PutStatus.FLUSH_REPLICA_TIMEOUT: "FLUSH_REPLICA_TIMEOUT",
    PutStatus.REPLICA_NOT_AVAILABLE: "REPLICA_NOT_AVAILABLE",
}


def message_document(message: StoredMessage) -> Document:
    """Returns the document of a stored message."""
    return fields_document(message_fields(message))


def fields_document(fields: Mapping[str, Any]) -> Document:
    """Returns the document of a message that is given as its fields (`message_fields`)."""
    document: Document = {}
    for name, value in fields.items():
        document[name] = value
        if name == "body":
            document |= {"body": b64encode(value).decode(), "body_text": _text(value)}
    document["properties"] = dict(sorted(fields["properties"].items()))
    return {name: value for name, value in document.items() if value is not None}


def leased_document(leased: Leased) -> Document:
    """Returns the document of a received message, with its receipt handle."""
    lease = {
        "attempt": leased.attempt,
        "receipt_handle": leased.receipt_handle,
        "invisible_until_ms": leased.invisible_until_ms,
    }
    return {**message_document(leased.message), **lease}


def receipt_document(receipt: Receipt) -> Document:
    """Returns the document of a send receipt, without an empty recall handle or transaction id."""
    document = {**receipt._asdict(), "status": SEND_STATUS_NAMES[receipt.status]}
    for name in ("recall_handle", "transaction_id"):
        if not document[name]:
            del document[name]
    return document


def topic_document(topic: TopicState) -> Document:
    """Returns the document of a topic, with its queues and counts if they are known."""
    document = topic._asdict()
    counts = document.pop("counts")
    if counts is not None:
        document |= {name: getattr(counts, name) for name in LISTED_COUNTS}
    queues = [queue._asdict() for queue in document.pop("queues")]
    return {**document, "queues": queues} if queues else document


def counts_document(counts: TopicCounts) -> Document:
    """Returns the document of a topic's message counts, with its queues if they were requested."""
    document = counts._asdict()
    queues = [
        {**queue._asdict(), "message_count": queue.max_offset - queue.min_offset}
        for queue in document.pop("queues")
    ]
    return {**document, "queues": queues} if queues else document


def purged_document(queue: PurgedQueue) -> Document:
    """Returns the min offsets of a queue before and after a purge, and the purged messages."""
    return {**queue._asdict(), "message_count": queue.message_count}


def group_document(group: GroupState) -> Document:
    """Returns the document of a group; its settings are fields beside the name."""
    document = group._asdict()
    settings = document.pop("settings")._asdict()
    stats = document.pop("stats")
    if stats is not None:
        document |= stats._asdict()
    topics = document.pop("topics")
    return {"name": document.pop("name"), **settings, **document} | (
        {"topics": topics} if topics else {}
    )


def lag_documents(lag: TopicLag) -> list[Document]:
    """Returns a group's lag in a topic: one document for each queue, or one sum without queues."""
    place = {"group": lag.group, "topic": lag.topic}
    if not lag.queues:
        sums = {"committed_sum": lag.committed_sum, "lag_messages": lag.lag_messages}
        return [{**place, **sums}]
    rows = [{**place, **queue._asdict()} for queue in lag.queues]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def moved_document(group: str, moved: MovedOffset) -> Document:
    """Returns a group's old and new offset in a queue; the old one may be absent."""
    row = {"group": group, **moved._asdict()}
    return {name: value for name, value in row.items() if value is not None}


def traced_document(record: TracedRecord) -> Document:
    """Returns a record of a message's history, without fields that do not apply."""
    row = {**record._asdict(), "step": record.step.name}
    return {name: value for name, value in row.items() if value not in (None, "")}


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


class ShownMessages:
    """Prints messages as rows, at most `count_max` (None: all)."""

    __slots__ = ("_rows", "count", "left")

    def __init__(self, rows: PrintedRows, count_max: int | None) -> None:
        self._rows = rows
        self.count = 0
        self.left = count_max or inf

    def add(self, messages: Sequence[StoredMessage]) -> bool:
        """Prints messages, at most `left`; returns whether more are wanted."""
        shown = messages[: int(min(self.left, len(messages)))]
        return self.add_documents([message_document(message) for message in shown])

    def add_documents(self, documents: Sequence[Document]) -> bool:
        """Prints at most `left` documents; returns whether more are wanted."""
        for document in documents:
            self._rows.add(document)
        self._rows.flush()
        self.left -= len(documents)
        self.count += len(documents)
        assert self.left >= 0, "more documents than requested"
        return self.left > 0
