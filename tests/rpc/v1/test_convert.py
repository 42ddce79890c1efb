"""Stored messages into fields of the proto."""

import zlib

import pytest

from broker.format.content import encode_properties
from broker.format.record import decode_record
from broker.model.errors import (
    UnsupportedFeature,
)
from broker.model.message import FLAG_COMPRESSED, StoredMessage
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.v1.convert import (
    REPLY_BODY_SIZE_MAX,
    proto_message,
)
from tests.fakes.records import record


def stored(**properties: str) -> StoredMessage:
    block = encode_properties(properties)
    return decode_record(record(100, b"body", topic="orders", queue_offset=1, properties=block))


def test_a_stored_message_has_all_its_fields() -> None:
    message = stored(
        UNIQ_KEY="id", KEYS="k1 k2", TAGS="A", __SHARDINGKEY="g", DELAY="3", TIMER_DELIVER_MS="99"
    )
    sent = proto_message(message)
    assert sent == pb.StoredMessage(
        topic="orders",
        queue_id=0,
        queue_offset=1,
        physical_offset=message.physical_offset,
        store_size=message.store_size,
        message_id="id",
        offset_message_id=f"7F00000100002A9F{message.physical_offset:016X}",
        tag="A",
        keys=["k1", "k2"],
        message_group="g",
        properties=message.properties,
        body=b"body",
        body_crc=zlib.crc32(b"body") & 0x7FFFFFFF,
        system_flag=0,
        flag=7,
        reconsume_times=0,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host="10.0.0.7:4711",
        store_timestamp_ms=message.store_timestamp_ms,
        store_host="127.0.0.1:10911",
        prepared_transaction_offset=0,
        delay_level=3,
        deliver_at_ms=99,
    )


def test_optional_fields_of_a_plain_message_are_absent() -> None:
    sent = proto_message(stored())
    for name in ("tag", "message_group", "delay_level", "deliver_at_ms"):
        assert not sent.HasField(name)
    assert (sent.message_id, list(sent.keys)) == ("", [])


@pytest.mark.parametrize("text", ["x", "1.5", str(2**31), "9" * 30])
def test_a_delay_that_is_no_level_is_absent(text: str) -> None:
    assert not proto_message(stored(DELAY=text)).HasField("delay_level")


def test_a_body_too_large_for_any_reply_is_told() -> None:
    folded = zlib.compress(bytes(REPLY_BODY_SIZE_MAX + 1))
    stored = decode_record(record(0, folded, system_flag=FLAG_COMPRESSED))
    with pytest.raises(UnsupportedFeature, match="RECORDS"):
        proto_message(stored)
