"""A slow start or stop is looked at: processor times, stacks, the store; a quick one is not."""

from pathlib import Path
from threading import Event

from tests.e2e.daemon import Daemon
from tests.faults.slowness import Slowness, writes_stacks


def test_what_takes_long_is_told_with_stacks_and_times(tmp_path: Path) -> None:
    told: list[str] = []
    has_told = Event()

    def tell(text: str) -> None:
        told.append(text)
        has_told.set()

    with Daemon(tmp_path / "store") as broker:
        assert writes_stacks(broker.pid)
        with Slowness(broker, "stop", tell, slow_s=0.01) as slow:
            assert has_told.wait(60)
        assert broker.stop() == 0
    first, *_, last = told
    assert first.startswith("slow stop: ")
    assert f"thread {broker.pid}: " in first
    assert "Current thread 0x" in first
    assert "in _serve_until_signalled" in first or "asyncio/runners.py" in first
    assert "commitlog 1 files" in first
    assert last.startswith("slow stop is over: ")
    assert slow.cpu_seconds > 0
    assert slow.looks >= 1


def test_what_is_quick_is_only_measured(tmp_path: Path) -> None:
    told: list[str] = []
    broker = Daemon(tmp_path / "store")
    broker.begin()
    try:
        with Slowness(broker, "start", told.append, slow_s=600) as start:
            assert broker.becomes_ready()
    finally:
        broker.end()
    assert told == []
    assert 0 < start.cpu_seconds <= start.seconds * 4
