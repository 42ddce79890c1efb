"""Exports spans and metrics to a receiver of OpenTelemetry, by OTLP over gRPC.

The module is imported only if an endpoint is set, as it requires the packages of the extra `otel`.
The exporters of OpenTelemetry's SDK read environment variables such as OTEL_EXPORTER_OTLP_HEADERS.
"""

import logging
from collections.abc import Iterable, Sequence
from time import time_ns
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Gauge as GaugePoints
from opentelemetry.sdk.metrics.export import Histogram as HistogramPoints
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from pocketmq import __version__
from pocketmq.metrics.text_format import Family
from pocketmq.model.spans import Span
from pocketmq.model.stats import Histogram

TIMEOUT_S: Final = 10.0
"""Upper limit of the time of one export, including retries."""
SCOPE: Final = InstrumentationScope("pocketmq", __version__)
NS: Final = 1_000_000
SERVED: Final = ("send", "deliver", "ack")
"""Operations that clients request; other operations have internal spans."""
CUMULATIVE: Final = AggregationTemporality.CUMULATIVE


class _LastWords(logging.Handler):
    """Stores the last message of the SDK's loggers: the reason why an export failed."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Stores a message."""
        self.text = record.getMessage()
        assert self.text, "a message without text"


class OtlpExporter:
    """A connection to one receiver, opened by the first export; calls block the thread.

    endpoint   http://HOST:PORT, or https://HOST:PORT for TLS
    instance   attribute service.instance.id; "": the attribute is not set
    """

    def __init__(self, endpoint: str, instance: str = "", timeout_s: float = TIMEOUT_S) -> None:
        self._spans = OTLPSpanExporter(endpoint=endpoint, timeout=timeout_s)
        self._metrics = OTLPMetricExporter(endpoint=endpoint, timeout=timeout_s)
        self._resource = resource_of(instance)
        self._begun_ns = time_ns()
        self._words = _LastWords()
        sdk = logging.getLogger("opentelemetry")
        sdk.addHandler(self._words)
        sdk.propagate = False

    def export_spans(self, spans: Iterable[Span]) -> str:
        """Exports spans; returns "" or the reason of the failure.

        Cost     at most `timeout_s`
        """
        self._words.text = ""
        done = self._spans.export([readable(span, self._resource) for span in spans])
        return "" if done is SpanExportResult.SUCCESS else self._reason()

    def export_metrics(self, families: Iterable[Family]) -> str:
        """Exports the present values of metrics; returns "" or the reason of the failure."""
        self._words.text = ""
        now_ns = time_ns()
        metrics = [metric_of(family, self._begun_ns, now_ns) for family in families]
        scopes = [ScopeMetrics(SCOPE, metrics, schema_url="")]
        data = MetricsData([ResourceMetrics(self._resource, scopes, schema_url="")])
        done = self._metrics.export(data, timeout_millis=TIMEOUT_S * 1000)
        return "" if done is MetricExportResult.SUCCESS else self._reason()

    def close(self) -> None:
        """Closes the connection; ends an export in progress."""
        self._spans.shutdown()
        self._metrics.shutdown()
        logging.getLogger("opentelemetry").removeHandler(self._words)

    def _reason(self) -> str:
        return self._words.text or "the receiver did not accept it"


def resource_of(instance: str) -> Resource:
    """Returns the attributes of this service; OTEL_RESOURCE_ATTRIBUTES overrides them."""
    own = {
        "service.name": "pocketmq",
        "service.version": __version__,
        **({"service.instance.id": instance} if instance else {}),
    }
    return Resource({**own, **OTELResourceDetector().detect().attributes})


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """Returns a span in the form of OpenTelemetry's SDK."""
    trace_id = int(span.trace_id, 16)
    operation = span.attributes["messaging.operation.name"]
    return ReadableSpan(
        name=span.name,
        context=_context(trace_id, span.span_id),
        parent=_context(trace_id, span.parent_id) if span.parent_id else None,
        resource=resource,
        attributes=span.attributes,
        kind=SpanKind.SERVER if operation in SERVED else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, "no attempts left") if span.is_error else Status(),
        start_time=span.begin_ms * NS,
        end_time=span.end_ms * NS,
        instrumentation_scope=SCOPE,
    )


def _context(trace_id: int, span_id: str) -> SpanContext:
    return SpanContext(trace_id, int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1))


def metric_of(family: Family, begun_ns: int, now_ns: int) -> Metric:
    """Returns a family of /metrics in the form of OpenTelemetry's SDK, under the same name."""
    data: Sum | GaugePoints | HistogramPoints
    if family.kind == "histogram":
        histograms = [one for one in family.series if isinstance(one, Histogram)]
        points = [_buckets(family, one, begun_ns, now_ns) for one in histograms]
        data = HistogramPoints(points, CUMULATIVE)
    else:
        numbers = _numbers(family, begun_ns, now_ns)
        is_counter = family.kind == "counter"
        data = Sum(numbers, CUMULATIVE, is_monotonic=True) if is_counter else GaugePoints(numbers)
    return Metric(family.name, family.help, unit="", data=data)


def _numbers(family: Family, begun_ns: int, now_ns: int) -> Sequence[NumberDataPoint]:
    fixed = tuple(family.fixed.values())
    return [
        NumberDataPoint(
            dict(zip(family.label_names, (*fixed, *one[0]), strict=True)),
            begun_ns,
            now_ns,
            float(one[1]),
        )
        for one in family.series
        if not isinstance(one, Histogram)
    ]


def _buckets(family: Family, one: Histogram, begun_ns: int, now_ns: int) -> HistogramDataPoint:
    counts = [*one.counts]
    return HistogramDataPoint(
        attributes={**family.fixed, **one.labels},
        start_time_unix_nano=begun_ns,
        time_unix_nano=now_ns,
        count=sum(counts),
        sum=one.sum,
        bucket_counts=counts,
        explicit_bounds=one.buckets,
        min=None,  # type: ignore[arg-type] # unknown; the field is optional in the protocol
        max=None,  # type: ignore[arg-type]
    )
