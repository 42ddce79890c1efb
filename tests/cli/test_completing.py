"""A shell completes what a broker, settings and contexts know; an error completes nothing."""

import pytest
from click.shell_completion import ShellComplete

from pocketmq.cli.program import program
from pocketmq.client import Unreachable
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


def completed(line: str) -> list[str]:
    """Returns what a shell offers for the last word of a line."""
    *words, incomplete = line.split(" ")
    shell = ShellComplete(program, {}, "pocketmq", "_POCKETMQ_COMPLETE")
    return [item.value for item in shell.get_completions(words, incomplete)]


@pytest.fixture
def _filled(broker: LocalBroker) -> None:
    for topic in ("orders", "orders-eu", "payments"):
        broker.store.tables.topics.adopt(topic, 2)
    for group in ("billing", "shipping"):
        run("group", "create", group)
    run("user", "add", "app")


@pytest.mark.usefixtures("_filled")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("topic info or", ["orders", "orders-eu"]),
        ("produce p", ["payments"]),
        ("consume orders -g b", ["billing"]),
        ("group lag --topic pay", ["payments"]),
        ("group reset ", ["billing", "shipping"]),
        ("dlq redrive billing --to-topic orders-", ["orders-eu"]),
        ("acl grant a", ["app"]),
        ("acl grant app pub,s", ["pub,sub"]),
        ("acl grant app pub topic:pay", ["topic:payments"]),
        ("acl grant app pub gr", ["group:"]),
        ("topic create x --type f", ["fifo"]),
        ("serve --preset e", ["edge"]),
        ("serve --set store.flush=a", ["store.flush=async"]),
        ("config show --set store.property_", ["store.property_crc="]),
        ("topic ls --context p", ["prod"]),
        ("context use ", ["prod"]),
    ],
)
def test_names_are_completed(line: str, offered: list[str]) -> None:
    run("context", "add", "prod", "--endpoint", "h:1")
    assert completed(line) == offered


def test_a_broker_that_does_not_answer_completes_nothing(broker: LocalBroker) -> None:
    broker.error = Unreachable("Unreachable", "no broker answers at x")
    assert completed("topic info o") == []
    assert completed("topic info o --context none") == []


def test_a_completion_asks_the_broker_that_the_line_names(broker: LocalBroker) -> None:
    completed("topic info --endpoint h:7 o")
    assert broker.endpoint == "h:7"
