"""Fields that a v2 client gets of a stored record, each property by itself."""

import zlib
from typing import Any

import pytest

from pocketmq.format.properties import encode_properties
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.delivered import message_of
from tests.kit.official import name
from tests.kit.records import record

ZLIB = 0x001


def shown(topic: str = "orders", /, **properties: str) -> pb.Message:
    """Returns a record with these properties as a client gets it."""
    made = record(0, b"x", topic=topic, properties=encode_properties(properties))
    return message_of(made, name(topic))


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, pb.NORMAL),
        ({"TRAN_MSG": "true", "__SHARDINGKEY": "m"}, pb.TRANSACTION),
        ({"TRAN_MSG": "false"}, pb.NORMAL),
        ({"TIMER_DELIVER_MS": "1", "__SHARDINGKEY": "m"}, pb.DELAY),
        ({"DELAY": "3"}, pb.DELAY),
        ({"__SHARDINGKEY": "m", "_SYS_MSG_PRIORITY_": "1"}, pb.FIFO),
        ({"_SYS_MSG_PRIORITY_": "1"}, pb.PRIORITY),
    ],
)
def test_the_kind_of_a_message_is_told(properties: dict[str, Any], kind: pb.MessageType) -> None:
    assert shown(**properties).system_properties.message_type == kind


@pytest.mark.parametrize(
    ("text", "priority"),
    [("7", 7), ("0", 0), ("999999999", 999_999_999), ("1000000000", None), ("-1", None),
     ("", None), ("seven", None), ("\u0667", None)],
)  # fmt: skip
def test_a_priority_is_a_number_of_nine_digits_at_most(text: str, priority: int | None) -> None:
    system = shown(_SYS_MSG_PRIORITY_=text).system_properties
    assert (system.priority if system.HasField("priority") else None) == priority


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1795000000123", 1_795_000_000_123),
        ("253402300799999", 253_402_300_799_999),
        ("999999999999999", 253_402_300_799_999),
        ("1000000000000000", None),
        ("soon", None),
    ],
)
def test_when_a_message_was_for_is_a_number_of_fifteen_digits_at_most(
    text: str, ms: int | None
) -> None:
    system = shown(TIMER_DELIVER_MS=text).system_properties
    told = system.delivery_timestamp.ToMilliseconds()
    assert (told if system.HasField("delivery_timestamp") else None) == ms


@pytest.mark.parametrize(
    ("properties", "topic", "message_id"),
    [
        ({"DLQ_ORIGIN_TOPIC": "a", "DLQ_ORIGIN_MESSAGE_ID": "1"}, "a", "1"),
        ({"RETRY_TOPIC": "b", "ORIGIN_MESSAGE_ID": "2"}, "b", "2"),
        (
            {"DLQ_ORIGIN_TOPIC": "a", "RETRY_TOPIC": "b", "DLQ_ORIGIN_MESSAGE_ID": "1",
             "ORIGIN_MESSAGE_ID": "2"},
            "a", "1",
        ),
        ({}, "", ""),
    ],
)  # fmt: skip
def test_a_dead_letter_says_where_it_was_before(
    properties: dict[str, Any], topic: str, message_id: str
) -> None:
    dead = shown("%DLQ%g", **properties).system_properties.dead_letter_queue
    assert (dead.topic, dead.message_id) == (topic, message_id)
    assert not shown("orders", **properties).system_properties.HasField("dead_letter_queue")


def test_what_belongs_to_the_broker_is_not_among_the_users_properties() -> None:
    message = shown(TIMER_ENQUEUE_MS="1", TIMER="own", UNIQ_KEY="K", colour="blue")
    assert dict(message.user_properties) == {"TIMER": "own", "colour": "blue"}


def test_a_message_that_is_not_leased_is_at_its_first_attempt() -> None:
    system = shown().system_properties
    assert system.delivery_attempt == 1
    assert not system.HasField("receipt_handle")


@pytest.mark.parametrize(("attempt", "told"), [(2**31 - 1, 2**31 - 1), (2**31, 2**31 - 1)])
def test_no_attempt_is_beyond_what_a_client_can_count(attempt: int, told: int) -> None:
    message = message_of(record(0), name("orders"), attempt=attempt, handle="h")
    system = message.system_properties
    assert (system.delivery_attempt, system.receipt_handle) == (told, "h")


@pytest.mark.parametrize(
    ("size", "codec"), [(4_194_304, {}), (4_194_305, {"PMQ_BODY_CODEC": "zlib"})]
)
def test_a_message_by_itself_is_decompressed_up_to_4_mib(size: int, codec: dict[str, str]) -> None:
    stored = zlib.compress(bytes(size))
    message = message_of(record(0, stored, system_flag=ZLIB), name("orders"))
    assert message.body == (stored if codec else bytes(size))
    assert dict(message.user_properties) == codec
