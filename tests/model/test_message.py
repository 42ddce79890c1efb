"""Facts the model derives from a message: its properties, its delay, the owner of its topic."""

from dataclasses import fields
from typing import Any

import pytest

from pocketmq.model import message
from pocketmq.model.message import StoredMessage
from pocketmq.model.store_shape import DelayLevels
from pocketmq.model.topic import (
    dead_letter_topic,
    is_group_topic,
    is_readable_by,
    is_system_topic,
    retry_topic,
)


def stored(properties: dict[str, str]) -> StoredMessage:
    """A message of which nothing but its properties matters."""
    others: dict[str, Any] = dict.fromkeys([field.name for field in fields(StoredMessage)])
    return StoredMessage(**others | {"properties": properties})


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("k1", ["k1"]),
        ("k1 k2", ["k1", "k2"]),
        ("k1  k2", ["k1", "k2"]),
        (" k1 ", ["k1"]),
        (" ", []),
        ("", []),
        ("a\tb a\u00a0b ключ", ["a\tb", "a\u00a0b", "ключ"]),
        ("k1 k1", ["k1", "k1"]),
    ],
)
def test_keys_are_split_at_single_spaces_and_nothing_else(text: str, keys: list[str]) -> None:
    assert stored({"KEYS": text}).keys == keys


def test_a_message_without_properties_has_no_keys_no_tag_and_no_unique_key() -> None:
    found = stored({})
    assert found.keys == []
    assert found.tag is None
    assert found.unique_key == ""


def test_tag_and_unique_key_are_properties() -> None:
    found = stored({"TAGS": "TagA", "UNIQ_KEY": "7F00"})
    assert found.tag == "TagA"
    assert found.unique_key == "7F00"


def test_the_names_the_broker_reads_are_reserved() -> None:
    names = "KEYS TAGS UNIQUE_KEY WAIT DELAY CLUSTER MSG_REGION TRACE_ON SHARDING_KEY PROPERTY_CRC"
    own = {getattr(message, name) for name in names.split()}
    assert own <= message.RESERVED_PROPERTIES
    assert all(name == name.strip() for name in message.RESERVED_PROPERTIES)


def test_flag_bits_lie_where_rocketmq_has_them() -> None:
    assert message.FLAG_COMPRESSED == 0x1
    assert (message.FLAG_BORN_HOST_V6, message.FLAG_STORE_HOST_V6) == (0x10, 0x20)
    kinds = ("NONE", "PREPARED", "COMMIT", "ROLLBACK")
    transactions = tuple(getattr(message, f"TRANSACTION_{kind}") for kind in kinds)
    assert transactions == (0x0, 0x4, 0x8, 0xC)
    assert all(bits & ~message.FLAG_TRANSACTION_MASK == 0 for bits in transactions)


STORED_MS = 1_700_000_002_000


def test_the_default_table_has_the_eighteen_levels_of_rocketmq() -> None:
    levels = DelayLevels()
    seconds = [1, 5, 10, 30, *(60 * minute for minute in [*range(1, 11), 20, 30]), 3_600, 7_200]
    assert levels.delays_ms == tuple(1_000 * second for second in seconds)


@pytest.mark.parametrize(
    ("text", "delays_ms"),
    [
        ("1s 2m 3h 4d", (1_000, 120_000, 10_800_000, 345_600_000)),
        ("  7s\t8s\n", (7_000, 8_000)),
        ("0s", (0,)),
        ("", ()),
    ],
)
def test_a_table_is_numbers_with_units(text: str, delays_ms: tuple[int, ...]) -> None:
    assert DelayLevels(text).delays_ms == delays_ms


@pytest.mark.parametrize("word", ["5", "s", "5x", "-5s", "1.5s", "5 s", "ss", "5S", "1w", "²s"])
def test_another_word_is_refused(word: str) -> None:
    with pytest.raises(ValueError):
        DelayLevels(f"1s {word}")


def test_a_refused_word_is_named() -> None:
    with pytest.raises(ValueError, match=r"'5x' is not a number followed by one of s, m, h, d"):
        DelayLevels("1s 5x")


@pytest.mark.parametrize(
    ("table", "level", "delay_ms"),
    [
        ("1s 5s 10s", "1", 1_000), ("1s 5s 10s", "3", 10_000), ("1s 5s 10s", "4", 10_000),
        ("1s 1d", "+2", 86_400_000), ("1s", "9999999999", 1_000), ("1s", "12345678901", None),
        ("1s", "0", None), ("1s", "-1", None), ("1s", "soon", None), ("1s", "", None),
        ("", "2", None),
    ],
)  # fmt: skip
def test_a_record_is_due_so_long_after_it_was_stored(
    table: str, level: str, delay_ms: int | None
) -> None:
    due_ms = DelayLevels(table).due_ms(level, STORED_MS)
    assert due_ms == (None if delay_ms is None else STORED_MS + delay_ms)


@pytest.mark.parametrize(
    "topic",
    [
        "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
        "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster",
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a",
    ],
)  # fmt: skip
def test_a_topic_of_the_broker_is_no_clients(topic: str) -> None:
    assert is_system_topic(topic)
    assert not is_group_topic(topic)
    assert not is_readable_by(topic, "G")


def test_the_topic_of_traces_is_a_system_topic_that_clients_read() -> None:
    assert is_system_topic("RMQ_SYS_TRACE_TOPIC")
    assert is_readable_by("RMQ_SYS_TRACE_TOPIC", "G")


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
        ("%RETRY%G", True), ("%RETRY%G_orders", True), ("%RETRY%G+orders", True), ("%DLQ%G", True),
        ("%RETRY%G2", False), ("%RETRY%G-2", False), ("%RETRY%", False), ("%RETRY%other_G", False),
        ("%DLQ%", False), ("%DLQ%other", True),
    ],
)  # fmt: skip
def test_a_group_reads_its_own_retries_and_all_dead_letters(topic: str, readable: bool) -> None:
    assert is_readable_by(topic, "G") is readable


@pytest.mark.parametrize(
    ("topic", "readable"),
    [
        ("orders", True), ("%RETRY%", False), ("%RETRY%_orders", False), ("%RETRY%+orders", False),
        ("%RETRY%G", False), ("%DLQ%", False), ("%DLQ%G", False), ("TBW102", False),
    ],
)  # fmt: skip
def test_a_reader_without_a_group_reads_nobodys_failures(topic: str, readable: bool) -> None:
    assert is_readable_by(topic, "") is readable


def test_messages_with_equal_fields_are_equal() -> None:
    one, same, other = stored({"TAGS": "a"}), stored({"TAGS": "a"}), stored({"TAGS": "b"})
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
