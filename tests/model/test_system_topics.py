"""Whose topic is it: the broker's, a group's, or anybody's."""

import pytest

from broker.model.system_topics import (
    dead_letter_topic,
    is_group_topic,
    is_readable_by,
    is_system_topic,
    retry_topic,
)


@pytest.mark.parametrize(
    "topic",
    [
        "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
        "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster",
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a",
    ],
)  # fmt: skip
def test_a_topic_of_the_broker_is_no_clients(topic: str) -> None:
    assert is_system_topic(topic)
    assert not is_group_topic(topic)
    assert not is_readable_by(topic, "G")


@pytest.mark.parametrize(
    "topic", ["orders", "tbw102", "TBW1020", "Rmq_sys_x", "my_rmq_sys_", "SCHEDULE_TOPIC_XXX", ""]
)
def test_another_topic_is_anybodys(topic: str) -> None:
    assert not is_system_topic(topic)
    assert not is_group_topic(topic)
    assert is_readable_by(topic, "G")


def test_retry_and_dead_letter_topics_are_made_of_the_group() -> None:
    assert retry_topic("G") == "%RETRY%G"
    assert dead_letter_topic("G") == "%DLQ%G"
    assert is_group_topic(retry_topic("G"))
    assert is_group_topic(dead_letter_topic("G"))
    assert not is_system_topic(retry_topic("G"))


@pytest.mark.parametrize(
    ("topic", "readable"),
    [
        ("%RETRY%G", True),
        ("%RETRY%G_orders", True),
        ("%RETRY%G+orders", True),
        ("%DLQ%G", True),
        ("%RETRY%G2", False),
        ("%RETRY%G-2", False),
        ("%RETRY%", False),
        ("%RETRY%other_G", False),
        ("%DLQ%G_orders", False),
        ("%DLQ%other", False),
    ],
)
def test_a_group_reads_its_own_failures_only(topic: str, readable: bool) -> None:
    assert is_readable_by(topic, "G") is readable


@pytest.mark.parametrize(
    ("topic", "readable"),
    [
        ("orders", True),
        ("%RETRY%", False),
        ("%RETRY%_orders", False),
        ("%RETRY%+orders", False),
        ("%RETRY%G", False),
        ("%DLQ%", False),
        ("%DLQ%G", False),
        ("TBW102", False),
    ],
)
def test_a_reader_without_a_group_reads_nobodys_failures(topic: str, readable: bool) -> None:
    assert is_readable_by(topic, "") is readable
