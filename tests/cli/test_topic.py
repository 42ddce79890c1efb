"""Topics are created, listed over all pages, and described with their queues."""

from broker.rpc.client_values import ClientError
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


def test_all_pages_are_listed(fake: FakeBroker) -> None:
    fake.queues |= {"a": [], "b": []}
    assert [row["name"] for row in run("topic", "ls", "-o", "jsonl").rows] == ["a", "b", "orders"]


def test_a_list_as_a_table(fake: FakeBroker) -> None:
    assert run("topic", "ls", "-o", "table").out.splitlines() == [
        "NAME    TYPE    READ  WRITE  PERMISSION",
        "orders  NORMAL  2     2      6",
    ]


def test_a_topic_is_described_with_its_queues(fake: FakeBroker) -> None:
    fake.fill(3)
    document = run("topic", "info", "orders").document
    assert document["write_queue_count"] == 2
    assert [queue["max_offset"] for queue in document["queues"]] == [3, 0]


def test_a_description_as_a_table_has_its_queues_below(fake: FakeBroker) -> None:
    fake.fill(3)
    lines = run("topic", "info", "orders", "-o", "table").out.splitlines()
    assert lines[0].split() == ["name", "orders"]
    assert lines[-3].split()[:3] == ["QUEUE", "MIN", "MAX"]
    assert lines[-2].split()[:3] == ["0", "0", "3"]
    assert lines[-1].split() == ["1", "0", "0"]


def test_an_unknown_topic_is_not_found(fake: FakeBroker) -> None:
    assert run("topic", "info", "none").code == 3
