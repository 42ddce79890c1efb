"""Rates: a sample of many series is compared in several steps, and requests read few series."""

from pocketmq.model.delivered import Delivered
from pocketmq.model.step import Next, Now
from pocketmq.services.admin.rates import MINUTE, SAMPLE_MS, SERIES_PIECE, Rates
from pocketmq.services.produce.rules import FOLD_MAX, SendStats
from tests.sim.clock import FakeClock

TOPICS = [f"t{number}" for number in range(2 * SERIES_PIECE + 1)]


def rates_of(stats: SendStats, clock: FakeClock) -> Rates:
    return Rates(stats.counters, Delivered(), clock, "c1")


def stepped(rates: Rates, clock: FakeClock) -> Next:
    return rates.step(Now(clock.monotonic_ms(), clock.wall_ms()))


def steps_of_a_sample(rates: Rates, clock: FakeClock) -> int:
    count = 1
    while stepped(rates, clock).at_ms == clock.monotonic_ms():
        count += 1
    return count


def many_series() -> tuple[FakeClock, SendStats, Rates]:
    """Rates of a message in each topic, when a sample is due."""
    clock, stats = FakeClock(), SendStats()
    rates = rates_of(stats, clock)
    for topic in TOPICS:
        stats.count(topic, "normal", 1, 100)
    clock.advance(SAMPLE_MS)
    return clock, stats, rates


def test_one_step_compares_few_of_many_series() -> None:
    clock, _, rates = many_series()
    rows = 2 * len(TOPICS)  # messages and bytes
    assert steps_of_a_sample(rates, clock) == rows // SERIES_PIECE + 1
    assert steps_of_a_sample(rates, clock) == 1


def test_a_sample_has_the_values_of_its_first_step() -> None:
    clock, stats, rates = many_series()
    stepped(rates, clock)
    stats.count(TOPICS[-1], "normal", 5, 500)
    stats.count("new", "fifo", 1, 100)
    assert rates.since(MINUTE, ("TOPIC_PUT_NUMS", TOPICS[-1]))[0] == 6
    steps_of_a_sample(rates, clock)
    for _ in range(6):  # Until that sample is the window's begin.
        clock.advance(SAMPLE_MS)
        steps_of_a_sample(rates, clock)
    assert rates.since(MINUTE, ("TOPIC_PUT_NUMS", TOPICS[-1])) == (5, 5 / 60)
    assert rates.since(MINUTE, ("TOPIC_PUT_NUMS", "new"))[0] == 1
    assert rates.since(MINUTE, ("BROKER_PUT_NUMS", "c1"))[0] == 6


def test_the_rate_of_a_topic_adds_its_kinds() -> None:
    clock, stats = FakeClock(), SendStats()
    rates = rates_of(stats, clock)
    stats.count("orders", "normal", 20, 2_000)
    stats.count("orders", "priority", 10, 1_000)
    assert rates.stored_tps("orders") == 3.0
    assert rates.knows(("TOPIC_PUT_NUMS", "orders"))
    assert not rates.knows(("TOPIC_PUT_NUMS", "order"))
    assert not rates.knows(("TOPIC_PUT", "orders"))


def test_counts_of_the_fast_path_are_added_before_they_are_many() -> None:
    stats = SendStats()
    tallies = [stats.tally(topic, "normal") for topic in TOPICS[:FOLD_MAX]]
    for tally in tallies[:-1]:
        tally.add(1, 100)
        tally.add(1, 100)
    assert tallies[0].taken() == [(2, 200)]
    tallies[-1].add(1, 100)
    assert [tally.taken() for tally in tallies] == [[]] * FOLD_MAX
    tallies[0].add(1, 100)
    assert stats.messages_in.values[TOPICS[0], "normal", "false"] == 1
    assert stats.messages_in.values[TOPICS[1], "normal", "false"] == 2


def test_a_deleted_topic_takes_nothing_from_the_rate_of_the_broker() -> None:
    clock, stats = FakeClock(), SendStats()
    rates = rates_of(stats, clock)
    stats.count("old", "normal", 1_000, 100_000)
    for _ in range(7):  # Until the window begins after these messages.
        clock.advance(SAMPLE_MS)
        steps_of_a_sample(rates, clock)
    stats.messages_in.forget("topic", "old")
    stats.count("orders", "normal", 30, 3_000)
    assert rates.since(MINUTE, ("BROKER_PUT_NUMS", "c1")) == (30, 0.5)
    for _ in range(3):
        clock.advance(SAMPLE_MS)
        steps_of_a_sample(rates, clock)
    assert rates.since(MINUTE, ("BROKER_PUT_NUMS", "c1"))[0] == 30
