"""Lists that people look at have bars, in proportion; JSON has the numbers alone."""

import pytest

from pocketmq.cli.delay import DUE_WITHIN, histogram
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker

NOW_MS = 1_795_000_000_000


def test_delayed_messages_are_counted_by_the_time_that_is_left() -> None:
    left_ms = [-5, 0, 1, 1_000, 1_001, 3_600_000, 3_600_001, 1 << 40]
    rows = histogram((NOW_MS + one for one in left_ms), NOW_MS)
    counts = {row["due_within"]: row["message_count"] for row in rows if row["message_count"]}
    assert counts == {"now": 2, "1s": 2, "1m": 1, "1h": 1, "6h": 1, "later": 1}
    assert [row["due_within"] for row in rows] == [name for name, _ in DUE_WITHIN]


def test_a_histogram_of_the_brokers_messages_is_printed(broker: LocalBroker) -> None:
    for delay in ("30s", "2m", "3m"):
        assert run("produce", "orders", "x", "--delay", delay).code == 0
    rows = run("delay", "ls", "--histogram").document
    assert sum(row["message_count"] for row in rows) == 3
    assert "█" in run("delay", "ls", "--histogram", "-o", "table").out


def test_topics_have_their_messages_and_the_time_of_the_last(broker: LocalBroker) -> None:
    for number in range(3):
        run("produce", "orders", f"x{number}")
    broker.do(broker.inner.talking.settled())
    (row,) = [one for one in run("topic", "ls").document if one["name"] == "orders"]
    assert row["message_count"] == 3
    assert row["last_store_timestamp_ms"] > 0


def test_groups_have_their_lag_and_their_members(broker: LocalBroker) -> None:
    broker.fill(4)
    run("group", "create", "billing")
    broker.stand("billing", "orders", q0=1)
    run("consume", "orders", "-g", "billing", "--pop", "--limit", "1", "--no-ack")
    (row,) = run("group", "ls").document
    assert (row["lag_messages"], row["member_count"]) == (3, 1)
    assert "3  █" in run("group", "ls", "-o", "table").out
    assert "3  █" in run("group", "lag", "billing", "-o", "table").out


@pytest.mark.parametrize(("no_color", "is_red"), [(None, True), ("1", False)])
def test_errors_are_red_on_a_terminal_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, no_color: str | None, *, is_red: bool
) -> None:
    from pocketmq.cli.output import Failure

    said: list[str] = []
    monkeypatch.setattr("click.echo", lambda text, **_: said.append(text))
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    Failure("it failed", 1).show()
    label = "\x1b[31mError:\x1b[0m" if is_red else "Error:"
    assert said == [f"{label} it failed"]
