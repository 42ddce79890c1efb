"""Spans of messages for distributed tracing, as W3C Trace Context and OpenTelemetry define them.

A message with the property `traceparent` belongs to its producer's trace. Ids of spans are hashes
of data in the log, so that a span has the same id if it is exported twice.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from pocketmq.model.message import TRACE_CONTEXT, StoredMessage
from pocketmq.model.tracing import TracedRecord, TraceStep

TRACEPARENT: Final = "traceparent"
SEND: Final = "send"
DELAY: Final = "delay"
PREPARE: Final = "prepare"
RETRY: Final = "retry"
RECALL: Final = "recall"
DEAD_LETTER: Final = "dead letter"
DELIVER: Final = "deliver"
ACK: Final = "ack"
OPERATIONS: Final = {
    TraceStep.SENT: SEND,
    TraceStep.SCHEDULED: DELAY,
    TraceStep.TIMED: DELAY,
    TraceStep.PREPARED: PREPARE,
    TraceStep.RETRIED: RETRY,
    TraceStep.DEAD_LETTER: DEAD_LETTER,
    TraceStep.RECALLED: RECALL,
}
"""Names of spans of stored records; internal records have no span."""
_TYPES: Final = {SEND: "send", DELIVER: "receive", ACK: "settle"}
_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1


class TraceContext(NamedTuple):
    """The trace of a message; `parent_id` is the id of the producer's span, "" if unknown."""

    trace_id: str
    parent_id: str
    is_sampled: bool = True


class Span(NamedTuple):
    """One operation on a message; ids are in hexadecimal, times in ms since 1970."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    begin_ms: int
    end_ms: int
    attributes: dict[str, str | int]
    is_error: bool = False


def context_of(properties: Mapping[str, str]) -> TraceContext | None:
    """Returns the trace context of a message; None if the message has no valid trace context.

    The user property `traceparent` has priority over the trace context of RocketMQ 5's protocol.
    Source   W3C Trace Context, section 3.2
    """
    for name in (TRACEPARENT, TRACE_CONTEXT):
        found = _PARENT.fullmatch(properties.get(name, ""))
        if found is None:
            continue
        version, trace_id, parent_id, flags, rest = found.groups()
        is_legal = version != "ff" and (not rest or version != "00")
        if is_legal and trace_id.strip("0") and parent_id.strip("0"):
            return TraceContext(trace_id, parent_id, bool(int(flags, 16) & _SAMPLED))
    return None


def derived_context(unique_key: str) -> TraceContext:
    """Returns the trace of a message without trace context, derived from the unique key."""
    return TraceContext(_digest(unique_key)[:32], "")


def span_id_of(*parts: object) -> str:
    """Returns a span id: a hash of `parts`."""
    return _digest(*parts)[:16]


def _digest(*parts: object) -> str:
    return sha256("\x00".join(map(str, parts)).encode()).hexdigest()


def record_span(
    context: TraceContext, step: TraceStep, message: StoredMessage, *, topic: str, group: str = ""
) -> Span:
    """Returns the span of a stored record, whose step must be one of OPERATIONS.

    topic    the topic to which consumers subscribe
    group    group whose retry or dead letter the record is; "": it is neither
    """
    is_first = step is TraceStep.SENT and not message.reconsume_times
    born_ms = message.born_timestamp_ms if is_first else message.store_timestamp_ms
    attributes = _attributes(OPERATIONS[step], topic, message, group)
    stored_ms, physical_offset = message.store_timestamp_ms, message.physical_offset
    return _of_record(context, step, topic, physical_offset, born_ms, stored_ms, attributes)


def traced_span(
    context: TraceContext, record: TracedRecord, key: str, message: StoredMessage | None = None
) -> Span:
    """Returns the span of a record of `msg trace`, with the id that `record_span` computes.

    key       unique key
    message   one of the message's records; None if no record can be read
    """
    topic, stored_ms = record.origin_topic or record.topic, record.store_timestamp_ms
    attributes = _of_place(
        OPERATIONS[record.step], topic, record.queue_id, record.queue_offset, record.physical_offset
    )
    born_ms = stored_ms
    if message is not None:
        attributes |= _of_content(message)
        if message.physical_offset == record.physical_offset and not record.reconsume_times:
            born_ms = message.born_timestamp_ms
    optional: dict[str, str | int] = {
        "messaging.message.id": key,
        "messaging.consumer.group.name": record.group,
        "pocketmq.reconsume_times": record.reconsume_times,
        "pocketmq.passed_by": ", ".join(record.passed_by),
        "pocketmq.awaited_by": ", ".join(record.awaited_by),
    }
    attributes |= {name: value for name, value in optional.items() if value}
    return _of_record(
        context, record.step, topic, record.physical_offset, born_ms, stored_ms, attributes
    )


def is_shown(record: TracedRecord) -> bool:
    """Returns whether a record has a span."""
    return record.step in OPERATIONS


def _of_record(
    context: TraceContext,
    step: TraceStep,
    topic: str,
    physical_offset: int,
    born_ms: int,
    stored_ms: int,
    attributes: dict[str, str | int],
) -> Span:
    return Span(
        f"{OPERATIONS[step]} {topic}",
        context.trace_id,
        record_span_id(context.trace_id, physical_offset),
        context.parent_id,
        min(born_ms, stored_ms),  # The producer's clock may be ahead.
        stored_ms,
        attributes,
        is_error=step is TraceStep.DEAD_LETTER,
    )


def record_span_id(trace_id: str, physical_offset: int) -> str:
    """Returns the id of the span of a stored record."""
    return span_id_of(trace_id, "record", physical_offset)


def delivery_span(
    context: TraceContext, message: StoredMessage, topic: str, group: str, popped_at_ms: int,
    stored_ms: int,
) -> Span:  # fmt: skip
    """Returns the span of a delivery, a child of the span of the delivered record.

    popped_at_ms   time of the receive
    stored_ms      store time of the receive's journal record
    """
    record_id = record_span_id(context.trace_id, message.physical_offset)
    return Span(
        f"{DELIVER} {topic}",
        context.trace_id,
        span_id_of(record_id, DELIVER, group, popped_at_ms),
        record_id,
        min(popped_at_ms, stored_ms),
        stored_ms,
        _attributes(DELIVER, topic, message, group),
    )


def ack_span(delivery: Span, stored_ms: int) -> Span:
    """Returns the span of an acknowledgement, a child of its delivery."""
    _, _, topic = delivery.name.partition(" ")
    attributes = {
        **delivery.attributes,
        "messaging.operation.name": ACK,
        "messaging.operation.type": _TYPES[ACK],
        "pocketmq.lease.held_ms": max(stored_ms - delivery.begin_ms, 0),
    }
    span_id = span_id_of(delivery.span_id, ACK)
    return Span(
        f"{ACK} {topic}", delivery.trace_id, span_id, delivery.span_id, stored_ms, stored_ms,
        attributes,
    )  # fmt: skip


def _attributes(
    operation: str, topic: str, message: StoredMessage, group: str
) -> dict[str, str | int]:
    place = message.queue_id, message.queue_offset, message.physical_offset
    optional: dict[str, str | int] = {
        "messaging.message.id": message.unique_key,
        "messaging.consumer.group.name": group,
        "pocketmq.reconsume_times": message.reconsume_times,
    }
    given = {name: value for name, value in optional.items() if value}
    return _of_place(operation, topic, *place) | _of_content(message) | given


def _of_place(
    operation: str, topic: str, queue_id: int, queue_offset: int, physical_offset: int
) -> dict[str, str | int]:
    kind = _TYPES.get(operation)
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        **({"messaging.operation.type": kind} if kind else {}),
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(queue_id),
        "pocketmq.queue_offset": queue_offset,
        "pocketmq.physical_offset": physical_offset,
    }


def _of_content(message: StoredMessage) -> dict[str, str | int]:
    keys, tag = " ".join(message.keys), message.tag
    return {
        "messaging.message.body.size": len(message.body),
        **({"messaging.rocketmq.message.keys": keys} if keys else {}),
        **({"messaging.rocketmq.message.tag": tag} if tag else {}),
    }
