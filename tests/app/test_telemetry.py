"""Exports run beside the broker: bounded, counted, reported once, and only if asked for."""

import asyncio
import subprocess
import sys
from collections.abc import Iterable
from threading import Event
from typing import Any

import pytest

from pocketmq.app import telemetry as module
from pocketmq.app.telemetry import OtlpExports, exports_of
from pocketmq.config.load import load
from pocketmq.metrics.text_format import Family
from pocketmq.model.errors import IllegalConfig
from pocketmq.model.spans import Span


def spans(count: int) -> list[Span]:
    return [Span(f"send {n}", "a" * 32, "b" * 16, "", 0, 0, {}) for n in range(count)]


class Exporter:
    """One that keeps what it gets, or fails."""

    def __init__(self) -> None:
        self.reason = ""
        self.batches: list[int] = []
        self.families: list[Any] = []
        self.is_closed = False
        self.has_five = Event()

    def export_spans(self, given: Iterable[Span]) -> str:
        self.batches.append(len([*given]))
        if sum(self.batches) >= 5:
            self.has_five.set()
        return self.reason

    def export_metrics(self, given: Iterable[Family]) -> str:
        self.families.append([*given])
        return self.reason

    def close(self) -> None:
        self.is_closed = True


async def no_families() -> list[Family]:
    return []


async def test_what_is_left_is_exported_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_MAX", 4)
    exporter: Any = Exporter()
    exports = OtlpExports(exporter, metrics_interval_ms=3_600_000)
    async with exports.running(no_families):
        exports.take(spans(3))
    assert (exporter.batches, exporter.families, exporter.is_closed) == ([3], [[]], True)
    assert exports.spans.values == {("ok",): 3}
    assert exports.exports.values == {("ok",): 1}


async def test_a_full_batch_is_exported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_MAX", 4)
    monkeypatch.setattr(module, "SPANS_INTERVAL_S", 3_600.0)
    exporter: Any = Exporter()
    exports = OtlpExports(exporter)
    async with exports.running(no_families):
        exports.take(spans(5))
        assert await asyncio.to_thread(exporter.has_five.wait, 20)
    assert exporter.batches == [4, 1]


async def test_beyond_the_queue_spans_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "QUEUE_MAX", 4)
    exporter: Any = Exporter()
    exports = OtlpExports(exporter)
    exports.take(spans(6))
    assert exports.spans.values == {("dropped",): 2}


async def test_a_failing_receiver_is_logged_once_and_delays_no_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exporter: Any = Exporter()
    exporter.reason = "unreachable"
    exports = OtlpExports(exporter, metrics_interval_ms=3_600_000)
    async with exports.running(no_families):
        for _ in range(2):
            exports.take(spans(1))
            await exports._flush(exporter)
        exports.take(spans(1))
    assert [record.message for record in caplog.records] == ["otlp.failed"]
    assert exporter.batches == [1, 1]
    assert exports.spans.values == {("failed",): 2}
    assert exporter.families == []


async def test_the_first_success_after_failures_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    exporter: Any = Exporter()
    exports = OtlpExports(exporter)
    for reason in ("unreachable", "", ""):
        exporter.reason = reason
        exports.take(spans(1))
        await exports._flush(exporter)
    assert [record.message for record in caplog.records] == ["otlp.failed", "otlp.resumed"]


def test_off_nothing_of_opentelemetry_is_imported() -> None:
    code = "import sys; import pocketmq.app.serve; from pocketmq.app.telemetry import exports_of\n"
    code += "from pocketmq.config.load import load; assert exports_of(load()).stats\n"
    code += "print(*[name for name in sys.modules if name.startswith('opentelemetry')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


async def test_without_the_packages_a_start_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pocketmq.metrics.otlp", None)
    config = load(assignments=["otel.endpoint=127.0.0.1:4317"])
    with pytest.raises(IllegalConfig, match=r"install the extra: pip install .*\[otel\]"):
        exports_of(config)
