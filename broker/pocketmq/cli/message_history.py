"""The output of `pocketmq msg trace`: a message's records, and the steps that clients traced."""

from collections.abc import Iterable, Sequence
from typing import Final

import click

from pocketmq.cli.broker_names import topics
from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.documents import PAGE_COUNT, traced_document
from pocketmq.cli.options import ReadBy
from pocketmq.cli.output import Column, Document, Output, at, columns, counted, talk_notes, write
from pocketmq.client import ClientError, KeyQuery
from pocketmq.format.addresses import text_from_host
from pocketmq.format.client_trace import STEPS, ClientTrace, read_traces
from pocketmq.model.message import StoredMessage
from pocketmq.model.topic import TRACE_TOPIC
from pocketmq.model.tracing import TracedRecord

TRACES_MAX: Final = 1_024
"""Upper limit of messages of the trace topic that are read for one message."""
RECORD_COLUMNS: Final = columns(
    at("store_timestamp_ms"), "step",
    Column("topic", lambda row: row.get("origin_topic", row["topic"])), "group", "reconsume_times",
    at("deliver_at_ms"), "passed_by", "awaited_by",
)  # fmt: skip
MORE_RECORD_COLUMNS: Final = columns(
    Column("kept_in", lambda row: row["topic"]), "queue_id", "queue_offset", "physical_offset",
    "target_topic", "delay_level",
)  # fmt: skip
CLIENT_COLUMNS: Final = columns(
    at("client_timestamp_ms"), "step", "group", "client", "cost_ms", "status", "reconsume_times"
)
MORE_CLIENT_COLUMNS: Final = columns("topic", "request_id")
ONLY_CLIENTS: Final = columns("client_timestamp_ms", "client", "cost_ms", "status", "request_id")
"""Fields that only steps of clients have."""


def _endpoint_from_text(text: str) -> str:
    from pocketmq.config.texts import otlp_endpoint_from_text

    return otlp_endpoint_from_text(text)


otlp_option: Final = click.option(
    "--otlp", type=ReadBy("http://HOST:PORT", _endpoint_from_text),
    help="Export the records as spans to this receiver of OpenTelemetry (OTLP over gRPC).",
)  # fmt: skip
trace_topic_option: Final = click.option(
    "--trace-topic", shell_complete=topics, default=TRACE_TOPIC, show_default=True,
    help="Topic with the traces of clients.",
)  # fmt: skip


def print_history(
    broker: BrokerConnection,
    out: Output,
    key: str,
    records: Sequence[TracedRecord],
    trace_topic: str,
) -> None:
    """Prints the records of a message in log order, then the steps of clients by their clock.

    key          unique key of the message
    trace_topic  topic of the traces; it may not exist
    Errors       ClientError: nothing was printed
    """
    steps, notes = _client_steps(broker, trace_topic, key)
    rows = [*map(traced_document, records)]
    if out.is_table:
        out.table(rows, RECORD_COLUMNS, MORE_RECORD_COLUMNS)
        if steps:
            write("\n")
            out.table(steps, CLIENT_COLUMNS, MORE_CLIENT_COLUMNS)
    else:
        out.table([*rows, *steps], RECORD_COLUMNS, [*MORE_RECORD_COLUMNS, *ONLY_CLIENTS])
    talk_notes(notes)


def _client_steps(
    broker: BrokerConnection, topic: str, key: str
) -> tuple[list[Document], list[str]]:
    """Returns the steps that clients traced, and notes for people."""
    try:
        messages, notes = _traces(broker, topic, key)
    except ClientError as error:
        if error.reason == "AccessDenied":
            return [], [f"steps of clients are not shown: {error}"]
        if error.reason != "TopicNotFound":
            raise
        return [], []
    steps: list[ClientTrace] = []
    skipped_count = 0
    for message in messages:
        client = text_from_host(message.born_host).rpartition(":")[0]
        found, skipped = read_traces(message.body)
        skipped_count += skipped
        own = [one for one in found if key in one.message_id.split(",")]
        steps += [one if one.client else one._replace(client=client) for one in own]
    if skipped_count:
        skipped_text = counted(skipped_count, "damaged or unknown trace")
        notes.append(f"{skipped_text} in topic {topic!r} skipped")
    return [_document(one) for one in _in_order(steps)], notes


def _traces(
    broker: BrokerConnection, topic: str, key: str
) -> tuple[list[StoredMessage], list[str]]:
    """Returns the messages of a trace topic with a key, newest first, and notes for people."""
    ask = broker.reader(topic).query_by_key
    found: list[StoredMessage] = []
    token = ""
    while len(found) < TRACES_MAX:
        page = broker.ask(ask(KeyQuery(topic, key, PAGE_COUNT, page_token=token)))
        found += page.messages
        if page.complete:
            return found, []
        if not page.next_cursor:
            return found, [f"the index or the log is damaged: topic {topic!r} may have more traces"]
        token = page.next_cursor
    return found, [f"only the newest {len(found)} messages of topic {topic!r} were read"]


def _in_order(steps: Iterable[ClientTrace]) -> list[ClientTrace]:
    """Returns steps by time; a SubAfter without time or group has those of its SubBefore."""
    known = [*steps]
    begun = {one.request_id: one for one in known if one.step == "SubBefore"}
    found: list[ClientTrace] = []
    for one in known:
        before = begun.get(one.request_id)
        if before is not None and one.client_timestamp_ms is None:
            ended_ms = (before.client_timestamp_ms or 0) + (one.cost_ms or 0)
            found.append(one._replace(client_timestamp_ms=ended_ms, group=before.group))
        else:
            found.append(one)
    return sorted(found, key=lambda one: (one.client_timestamp_ms or 0, STEPS.index(one.step)))


def _document(step: ClientTrace) -> Document:
    return {name: value for name, value in step._asdict().items() if value not in (None, "")}
