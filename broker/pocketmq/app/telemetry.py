"""Exports spans and metrics to a receiver of OpenTelemetry while the broker runs.

    log ─► SpanSource ─► queue of spans ─┐
    stats ─► Exposition ─► families ─────┴─► thread ─► OTLP

Exports run in a thread and never delay a call of a client. While the receiver is slow or absent,
spans beyond QUEUE_MAX are dropped and counted. If no exports are configured, no package of
OpenTelemetry is imported.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from pocketmq.config.sections import Config
from pocketmq.metrics.text_format import Family
from pocketmq.model.errors import IllegalConfig
from pocketmq.model.spans import Span
from pocketmq.model.stats import Counter, Stat
from pocketmq.model.step import Step
from pocketmq.rpc.services import Services
from pocketmq.services.spans import SpanSource

if TYPE_CHECKING:
    from pocketmq.metrics.otlp import OtlpExporter

QUEUE_MAX: Final = 8_192
BATCH_MAX: Final = 512
SPANS_INTERVAL_S: Final = 1.0
"""Longest time that a span waits while the receiver accepts spans."""
OK: Final = "ok"
FAILED: Final = "failed"
DROPPED: Final = "dropped"
EXTRA: Final = "install the extra: pip install '/path/to/pocketmq[otel]'"

logger = logging.getLogger(__name__)

FindFamilies = Callable[[], Awaitable[list[Family]]]


class OtlpExports:
    """The exports of one broker.

    exporter              None: nothing is exported
    has_spans             whether spans of messages are exported
    metrics_interval_ms   interval of metric exports; 0: none
    """

    __slots__ = (
        "_exporter", "_failed", "_has_spans", "_metrics_interval_ms", "_queue", "_wake", "exports",
        "spans",
    )  # fmt: skip

    def __init__(
        self,
        exporter: "OtlpExporter | None" = None,
        *,
        has_spans: bool = True,
        metrics_interval_ms: int = 0,
    ) -> None:
        self._exporter = exporter
        self._has_spans = has_spans
        self._metrics_interval_ms = metrics_interval_ms
        self._queue: deque[Span] = deque()
        self._wake = asyncio.Event()
        self._failed = False
        self.spans = Counter(
            "pocketmq_otlp_spans_total", "Spans exported, failed or dropped.", ("result",)
        )
        self.exports = Counter(
            "pocketmq_otlp_metric_exports_total", "Exports of metrics by OTLP.", ("result",)
        )

    @property
    def stats(self) -> list[Stat]:
        """The counts of exports."""
        return [self.spans, self.exports]

    def steps(self, backing: Services) -> list[Step]:
        """Returns the step that finds spans in an open store, if they are exported.

        Effects   the services report deliveries in FIFO order and those of pulls
        """
        if self._exporter is None or not self._has_spans:
            return []
        source = SpanSource(backing.store, self.take)
        backing.consume.watch_in_order(
            lambda queue, *rest: source.leased(queue.group, queue.topic, queue.queue_id, *rest),
            lambda queue, *rest: source.acked(queue.group, queue.topic, queue.queue_id, *rest),
        )
        backing.pull.on_pulled = lambda request, records: source.pulled(
            request.group, request.range.topic, records
        )
        return [source.step]

    def take(self, spans: Iterable[Span]) -> None:
        """Queues spans for the next export; drops those beyond QUEUE_MAX."""
        for span in spans:
            if len(self._queue) >= QUEUE_MAX:
                self.spans.add((DROPPED,))
            else:
                self._queue.append(span)
        if len(self._queue) >= BATCH_MAX:
            self._wake.set()
        assert len(self._queue) <= QUEUE_MAX

    @asynccontextmanager
    async def running(self, find_families: FindFamilies) -> AsyncIterator[None]:
        """Exports until the end of the block; then exports remaining spans, and metrics again.

        If the last export failed, there are no exports after the block.
        """
        exporter = self._exporter
        if exporter is None:
            yield
            return
        tasks = [asyncio.create_task(self._export_spans(exporter))]
        if self._metrics_interval_ms:
            tasks.append(asyncio.create_task(self._export_metrics(exporter, find_families)))
        for task in tasks:
            task.add_done_callback(self._ended)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if not self._failed:  # An absent receiver must not delay the stop.
                await self._flush(exporter)
                if self._metrics_interval_ms:
                    await self._push(exporter, find_families)
            await asyncio.to_thread(exporter.close)

    async def _export_spans(self, exporter: "OtlpExporter") -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), SPANS_INTERVAL_S)
            self._wake.clear()
            await self._flush(exporter)

    async def _flush(self, exporter: "OtlpExporter") -> None:
        """Exports all queued spans, BATCH_MAX at a time; the spans of a failed export are lost."""
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_MAX))]
            reason = await asyncio.to_thread(exporter.export_spans, batch)
            self.spans.add((FAILED if reason else OK,), len(batch))
            self._report(reason)
            if reason:
                return

    async def _export_metrics(self, exporter: "OtlpExporter", find_families: FindFamilies) -> None:
        while True:
            await asyncio.sleep(self._metrics_interval_ms / 1000)
            await self._push(exporter, find_families)

    async def _push(self, exporter: "OtlpExporter", find_families: FindFamilies) -> None:
        families = await find_families()
        reason = await asyncio.to_thread(exporter.export_metrics, families)
        self.exports.add((FAILED if reason else OK,))
        self._report(reason)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Reports the error of a task, without which exports would end silently."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._report(f"{type(error).__name__}: {error}")

    def _report(self, reason: str) -> None:
        if reason and not self._failed:
            logger.warning("otlp.failed", extra={"reason": reason})
        elif self._failed and not reason:
            logger.info("otlp.resumed")
        self._failed = bool(reason)


def exports_of(config: Config) -> OtlpExports:
    """Returns the exports that the settings ask for.

    Errors   IllegalConfig: the packages of the extra `otel` are missing
    """
    section = config.otel
    if not section.endpoint:
        return OtlpExports()
    try:
        from pocketmq.metrics.otlp import OtlpExporter
    except ImportError as error:
        why = f"{error.name} is not installed: {EXTRA}"
        raise IllegalConfig(field="otel.endpoint", why=why) from error
    return OtlpExports(
        OtlpExporter(section.endpoint, config.broker.name),
        has_spans=section.traces,
        metrics_interval_ms=section.metrics_interval_ms,
    )
