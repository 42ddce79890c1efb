"""Reloads are counted, and the last one that was taken is told."""

from broker.metrics.reloads import Reloads
from broker.model.stats import Gauge
from tests.fakes.clock import START_MS, FakeClock


def test_a_start_is_no_reload_but_has_a_time() -> None:
    reloads = Reloads(FakeClock().wall_ms)
    assert reloads.counter.values == {("ok",): 0, ("refused",): 0}
    assert taken_at(reloads) == START_MS / 1000


def test_only_what_was_taken_moves_the_time() -> None:
    clock = FakeClock()
    reloads = Reloads(clock.wall_ms)
    clock.advance(1000)
    reloads.note_taken()
    clock.advance(1000)
    reloads.note_refused()
    assert reloads.counter.values == {("ok",): 1, ("refused",): 1}
    assert taken_at(reloads) == START_MS / 1000 + 1


def taken_at(reloads: Reloads) -> object:
    gauge = reloads.stats[1]
    assert isinstance(gauge, Gauge)
    return gauge.read()
