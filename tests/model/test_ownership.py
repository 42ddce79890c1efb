"""Whose a retry or dead-letter topic is, by its name and by what exists."""

import pytest

from pocketmq.model.message import ORIGIN_GROUP, RETRY_TOPIC
from pocketmq.model.ownership import (
    Owner,
    is_ambiguous,
    is_left_alone,
    owner_groups,
    owners,
    readings,
    record_owners,
)

GROUPS = {"ship", "ship_orders"}
TOPICS = {"orders", "events"}
SHARED = "%RETRY%ship_orders"


def is_group(name: str) -> bool:
    return name in GROUPS


def is_topic(name: str) -> bool:
    return name in TOPICS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", []),
        ("%DLQ%a_b", [("a_b", "")]),
        ("%RETRY%a", [("a", "")]),
        ("%RETRY%a_b_c", [("a_b_c", ""), ("a_b", "c"), ("a", "b_c")]),
        ("%RETRY%a_b+c", [("a_b", "c")]),
        ("%RETRY%_a_", [("_a_", "")]),
    ],
)
def test_a_name_is_read_in_every_way(name: str, expected: list[tuple[str, str]]) -> None:
    assert readings(name) == expected
    assert is_ambiguous(name) is (len(expected) > 1)


def test_owners_are_those_whose_group_and_topic_exist() -> None:
    assert owners(SHARED, is_group, is_topic) == [("ship_orders", ""), ("ship", "orders")]
    assert owner_groups("%RETRY%ship_events", is_group, is_topic) == ["ship"]
    assert owner_groups("%RETRY%ship_gone", is_group, is_topic) == ["ship_gone"]


def test_a_topic_is_left_alone_where_no_other_owner_exists() -> None:
    assert not is_left_alone(SHARED, Owner("ship", "orders"), is_group, is_topic)
    assert is_left_alone("%RETRY%ship_events", Owner("ship", "events"), is_group, is_topic)
    assert not is_left_alone("%RETRY%ship_events", Owner("x", "y"), is_group, is_topic)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({ORIGIN_GROUP: "ship", RETRY_TOPIC: "x"}, ["ship"]),
        ({RETRY_TOPIC: "orders"}, ["ship_orders"]),
        ({}, ["ship_orders", "ship"]),
    ],
)
def test_a_record_says_whose_it_is(properties: dict[str, str], expected: list[str]) -> None:
    assert record_owners(SHARED, properties, is_group, is_topic) == expected
    assert record_owners("%DLQ%g", properties, is_group, is_topic) == ["g"]
