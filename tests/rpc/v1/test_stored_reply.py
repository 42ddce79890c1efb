"""Messages written straight from their records read as the generated classes would write them."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.addresses import host_from_text
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.model.batch import Destination
from pocketmq.model.errors import UnsupportedFeature
from pocketmq.model.message import FLAG_COMPRESSED, StoredMessage
from pocketmq.rpc.codec.stored_messages import (
    BODY_SIZE_MAX,
    KNOWN_MAX,
    ROOM_KEPT_MAX,
    MessageWriter,
)
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.v1.stored_reply import proto_message
from tests.golden_stores import GoldenStores
from tests.kit.records import record
from tests.kit.rows import Row, encoded

HOST = host_from_text("127.0.0.1:10911")
NAMES = ["UNIQ_KEY", "KEYS", "TAGS", "__SHARDINGKEY", "WAIT", "CLUSTER", "own", "größe"]
WRITER = MessageWriter()
SIZE_MAX = 1 << 24
TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=30)


def record_of(
    body: bytes, block: bytes, *, topic: str = "orders", born_host: bytes = HOST,
    system_flag: int = 0, flag: int = 0, queue_offset: int = 0, place: int = 0, born_ms: int = 1,
    store_ms: int = 1,
) -> bytes:  # fmt: skip
    return encoded(
        Destination(topic, 3, HOST, system_flag, 9),
        Row(body, block, flag, born_ms, born_host, reconsume_times=2),
        queue_offset=queue_offset,
        physical_offset=place,
        store_timestamp_ms=store_ms,
    )


def plain(*records: bytes) -> list[pb.StoredMessage] | None:
    """Decodes adjacent records; None where one of them is not plain."""
    content = b"".join(records)
    WRITER.begin()
    if WRITER.add(content, 0, SIZE_MAX) < len(content):
        return None
    assert WRITER.count == len(records)
    return list(pb.PullMessageResponse.FromString(WRITER.out.getvalue()).messages)


def same(*records: bytes) -> bool:
    return plain(*records) == [proto_message(decode_record(record)) for record in records]


@given(
    body=st.binary(max_size=300),
    properties=st.dictionaries(st.sampled_from(NAMES), TEXT, max_size=8),
    topic=st.text("abcXYZ%_-|", min_size=1, max_size=40),
    flag=st.integers(0, 2**31 - 1),
    queue_offset=st.integers(0, 2**63 - 1),
    place=st.integers(0, 2**63 - 1),
    born_ms=st.integers(0, 2**63 - 1),
    store_ms=st.integers(0, 2**63 - 1),
)
def test_a_plain_record_reads_the_same(
    body: bytes, properties: dict[str, str], topic: str, flag: int, queue_offset: int, place: int,
    born_ms: int, store_ms: int,
) -> None:  # fmt: skip
    record = record_of(
        body,
        encode_properties(properties),
        topic=topic,
        flag=flag,
        queue_offset=queue_offset,
        place=place,
        born_ms=born_ms,
        store_ms=store_ms,
    )
    assert same(record)


RECORDS = st.lists(
    st.builds(
        record_of,
        st.binary(max_size=40),
        st.dictionaries(st.sampled_from(NAMES), TEXT, max_size=4).map(encode_properties),
        topic=st.sampled_from(["orders", "a"]),
        born_host=st.sampled_from([HOST, host_from_text("10.0.0.7:4711")]),
        flag=st.integers(0, 1),
        place=st.integers(0, 2**63 - 1),
        born_ms=st.integers(0, 3),
    ),
    min_size=1,
    max_size=6,
)


@given(RECORDS)
def test_records_next_to_each_other_read_as_each_alone(records: list[bytes]) -> None:
    assert same(*records)


@given(RECORDS, st.integers(0, 5), st.binary(min_size=1, max_size=8))
def test_bytes_that_are_no_record_end_the_messages_before(
    records: list[bytes], number: int, rubbish: bytes
) -> None:
    sound = records[:number]
    content = b"".join(sound)
    WRITER.begin()
    assert WRITER.add(content + rubbish, 0, SIZE_MAX) == len(content)
    assert WRITER.count == len(sound)


@given(RECORDS, st.data())
def test_a_damaged_record_raises_nothing_but_what_the_walk_refuses(
    records: list[bytes], data: st.DataObject
) -> None:
    content = bytearray(b"".join(records))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=6)):
        content[place] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    WRITER.begin()
    assert 0 <= WRITER.add(bytes(content), 0, SIZE_MAX) <= len(content)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_what_does_not_fit_is_left_but_never_the_first(count: int) -> None:
    record = record_of(b"x" * 300, b"")
    WRITER.begin()
    WRITER.add(record, 0, SIZE_MAX)
    size = len(WRITER.out)
    WRITER.begin()
    assert WRITER.add(record * 5, 0, count * size) == count * len(record)
    assert len(WRITER.out) == count * size
    WRITER.begin()
    assert WRITER.add(record * 5, 0, 7) == len(record)
    assert not WRITER.add_encoded(b"\x0a\x01x", size)
    assert WRITER.add_encoded(b"\x0a\x01x", 2 * size)
    messages = pb.PullMessageResponse.FromString(WRITER.out.getvalue()).messages
    assert [message.topic for message in messages] == ["orders", "x"]


def test_the_room_of_a_large_reply_is_not_kept() -> None:
    writer = MessageWriter()
    writer.add(record_of(bytes(ROOM_KEPT_MAX), b""), 0, SIZE_MAX)
    large = writer.out
    writer.begin()
    assert writer.out is not large
    assert len(writer.out) == 0


def test_more_kinds_than_are_remembered_read_the_same() -> None:
    for number in range(KNOWN_MAX + 2):
        WRITER.begin()
        WRITER.add(record_of(b"", b"p%d\x01v\x02" % number, topic=f"t{number}"), 0, SIZE_MAX)
    assert same(*(record_of(b"", b"p%d\x01v\x02" % n, topic=f"t{n}") for n in (0, 1, KNOWN_MAX)))


@pytest.mark.parametrize(
    "block",
    [
        b"", b"\x02\x02", b"a\x02b\x01\x02\x01c\x02", b"a\x011\x02a\x012\x02",
        b"UNIQ_KEY\x01", b"UNIQ_KEY\x01\x02UNIQ_KEY\x01x\x02", b"MY_UNIQ_KEY\x01x\x02",
    ],
)  # fmt: skip
def test_blocks_of_odd_pairs_read_the_same(block: bytes) -> None:
    assert same(record_of(b"body", block))


def test_the_last_of_two_tags_counts() -> None:
    assert same(record_of(b"x", b"TAGS\x01a\x02TAGS\x01b\x02KEYS\x01k1  k2\x02"))


@pytest.mark.parametrize(
    "record",
    [
        record_of(b"x", b"TAGS\x01\xff\x02"),
        record_of(b"x", b"DELAY\x013\x02"),
        record_of(b"x", b"TIMER_DELIVER_MS\x0199\x02"),
        record_of(b"x", b"", system_flag=FLAG_COMPRESSED),
        record_of(b"x", b"", flag=-1),
        record_of(b"x", b"", born_ms=-1),
        record_of(b"x", b"", born_host=host_from_text("[::1]:80")),
        record_of(b"x", b"", topic="t" * 200),
    ],
)
def test_rarer_forms_are_left_to_the_generated_classes(record: bytes) -> None:
    assert plain(record) is None


@pytest.mark.parametrize("name", ["basic", "semantics", "propcrc", "v533"])
def test_the_records_of_a_real_broker_read_the_same(name: str, golden: GoldenStores) -> None:
    content = {
        int(path.name): path.read_bytes()
        for path in sorted((golden.store(name) / "commitlog").iterdir())
    }
    size = len(content[0])
    found = 0
    for row in golden.manifest(name)["records"]:
        base = row["phy"] - row["phy"] % size
        record = content[base][row["phy"] - base : row["phy"] - base + row["size"]]
        if plain(record) is not None:
            found += 1
            assert same(record)
    assert found > 100


# -- as objects -----------------------------------------------------------------------------------


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
    assert list(sent.keys) == []


def test_without_a_unique_key_the_id_is_the_one_that_tells_the_place() -> None:
    sent = proto_message(stored(KEYS="k1"))
    assert sent.message_id == sent.offset_message_id != ""


@pytest.mark.parametrize("text", ["x", "1.5", str(2**31), "9" * 30])
def test_a_delay_that_is_no_level_is_absent(text: str) -> None:
    assert not proto_message(stored(DELAY=text)).HasField("delay_level")


def test_a_body_too_large_for_any_reply_is_told() -> None:
    folded = zlib.compress(bytes(BODY_SIZE_MAX + 1))
    stored = decode_record(record(0, folded, system_flag=FLAG_COMPRESSED))
    with pytest.raises(UnsupportedFeature, match="RECORDS"):
        proto_message(stored)
