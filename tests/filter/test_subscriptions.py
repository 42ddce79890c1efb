"""Bits of a message from config/consumerFilter.json."""

from typing import Any

import pytest

from pocketmq.filter.subscriptions import NO_BITS, read_subscriptions
from pocketmq.format.properties import encode_properties
from pocketmq.format.table_json import encode_table
from tests.golden_stores import GoldenStores
from tests.kit.records import record

RECORD = record(0, properties=encode_properties({"a": "7"}))


def table(**groups: Any) -> bytes:
    return encode_table({"filterDataByTopic": {"T": {"groupFilterData": groups, "topic": "T"}}})


def entry(expression: object = "a > 5", *places: int, count: object = 16, **rest: Any) -> Any:
    bloom = {"bitNum": count, "bitPos": list(places)}
    return {
        "bloomFilterData": bloom, "expression": expression, "expressionType": "SQL92", **rest,
    }  # fmt: skip


def test_the_bits_of_all_who_may_want_it_are_set() -> None:
    found = read_subscriptions(
        table(
            one=entry("a > 5", 0, 9, 9),
            two=entry("a < 5", 1),
            three=entry("a = 7", 9, 15, dead=True),
        )
    )
    assert found.has("T")
    assert found.bitmap("T", RECORD) == bytes([0b1, 0b1000_0010])
    assert not found.has("other")
    assert found.bitmap("other", RECORD) == b""
    assert NO_BITS.bitmap("T", RECORD) == b""


def test_an_expression_that_cannot_be_understood_may_be_true() -> None:
    found = read_subscriptions(table(one=entry("a >", 3), two=entry(5, 4)))
    assert found.bitmap("T", RECORD) == bytes([0b1_1000, 0])


@pytest.mark.parametrize(
    "row",
    [
        entry("a > 5", 1, count=0),
        entry("a > 5", 1, count=12),
        entry("a > 5", 1, count="16"),
        entry("a > 5", 16),
        entry("a > 5", -1),
        {"expressionType": "SQL92", "expression": "a > 5"},
        {"expressionType": "TAG", "expression": "a", "bloomFilterData": None},
        [],
        None,
    ],
)
def test_what_is_no_subscription_is_passed_over(row: Any) -> None:
    assert not read_subscriptions(table(one=row)).has("T")
    found = read_subscriptions(table(one=row, two=entry("a > 5", 1)))
    assert found.bitmap("T", RECORD) == bytes([2, 0])


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff"])
def test_what_is_no_table_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError):
        read_subscriptions(content)


def test_a_real_table(golden: GoldenStores) -> None:
    found = read_subscriptions((golden.store("cqext") / "config/consumerFilter.json").read_bytes())
    bitmap = int.from_bytes(found.bitmap("SqlTopic", RECORD), "little")
    assert bitmap == 1 << 66 | 1 << 10 | 1 << 56
