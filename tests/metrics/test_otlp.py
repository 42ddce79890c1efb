"""Spans and metrics arrive at a receiver as OTLP defines them."""

import logging
from collections.abc import Iterator
from logging.handlers import BufferingHandler

import grpc
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from pocketmq import __version__
from pocketmq.metrics.exposition import Exposition
from pocketmq.metrics.otlp import OtlpExporter
from pocketmq.model.spans import Span
from pocketmq.model.stats import Counter, Gauge, Histogram, Histograms, Stat
from tests.kit.otlp_receiver import OtlpReceiver, attributes, otlp_receiver

TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(operation: str, *, parent_id: str = "b" * 16, is_error: bool = False) -> Span:
    given: dict[str, str | int] = {
        "messaging.operation.name": operation,
        "pocketmq.queue_offset": 7,
    }
    return Span(
        f"{operation} orders", TRACE, "a" * 16, parent_id, 1_000, 1_250, given, is_error=is_error
    )


@pytest.fixture(scope="module")
def started() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        yield receiver


@pytest.fixture
def receiver(started: OtlpReceiver) -> OtlpReceiver:
    """One without anything."""
    started.spans.clear()
    started.metrics.clear()
    started.refusal = None
    return started


@pytest.fixture
def exporter(receiver: OtlpReceiver) -> Iterator[OtlpExporter]:
    made = OtlpExporter(receiver.endpoint, "broker-a", timeout_s=30)
    yield made
    made.close()


def test_a_span_arrives_with_its_ids_times_and_attributes(
    receiver: OtlpReceiver, exporter: OtlpExporter
) -> None:
    assert exporter.export_spans([span("send")]) == ""
    (found,) = receiver.spans
    assert (found.trace_id.hex(), found.span_id.hex()) == (TRACE, "a" * 16)
    assert (found.parent_span_id.hex(), found.name) == ("b" * 16, "send orders")
    assert (found.start_time_unix_nano, found.end_time_unix_nano) == (10**9, 1_250_000_000)
    assert attributes(found) == {"messaging.operation.name": "send", "pocketmq.queue_offset": 7}
    assert found.status.code == Status.STATUS_CODE_UNSET


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("send", WireSpan.SPAN_KIND_SERVER),
        ("deliver", WireSpan.SPAN_KIND_SERVER),
        ("ack", WireSpan.SPAN_KIND_SERVER),
        ("delay", WireSpan.SPAN_KIND_INTERNAL),
        ("dead letter", WireSpan.SPAN_KIND_INTERNAL),
    ],
)
def test_what_clients_ask_for_is_served_and_the_rest_is_internal(
    receiver: OtlpReceiver, exporter: OtlpExporter, operation: str, kind: int
) -> None:
    exporter.export_spans([span(operation)])
    assert receiver.spans[0].kind == kind


def test_a_dead_letter_is_an_error_and_a_root_has_no_parent(
    receiver: OtlpReceiver, exporter: OtlpExporter
) -> None:
    exporter.export_spans([span("dead letter", parent_id="", is_error=True)])
    assert receiver.spans[0].status.code == Status.STATUS_CODE_ERROR
    assert receiver.spans[0].parent_span_id == b""


def test_the_service_is_named_unless_the_environment_does(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def service() -> dict[str, str]:
        exporter = OtlpExporter(receiver.endpoint, "broker-a")
        exporter.export_spans([span("send")])
        exporter.close()
        return receiver.service

    found = service()
    assert (found["service.name"], found["service.instance.id"]) == ("pocketmq", "broker-a")
    assert found["service.version"] == __version__
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-broker")
    assert service()["service.name"] == "orders-broker"


async def test_metrics_have_the_names_labels_and_values_of_the_page(
    receiver: OtlpReceiver, exporter: OtlpExporter
) -> None:
    counter = Counter("pocketmq_ack_total", "Handles.", ("result",))
    counter.add(("OK",), 3)
    histogram = Histogram("pocketmq_seconds", "Times.", (0.1, 1.0))
    for amount in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(amount)
    histograms = Histograms("rocketmq_sizes", "Sizes.", (1.0,), ("topic",))
    histograms.at(("orders",)).observe(2.0)
    gauge = Gauge("rocketmq_topic_number", "Topics.", lambda: 4.0)
    stats: list[Stat] = [counter, histogram, histograms, gauge]
    exposition = Exposition(lambda: stats, cluster="c", broker="b")
    assert exporter.export_metrics(await exposition.families_in_turns()) == ""
    acks = receiver.metrics["pocketmq_ack_total"].sum
    assert (acks.is_monotonic, acks.aggregation_temporality) == (
        True, AGGREGATION_TEMPORALITY_CUMULATIVE,
    )  # fmt: skip
    assert (attributes(acks.data_points[0]), acks.data_points[0].as_double) == ({"result": "OK"}, 3)
    (topics,) = receiver.metrics["rocketmq_topic_number"].gauge.data_points
    assert topics.as_double == 4.0
    assert attributes(topics)["cluster"] == "c"
    (times,) = receiver.metrics["pocketmq_seconds"].histogram.data_points
    assert [*times.explicit_bounds] == [0.1, 1.0]
    assert ([*times.bucket_counts], times.count, times.sum) == ([2, 1, 1], 4, 7.65)
    assert not times.HasField("min")
    (sizes,) = receiver.metrics["rocketmq_sizes"].histogram.data_points
    assert attributes(sizes)["topic"] == "orders"


def test_a_refusal_is_a_reason_and_no_line_of_the_log(
    receiver: OtlpReceiver,
) -> None:
    exporter = OtlpExporter(receiver.endpoint, "broker-a", timeout_s=3)  # It retries all the time.
    receiver.refusal = grpc.StatusCode.RESOURCE_EXHAUSTED
    logged = BufferingHandler(100)
    logging.getLogger().addHandler(logged)
    reason = exporter.export_spans([span("send")])
    logging.getLogger().removeHandler(logged)
    assert "no room" in reason
    assert logged.buffer == []
    receiver.refusal = None
    assert exporter.export_spans([span("send")]) == ""
    exporter.close()


async def test_series_beyond_the_limit_are_not_exported() -> None:
    counter = Counter("pocketmq_x_total", "X.", ("topic",))
    for number in range(10):
        counter.add((f"t{number}",))
    exposition = Exposition(lambda: [counter], cluster="c", broker="b", max_series=4)
    (shown, _) = await exposition.families_in_turns()
    assert len(shown.series) < 5
