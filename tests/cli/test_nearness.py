"""A mistyped name is answered with the near one; a topic that it created is told."""

import pytest

from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


@pytest.fixture
def _known(broker: LocalBroker) -> None:
    broker.fill(3)
    run("topic", "create", "payments")
    run("group", "create", "billing")
    run("user", "add", "orders-app")


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("consume ordres --pull", "orders"),
        ("tail Orders --no-follow", "orders"),
        ("topic info paymets", "payments"),
        ("topic rm ordrs", "orders"),
        ("consume orders -g biling --pop", "billing"),
        ("group lag biling", "billing"),
        ("group reset bill-ing --to latest", "billing"),
        ("acl ls orders_app", ""),
        ("user edit order-app --enabled false", "orders-app"),
    ],
)
def test_an_unknown_name_is_answered_with_the_near_one(line: str, near: str) -> None:
    done = run(*line.split())
    if near:
        assert done.code == 3
        assert f"Next:  did you mean {near}?" in done.err
        assert not done.err.endswith("If not: \n"), "a next step without a step"


@pytest.mark.usefixtures("_known")
def test_a_name_like_no_other_has_no_hint() -> None:
    assert "did you mean" not in run("topic", "info", "xyz").err


@pytest.mark.usefixtures("_known")
def test_a_send_to_a_mistyped_topic_says_that_it_was_created(broker: LocalBroker) -> None:
    first = run("produce", "ordres", "hello")
    assert first.code == 0
    assert first.err == (
        "Note: topic ordres did not exist and was created now; did you mean orders?\n"
    )
    assert run("produce", "ordres", "hello").err == ""
    assert run("produce", "orders", "hello").err == ""


@pytest.mark.usefixtures("_known")
def test_lines_of_a_file_tell_of_a_new_topic_once(broker: LocalBroker) -> None:
    done = run("produce", "new", "--file", "-", "--batch", "1", given="a\nb\nc\n")
    assert done.err == "Note: topic new did not exist and was created now\n"
