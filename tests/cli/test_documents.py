"""JSON documents have the proto's names and the proto3 mapping, from whichever side they come."""

from base64 import b64decode

from google.protobuf.json_format import MessageToDict

from pocketmq.cli.documents import (
    message_document,
    moved_document,
)
from pocketmq.format.record import decode_record
from pocketmq.model.administration import MovedOffset
from pocketmq.model.message import StoredMessage
from pocketmq.rpc.v1.stored_reply import proto_message
from tests.cli.local_broker import STORED_MS, stored
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import record_positions

FIELDS = """topic queue_id queue_offset physical_offset store_size message_id offset_message_id keys
properties body body_text body_crc system_flag flag reconsume_times born_timestamp_ms born_host
store_timestamp_ms store_host prepared_transaction_offset""".split()


def as_protobuf_says(message: StoredMessage) -> dict[str, object]:
    """The same document by protobuf's own mapping, 64-bit integers turned into numbers."""
    document = MessageToDict(
        proto_message(message),
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )
    if not document["body_codec"]:  # Only a body that is given as stored has one.
        del document["body_codec"]
    for name, value in document.items():
        if isinstance(value, str) and name.endswith(("_offset", "_ms")):
            document[name] = int(value)
    return document


def test_a_message_has_all_fields_and_no_unset_optional_ones() -> None:
    document = message_document(stored(3))
    assert list(document) == FIELDS
    assert document["message_id"] == "ID3"
    assert document["offset_message_id"] == "7F00000100001F91000000000000012C"
    assert document["born_host"] == "10.0.0.7:4711"
    assert document["store_timestamp_ms"] == STORED_MS


def test_optional_fields_come_from_properties() -> None:
    properties = {
        "TAGS": "red",
        "KEYS": "a b",
        "__SHARDINGKEY": "g",
        "DELAY": "3",
        "TIMER_DELIVER_MS": "1795221999999",
    }
    document = message_document(stored(0, properties=properties))
    assert document["tag"] == "red"
    assert document["keys"] == ["a", "b"]
    assert document["message_group"] == "g"
    assert document["delay_level"] == 3
    assert document["deliver_at_ms"] == 1_795_221_999_999
    assert document["properties"] == {"UNIQ_KEY": "ID0", **properties}


def test_numbers_that_are_none_are_left_out() -> None:
    for text in ("soon", "9" * 30, str(2**31)):
        assert "delay_level" not in message_document(stored(0, properties={"DELAY": text}))


def test_properties_stand_in_the_order_of_their_names() -> None:
    document = message_document(stored(0, properties={"b": "1", "a": "2"}))
    assert list(document["properties"]) == ["UNIQ_KEY", "a", "b"]


def test_a_body_is_base64_and_text_beside_it_when_it_is_one() -> None:
    document = message_document(stored(0, "grün".encode()))
    assert b64decode(document["body"]) == "grün".encode()
    assert document["body_text"] == "grün"
    assert "body_text" not in message_document(stored(0, b"\xff\x00"))


def test_real_messages_look_as_protobuf_maps_them(golden: GoldenStores) -> None:
    for name in ("basic", "semantics"):
        file = min((golden.store(name) / "commitlog").iterdir())
        content = file.read_bytes()
        for position, _ in record_positions(file):
            message = decode_record(content, position)
            document = message_document(message)
            document.pop("body_text", None)
            assert document == as_protobuf_says(message)


def test_who_stood_nowhere_has_no_old_offset() -> None:
    assert moved_document("g", MovedOffset("t", 0, None, 5)) == {
        "group": "g",
        "topic": "t",
        "queue_id": 0,
        "new_offset": 5,
    }
    assert moved_document("g", MovedOffset("t", 0, 0, 5))["old_offset"] == 0
