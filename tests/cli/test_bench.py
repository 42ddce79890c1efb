"""Measurements of a broker: every finished call counts once, and the first error ends them."""

from typing import Any

import pytest

from pocketmq.model.errors import StoreBusy
from pocketmq.testing import RocketMQ
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker, shown

SHORT = ("--seconds", "400ms", "--warm-up", "0")
"""Time in which even a loaded machine ends some calls."""


def test_sends_are_counted_with_their_latencies(broker: LocalBroker) -> None:
    done = run("bench", "produce", *SHORT, "--batch", "3", "--size", "10", "--in-flight", "2")
    found = done.document
    assert done.code == 0
    assert found["messages"] == 3 * found["calls"] > 0
    assert found["errors"] == 0
    assert 0 < found["p50_us"] <= found["p99_us"] <= found["max_us"]
    assert sum(one["calls"] for one in found["histogram"]) == found["calls"]
    stored = broker.do(broker.inner.messages())
    assert {(one.topic, len(one.body)) for one in stored} == {("pocketmq-bench", 10)}


def test_receives_and_acks_are_counted(broker: LocalBroker) -> None:
    run("bench", "produce", *SHORT, "--size", "10", "--in-flight", "1")
    sent = len(broker.do(broker.inner.messages()))
    found = run("bench", "consume", *SHORT, "--in-flight", "1").document
    assert 0 < found["messages"] <= sent
    assert found["bytes_per_s"] == pytest.approx(10 * found["messages_per_s"], rel=0.1)
    lag = run("group", "lag", "pocketmq-bench").document
    assert sum(row["lag_messages"] for row in lag) <= sent - found["messages"]


def test_the_time_to_a_waiting_consumer_is_measured_and_its_group_removed(
    rocketmq_module: RocketMQ,
) -> None:
    place = ("--endpoint", rocketmq_module.endpoint)
    timing = ("--seconds", "300ms", "--warm-up", "0", "--rate", "100")
    done = run("bench", "latency", *timing, *place)
    assert done.document["messages"] > 0
    assert run("group", "ls", *place).document == []


def test_a_table_has_the_figures_and_a_histogram(broker: LocalBroker) -> None:
    done = run("bench", "produce", *SHORT, "-o", "table")
    assert "messages/s" in done.out
    assert "p99" in done.out
    assert "█" in done.out or "#" in done.out


def test_the_first_error_ends_the_measurement(broker: LocalBroker) -> None:
    def refuse(request: Any) -> Any:
        raise shown(StoreBusy(held_ms=2, limit_ms=1))

    broker.answers["Broker/SendMessage"] = refuse
    done = run("bench", "produce", "--seconds", "1h", "--warm-up", "0")
    assert done.code != 0
    assert "held the store" in done.err


def test_a_body_has_a_byte_at_least_and_4_mib_at_most(broker: LocalBroker) -> None:
    assert run("bench", "produce", "--size", "0").code == 2
    assert "outside 1 to" in run("bench", "produce", "--size", "5MiB").err
