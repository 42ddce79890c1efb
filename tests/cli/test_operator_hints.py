"""Next steps that an operator can type as they are."""

import pytest

from pocketmq.cli.failures import failure_of_broker
from pocketmq.model.errors import BrokerError, IllegalConfig, SettingsFileUnusable, TableUnreadable
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (IllegalConfig(field="store.flush (b.toml:2)", why="no"), "pocketmq config check b.toml"),
        (IllegalConfig(field="store.flush (--set)", why="no"), "pocketmq config init"),
        (SettingsFileUnusable(field="b.toml", why="no"), "pocketmq config check b.toml"),
        (SettingsFileUnusable(field="b.toml", why="No such file or directory"), "a file that exi"),
        (TableUnreadable(path="/s/config/topics.json", why="no"), "pocketmq store repair /s,"),
    ],
)
def test_the_next_step_names_the_file_or_the_store(error: BrokerError, step: str) -> None:
    assert step in failure_of_broker(error, "serve").next_step


def test_a_group_that_nothing_was_retried_for_is_skipped(
    broker: LocalBroker,
) -> None:
    broker.fill(3)
    run("group", "create", "billing")
    broker.stand("billing", "orders", q0=0)
    broker.stand("billing", "%RETRY%billing", q0=0)
    assert run("group", "skip", "billing", "--yes").code == 0
    assert broker.stands("billing")[0] == 3


def test_a_skip_that_would_change_nothing_does_not_ask_for_yes(broker: LocalBroker) -> None:
    broker.fill(3)
    run("group", "create", "billing")
    broker.stand("billing", "orders", q0=3, q1=0)
    done = run("group", "skip", "billing")
    assert (done.code, "nothing to change" in done.err) == (0, True)


def test_a_missing_settings_file_is_not_to_be_corrected() -> None:
    done = run("config", "check", "nowhere.toml")
    assert "pocketmq config init nowhere.toml" in done.err
