"""A receiver of OpenTelemetry in this process: OTLP over gRPC on a free port of loopback.

with otlp_receiver() as receiver:
    …                      exports to receiver.endpoint
    receiver.spans         everything that has arrived; receiver.metrics by name
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Condition
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

any_grpc: Any = grpc
"""The stubs of this tree have the client's side alone."""
WAIT_S = 20.0
"""Longest wait for an export."""


class OtlpReceiver:
    """Everything that arrived: spans in order, metrics by name, attributes of the service."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.spans: list[Span] = []
        self.metrics: dict[str, Metric] = {}
        self.service: dict[str, str] = {}
        self.refusal: grpc.StatusCode | None = None
        """Answer to every export, None: accepted."""
        self._arrived = Condition()

    @property
    def names(self) -> list[str]:
        """Names of the spans that arrived."""
        return [span.name for span in self.spans]

    def trace(self, request: Any, context: Any) -> Any:
        """Receives spans."""
        self._answer(context)
        for resource in request.resource_spans:
            self._keep_service(resource.resource)
            for scope in resource.scope_spans:
                self.spans += scope.spans
        self._tell()
        return trace_pb.ExportTraceServiceResponse()

    def measure(self, request: Any, context: Any) -> Any:
        """Receives metrics."""
        self._answer(context)
        for resource in request.resource_metrics:
            self._keep_service(resource.resource)
            for scope in resource.scope_metrics:
                self.metrics |= {metric.name: metric for metric in scope.metrics}
        self._tell()
        return metrics_pb.ExportMetricsServiceResponse()

    def has(self, name: str) -> bool:
        """Waits for a span or a metric of this name; False if none arrives in WAIT_S."""
        with self._arrived:
            return self._arrived.wait_for(
                lambda: name in self.names or name in self.metrics, WAIT_S
            )

    def _tell(self) -> None:
        with self._arrived:
            self._arrived.notify_all()

    def _answer(self, context: Any) -> None:
        if self.refusal is not None:
            context.abort(self.refusal, "no room")

    def _keep_service(self, resource: Any) -> None:
        self.service = attributes(resource)


def attributes(thing: Any) -> dict[str, Any]:
    """Returns the attributes of a span, a point or a resource."""
    found = {}
    for one in thing.attributes:
        kind = one.value.WhichOneof("value")
        found[one.key] = getattr(one.value, kind)
    return found


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Runs a receiver until the end of the block."""
    receiver = OtlpReceiver()

    class Traces(trace_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:
            return receiver.trace(request, context)

    class Metrics(metrics_grpc.MetricsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:
            return receiver.measure(request, context)

    server = any_grpc.server(ThreadPoolExecutor(2))
    trace_grpc.add_TraceServiceServicer_to_server(Traces(), server)  # type: ignore[no-untyped-call]
    metrics_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    receiver.endpoint = f"http://127.0.0.1:{port}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None).wait()
