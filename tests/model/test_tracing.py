"""Whose retry a record is can be told where names of groups and topics run into each other."""

import pytest

from pocketmq.model.tracing import TraceStep, owner_of, step_of


@pytest.mark.parametrize(
    ("topic", "properties", "owner"),
    [
        ("orders", {"ORIGIN_GROUP": "a"}, ""),
        ("%DLQ%a_b", {}, "a_b"),
        ("%RETRY%a", {}, "a"),
        ("%RETRY%a_b", {}, "a_b"),
        ("%RETRY%a_b_c", {}, "a_b"),
        ("%RETRY%a+b", {}, "a"),
        ("%RETRY%a_b_c", {"ORIGIN_GROUP": "a"}, "a"),
        ("%RETRY%gone_orders", {}, "gone_orders"),
    ],
)
def test_the_owner_is_the_longest_group_there_is(
    topic: str, properties: dict[str, str], owner: str
) -> None:
    assert owner_of(topic, properties, ["a", "a_b"]) == owner


def test_a_topic_of_the_broker_is_no_destination() -> None:
    assert step_of("RMQ_SYS_TRACE_TOPIC") is TraceStep.INTERNAL
    assert step_of("orders") is TraceStep.SENT
