"""Metrics of the Python process: its memory, CPU time, files, version, and garbage collections.

Only a scrape imports this module: prometheus_client takes 10 ms and 2 MiB, as it imports an HTTP
server with its clients.
"""

from typing import Final

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.openmetrics import exposition as open_metrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector


def _collectors() -> CollectorRegistry:
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


_REGISTRY: Final = _collectors()


def python_page(*, is_open: bool) -> bytes:
    """Returns the metrics as lines of the text format, or of OpenMetrics with its end."""
    if is_open:
        page: bytes = open_metrics.generate_latest(_REGISTRY)  # type: ignore[no-untyped-call]
        return page
    return generate_latest(_REGISTRY)
