"""`pocketmq msg trace --otlp`: the records of a message as spans of OpenTelemetry."""

from collections.abc import Sequence
from contextlib import suppress

from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.output import Exit, Failure, talk
from pocketmq.client import ClientError
from pocketmq.model.message import StoredMessage
from pocketmq.model.spans import Span, context_of, derived_context, is_shown, traced_span
from pocketmq.model.tracing import TracedRecord


def export_trace(
    broker: BrokerConnection, endpoint: str, key: str, records: Sequence[TracedRecord]
) -> None:
    """Exports the spans of a message's records, in the message's trace if it has one.

    key      unique key
    Errors   Failure: packages are missing, or the receiver did not accept the spans
    """
    try:
        from pocketmq.metrics.otlp import OtlpExporter
    except ImportError as error:
        text = f"--otlp needs packages that are missing: {error.name}"
        raise Failure(text, Exit.FAILED, "pip install '/path/to/pocketmq[otel]'") from error
    spans = spans_of(broker, key, records)
    exporter = OtlpExporter(endpoint)
    try:
        reason = exporter.export_spans(spans)
    finally:
        exporter.close()
    if reason:
        text = f"{endpoint} did not accept the spans: {reason}"
        raise Failure(text, Exit.UNREACHABLE, "check that it receives OTLP over gRPC, port 4317")
    talk(f"exported {len(spans)} spans of trace {spans[0].trace_id}")


def spans_of(broker: BrokerConnection, key: str, records: Sequence[TracedRecord]) -> list[Span]:
    """Returns the spans of a message's records."""
    message = _readable(broker, key, records)
    properties = {} if message is None else message.properties
    context = context_of(properties) or derived_context(key)
    return [traced_span(context, record, key, message) for record in records if is_shown(record)]


def _readable(
    broker: BrokerConnection, key: str, records: Sequence[TracedRecord]
) -> StoredMessage | None:
    """Returns the message from the first topic that can be queried; None if no topic can."""
    for topic in dict.fromkeys(record.topic for record in records):
        with suppress(ClientError):
            return broker.ask(broker.reader(topic).query_by_id(topic, key))
    return None
