"""Groups are created, changed as told, and removed only with --yes."""

import pytest

from broker.client.values import ClientError
from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker


def test_a_group_is_created_with_rocketmqs_defaults(fake: FakeBroker) -> None:
    document = run("group", "create", "billing").document
    assert document["name"] == "billing"
    assert (document["max_attempts"], document["fifo"], document["enabled"]) == (17, False, True)


def test_a_group_is_created_as_told(fake: FakeBroker) -> None:
    options = ["--fifo", "true", "--max-attempts", "3", "--retry-queues", "2", "--enabled", "false"]
    assert run("group", "create", "billing", *options).code == 0
    settings = fake.groups["billing"]
    assert (settings.fifo, settings.max_attempts) == (True, 3)
    assert (settings.retry_queue_count, settings.enabled) == (2, False)


def test_a_group_that_is_there_with_other_settings_is_refused(fake: FakeBroker) -> None:
    fields = {"group": "billing"}
    fake.error = ClientError("GroupExists", "exists", code="ALREADY_EXISTS", fields=fields)
    done = run("group", "create", "billing")
    assert done.code == 4
    assert "pocketmq group info billing" in done.err


def test_what_is_given_is_changed(fake: FakeBroker) -> None:
    run("group", "create", "billing", "--max-attempts", "3")
    document = run("group", "edit", "billing", "--fifo", "true").document
    assert (document["fifo"], document["max_attempts"]) == (True, 3)


@pytest.mark.parametrize("options", [[], ["--max-attempts", "0"], ["--fifo", "perhaps"]])
def test_a_change_has_to_say_something(fake: FakeBroker, options: list[str]) -> None:
    fake.stand("billing", "orders")
    assert run("group", "edit", "billing", *options).code == 2


def test_a_group_goes_with_yes(fake: FakeBroker) -> None:
    fake.stand("billing", "orders", q0=1)
    done = run("group", "rm", "billing", "--with-topics", "--yes")
    assert done.document == {"group": "billing", "removed_topics": ["%RETRY%billing"]}
    assert fake.groups == {}


def test_without_yes_the_plan_is_shown(fake: FakeBroker) -> None:
    fake.stand("billing", "orders", q0=1)
    done = run("group", "rm", "billing")
    assert done.code == 4
    assert done.document == {"group": "billing", "offsets_in": ["orders"], "with_topics": False}
    assert "--yes" in done.err
    assert "billing" in fake.groups


def test_what_is_not_there_is_not_found(fake: FakeBroker) -> None:
    assert run("group", "rm", "none", "--yes").code == 3
    assert run("group", "edit", "none", "--fifo", "true").code == 3
