"""Topics are created, changed as told, and removed only with --yes."""

import pytest

from broker.client.admin_values import TopicChange
from broker.client.values import ClientError
from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker


def test_a_topic_is_created_as_told(fake: FakeBroker) -> None:
    done = run("topic", "create", "audit", "--type", "FIFO", "--queues", "4")
    assert done.code == 0
    assert done.document["name"] == "audit"
    assert done.document["type"] == "FIFO"
    assert len(fake.queues["audit"]) == 4


def test_left_to_itself_a_topic_is_normal_with_8_queues(fake: FakeBroker) -> None:
    assert run("topic", "create", "audit").document["type"] == "NORMAL"
    assert len(fake.queues["audit"]) == 8


def test_a_topic_that_is_there_with_other_settings_is_refused(fake: FakeBroker) -> None:
    fields = {"topic": "orders"}
    fake.error = ClientError("TopicExists", "exists", code="ALREADY_EXISTS", fields=fields)
    done = run("topic", "create", "orders")
    assert done.code == 4
    assert "pocketmq topic info orders" in done.err


def test_wrong_use_is_refused_without_asking(fake: FakeBroker) -> None:
    assert run("topic", "create", "x", "--type", "odd").code == 2
    assert run("topic", "create", "x", "--queues", "0").code == 2
    assert "x" not in fake.queues


# -- changing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "change"),
    [
        (["--queues", "16"], TopicChange(16, 16)),
        (["--read-queues", "4"], TopicChange(read_queue_count=4)),
        (["--write-queues", "4"], TopicChange(write_queue_count=4)),
        (["--queues", "4", "--read-queues", "8"], TopicChange(8, 4)),
        (["--permission", "r"], TopicChange(permission=4)),
        (["--permission", "none"], TopicChange(permission=0)),
        (["--order"], TopicChange(order=True)),
        (["--no-order"], TopicChange(order=False)),
        (["--type", "fifo"], TopicChange(set_attributes={"message.type": "FIFO"})),
        (["--attribute", "a=b=c"], TopicChange(set_attributes={"a": "b=c"})),
        (["--remove-attribute", "a"], TopicChange(remove_attributes=("a",))),
    ],
)
def test_what_is_given_is_changed(
    fake: FakeBroker, options: list[str], change: TopicChange
) -> None:
    assert run("topic", "edit", "orders", *options).code == 0
    wanted = change._replace(set_attributes=change.set_attributes or {})
    assert fake.changes == [wanted]


def test_the_topic_is_shown_as_it_is_now(fake: FakeBroker) -> None:
    document = run("topic", "edit", "orders", "--queues", "16").document
    assert (document["read_queue_count"], document["write_queue_count"]) == (16, 16)


def test_messages_that_get_out_of_reach_are_told(fake: FakeBroker) -> None:
    fake.fill(3, queue_id=1)
    done = run("topic", "edit", "orders", "--read-queues", "1")
    assert "3 messages lie in queues from 1 on" in done.err
    assert "pocketmq topic edit orders --read-queues 2" in done.err
    assert run("topic", "edit", "orders", "--read-queues", "2").err == ""


@pytest.mark.parametrize(
    "options", [[], ["--queues", "0"], ["--attribute", "x"], ["--permission", "all"]]
)
def test_a_change_has_to_say_something(fake: FakeBroker, options: list[str]) -> None:
    assert run("topic", "edit", "orders", *options).code == 2
    assert fake.changes == []


# -- removing --------------------------------------------------------------------------------------


def test_a_topic_goes_with_yes(fake: FakeBroker) -> None:
    done = run("topic", "rm", "orders", "--yes")
    assert done.document == {"topic": "orders", "removed_topics": ["orders"]}
    assert fake.queues == {}


def test_without_yes_the_plan_is_shown(fake: FakeBroker) -> None:
    fake.fill(3)
    fake.stand("billing", "orders", q0=1)
    done = run("topic", "rm", "orders")
    assert done.code == 4
    assert done.document == {
        "topic": "orders",
        "queue_count": 2,
        "message_count": 3,
        "groups": ["billing"],
    }
    assert "--yes" in done.err
    assert "orders" in fake.queues


def test_what_is_not_there_cannot_go(fake: FakeBroker) -> None:
    assert run("topic", "rm", "none").code == 3
    assert run("topic", "rm", "none", "--yes").code == 3
