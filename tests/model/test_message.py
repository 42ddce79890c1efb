"""A message as stored: what its properties say; and the names and bits of the format."""

import pytest

from broker.model import message
from broker.model.message import StoredMessage


def stored(properties: dict[str, str]) -> StoredMessage:
    return StoredMessage(
        topic="T",
        queue_id=1,
        queue_offset=2,
        physical_offset=3,
        store_size=4,
        body=b"body",
        body_crc=5,
        properties=properties,
        system_flag=6,
        flag=7,
        reconsume_times=8,
        born_timestamp_ms=9,
        born_host=b"born",
        store_timestamp_ms=10,
        store_host=b"store",
        prepared_transaction_offset=11,
    )


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
