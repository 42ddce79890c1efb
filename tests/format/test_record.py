"""The record: golden vectors, round trips of any record, and damage that must not go unseen."""

import zlib
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.addresses import host_from_text, offset_message_id
from pocketmq.format.consume_unit import UNIT
from pocketmq.format.properties import decode_properties, encode_properties
from pocketmq.format.record import (
    MAGIC_V1,
    MAGIC_V2,
    PROPERTY_CRC_SIZE,
    RECORD_HEAD,
    RECORD_SIZE_MIN,
    BadRecord,
    body_crc,
    check_record,
    decode_record,
    encode_blank,
    host_flags,
    property_crc_field,
    record_head,
    record_sizes,
    split_record,
    topic_field,
)
from pocketmq.format.record_scan import written_at
from pocketmq.model.batch import Destination
from pocketmq.model.message import (
    FLAG_BORN_HOST_V6,
    FLAG_STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    has_queue_offset,
)
from pocketmq.model.store_shape import DelayLevels
from tests.kit.rows import Row, batch, encoded

STORE_HOST = host_from_text("192.168.1.10:10911")
BORN_HOST = host_from_text("127.0.0.1:54321")
BORN_MS = 1_700_000_000_000
LONG_TOPIC = "%RETRY%" + "x" * 130
CRC_MARK_BEGIN, CRC_MARK_END = -PROPERTY_CRC_SIZE, -PROPERTY_CRC_SIZE + len("__CRC32#\x01")


class Vector(NamedTuple):
    """A record of the specification: its bytes, what it was made of, and its consume unit."""

    content: bytes
    destination: Destination
    row: Row
    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    unit: str
    message_id: str


def row(
    body: bytes,
    properties: dict[str, str],
    *,
    flag: int = 0,
    born_host: bytes = BORN_HOST,
) -> Row:
    return Row(body, encode_properties(properties), flag, BORN_MS, born_host)


VECTORS = {
    "A, V1 with IPv4 hosts": Vector(
        bytes.fromhex(
            "000000ae"  # ................ total size  174
            "daa320a7"  # ................ magic  V1
            "69c865ed"  # ................ body CRC
            "00000000"  # ................ queue id  0
            "00000000"  # ................ flag  0
            "0000000000000000"  # ........ queue offset  0
            "0000000000000000"  # ........ physical offset  0
            "00000000"  # ................ system flag  0
            "0000018bcfe56800"  # ........ born timestamp  1700000000000
            "7f000001 0000d431"  # ....... born host  127.0.0.1:54321
            "0000018bcfe5687b"  # ........ store timestamp  1700000000123
            "c0a8010a 00002a9f"  # ....... store host  192.168.1.10:10911
            "00000000"  # ................ reconsume times  0
            "0000000000000000"  # ........ prepared offset  0
            "0000000e"  # ................ body length  14
            "48656c6c6f20526f636b65744d51"  # Hello RocketMQ
            "06 546f70696341"  # ......... topic  TopicA
            "003f"  # .................... property length  63
            "4b455953 01 6b31206b32 02"  # KEYS = k1 k2
            "554e49515f4b4559 01"  # ..... UNIQ_KEY =
            "3746303030303031303030313030303030303030303030303030304130303031 02"
            "54414753 01 54616741 02"  # . TAGS = TagA
        ),
        Destination("TopicA", 0, STORE_HOST),
        row(
            b"Hello RocketMQ",
            {"KEYS": "k1 k2", "UNIQ_KEY": "7F0000010001000000000000000A0001", "TAGS": "TagA"},
        ),
        queue_offset=0,
        physical_offset=0,
        store_timestamp_ms=1_700_000_000_123,
        unit="0000000000000000 000000ae 000000000027a807",
        message_id="C0A8010A00002A9F0000000000000000",
    ),
    "B, V1 with an IPv6 born host and no properties": Vector(
        bytes.fromhex(
            "0000006f daa320a7 77065916"  # size 111, magic V1, body CRC
            "00000001 00000007 0000000000000005"  # queue 1, flag 7, offset 5
            "00000000000000ae 00000010"  # place 174, the born host is IPv6
            "0000018bcfe56800 fe800000000000000000000000000001 0000d431"  # born at [fe80::1]:54321
            "0000018bcfe569c8 c0a8010a 00002a9f"  # stored 1700000000456 at 192.168.1.10:10911
            "00000000 0000000000000000"  # reconsume times 0, prepared offset 0
            "00000002 7636 06 546f70696341 0000"  # body v6, topic TopicA, no properties
        ),
        Destination("TopicA", 1, STORE_HOST),
        row(b"v6", {}, flag=7, born_host=host_from_text("[fe80::1]:54321")),
        queue_offset=5,
        physical_offset=174,
        store_timestamp_ms=1_700_000_000_456,
        unit="00000000000000ae 0000006f 0000000000000000",
        message_id="C0A8010A00002A9F00000000000000AE",
    ),
    "C, V2 with a topic of 137 characters": Vector(
        bytes.fromhex(
            "000000ed daa320ab 71beeff9"  # size 237, magic V2, body CRC
            "00000000 00000000 0000000000000000"  # queue 0, flag 0, offset 0
            "000000000000011d 00000000"  # place 285, system flag 0
            "0000018bcfe56800 7f000001 0000d431"  # born 1700000000000 at 127.0.0.1:54321
            "0000018bcfe56b15 c0a8010a 00002a9f"  # stored 1700000000789 at 192.168.1.10:10911
            "00000000 0000000000000000"  # reconsume times 0, prepared offset 0
            "00000001 62 0089 25524554525925"
            + "78" * 130  # body b, topic of 137
            + "0007 54414753 01 54 02"  # TAGS = T
        ),
        Destination(LONG_TOPIC, 0, STORE_HOST),
        row(b"b", {"TAGS": "T"}),
        queue_offset=0,
        physical_offset=285,
        store_timestamp_ms=1_700_000_000_789,
        unit="000000000000011d 000000ed 0000000000000054",
        message_id="C0A8010A00002A9F000000000000011D",
    ),
    "D, V1 with the property CRC": Vector(
        bytes.fromhex(
            "00000082 daa320a7 7c6287fd"  # size 130, magic V1, body CRC
            "00000000 00000000 0000000000000001"  # queue 0, flag 0, offset 1
            "000000000000020a 00000000"  # place 522, system flag 0
            "0000018bcfe56800 7f000001 0000d431"  # born 1700000000000 at 127.0.0.1:54321
            "0000018bcfe56be8 c0a8010a 00002a9f"  # stored 1700000001000 at 192.168.1.10:10911
            "00000000 0000000000000000"  # reconsume times 0, prepared offset 0
            "00000003 637263 06 546f70696341"  # body crc, topic TopicA
            "001e 54414753 01 54616741 02"  # 30 bytes of properties: TAGS = TagA
            "5f5f435243333223 01 35343735393837343731 02"  # __CRC32# = 5475987471, last digit first
        ),
        Destination("TopicA", 0, STORE_HOST),
        row(b"crc", {"TAGS": "TagA"}),
        queue_offset=1,
        physical_offset=522,
        store_timestamp_ms=1_700_000_001_000,
        unit="000000000000020a 00000082 000000000027a807",
        message_id="C0A8010A00002A9F000000000000020A",
    ),
    "E, delay level 3 in the schedule topic": Vector(
        bytes.fromhex(
            "0000009e daa320a7 18dd4acc"  # size 158, magic V1, body CRC
            "00000002 00000000 0000000000000000"  # queue 2, flag 0, offset 0
            "00000000000002bc 00000000"  # place 700, system flag 0
            "0000018bcfe56800 7f000001 0000d431"  # born 1700000000000 at 127.0.0.1:54321
            "0000018bcfe56fd0 c0a8010a 00002a9f"  # stored 1700000002000 at 192.168.1.10:10911
            "00000000 0000000000000000"  # reconsume times 0, prepared offset 0
            "00000001 64 13 5343484544554c455f544f5049435f58585858"  # body d, SCHEDULE_TOPIC_XXXX
            "002f 44454c4159 01 33 02"  # 47 bytes of properties: DELAY = 3
            "5245414c5f544f504943 01 546f70696341 02"  # REAL_TOPIC = TopicA
            "5245414c5f514944 01 30 02 54414753 01 54616741 02"  # REAL_QID = 0, TAGS = TagA
        ),
        Destination("SCHEDULE_TOPIC_XXXX", 2, STORE_HOST),
        row(b"d", {"DELAY": "3", "REAL_TOPIC": "TopicA", "REAL_QID": "0", "TAGS": "TagA"}),
        queue_offset=0,
        physical_offset=700,
        store_timestamp_ms=1_700_000_002_000,
        unit="00000000000002bc 0000009e 0000018bcfe596e0",
        message_id="C0A8010A00002A9F00000000000002BC",
    ),
}
every_vector = pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
WITH_CRC = VECTORS["D, V1 with the property CRC"]


encode = partial(encoded, store_timestamp_ms=BORN_MS + 1)
"""Encode rows, stored a moment after they were born."""


def plain(*, crc: bool = False) -> bytes:
    """Encodes a record with a body and properties, at physical offset 1000."""
    made = row(b"some body", {"TAGS": "TagA", "KEYS": "k1"})
    return encode(Destination("TopicA", 0, STORE_HOST), made, physical_offset=1_000, crc=crc)


def is_sound(record: bytes, physical_offset: int = 1_000) -> bool:
    try:
        return check_record(record, 0, physical_offset) == len(record)
    except BadRecord:
        return False


def flipped(record: bytes, position: int, bits: int) -> bytes:
    damaged = bytearray(record)
    damaged[position] ^= bits
    return bytes(damaged)


def padded(record: bytes, length: int) -> bytes:
    """Keeps so many bytes and puts zeros in place of the others, as a power cut does."""
    return record[:length].ljust(len(record), b"\0")


def unseen_flips(record: bytes, positions: list[int]) -> list[tuple[int, int]]:
    """Flips single bits and whole bytes; returns the flips after which the record passes."""
    masks = [*(1 << bit for bit in range(8)), 0xFF]
    return [(p, mask) for p in positions for mask in masks if is_sound(flipped(record, p, mask))]


# --- golden vectors -------------------------------------------------------------------------------


@every_vector
def test_a_vector_is_encoded_byte_for_byte(vector: Vector) -> None:
    made = encode(
        vector.destination,
        vector.row,
        queue_offset=vector.queue_offset,
        physical_offset=vector.physical_offset,
        store_timestamp_ms=vector.store_timestamp_ms,
        crc=vector is WITH_CRC,
    )
    assert made.hex() == vector.content.hex()


@every_vector
def test_a_vector_decodes_to_what_it_was_made_of(vector: Vector) -> None:
    found = decode_record(vector.content)
    body, block, flag, born_ms, born_host, *_ = vector.row
    properties = dict(found.properties)
    properties.pop("__CRC32#", None)
    assert (found.topic, found.queue_id) == vector.destination[:2]
    assert (found.queue_offset, found.physical_offset) == vector[3:5]
    assert (found.body, found.flag, properties) == (body, flag, decode_properties(block))
    assert (found.born_timestamp_ms, found.born_host) == (born_ms, born_host)
    assert (found.store_timestamp_ms, found.store_host) == (vector[5], STORE_HOST)
    assert (found.reconsume_times, found.prepared_transaction_offset) == (0, 0)
    assert found.store_size == check_record(vector.content, 0, vector.physical_offset)
    assert found.store_size == len(vector.content)
    assert offset_message_id(found.store_host, found.physical_offset) == vector.message_id


@every_vector
def test_a_vector_has_the_consume_unit_of_the_specification(vector: Vector) -> None:
    found = written_at(vector.content, 0, DelayLevels())
    unit = (found.begin, found.sizes[0], found.tags_codes[0])
    assert UNIT.pack(*unit) == bytes.fromhex(vector.unit)


def test_the_property_crc_is_of_all_that_stands_before_it() -> None:
    content = WITH_CRC.content
    assert property_crc_field(content[:-PROPERTY_CRC_SIZE]) == content[-PROPERTY_CRC_SIZE:]
    assert decode_record(content).properties["__CRC32#"] == "5475987471"


@pytest.mark.parametrize("content", [b"", *(bytes([n]) * n for n in range(1, 32))], ids=len)
def test_the_property_crc_is_31_bits_in_ten_digits_backwards(content: bytes) -> None:
    name, _, digits = property_crc_field(content).decode().partition("\x01")
    assert name == "__CRC32#"
    assert int(digits[9::-1]) == zlib.crc32(content) % 2**31
    assert (len(digits), digits[10]) == (11, "\x02")


def test_the_blank_of_the_specification() -> None:
    assert encode_blank(475).hex() == "000001db" + "cbd43194"


# --- encoding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("born", "store", "flags", "size"),
    [(8, 8, 0x00, 88), (20, 8, 0x10, 100), (8, 20, 0x20, 100), (20, 20, 0x30, 112)],
)
def test_heads_grow_with_the_hosts(born: int, store: int, flags: int, size: int) -> None:
    assert record_head(born, store).size == size
    assert host_flags(bytes(born), bytes(store)) == flags


def test_the_smallest_record() -> None:
    destination = Destination("", 0, STORE_HOST)
    record = encode(destination, row(b"", {}))
    assert len(record) == RECORD_SIZE_MIN == 91
    assert check_record(record, 0, 0) == 91
    assert decode_record(record).body_crc == 0


@pytest.mark.parametrize(
    ("topic", "field"),
    [
        ("T", b"\x01T"), ("x" * 127, b"\x7f" + b"x" * 127), ("x" * 128, b"\x00\x80" + b"x" * 128),
        ("x" * 255, b"\x00\xff" + b"x" * 255), ("", b"\x00"),
    ],
    ids=["1", "127", "128", "255", "0"],
)  # fmt: skip
def test_a_topic_above_127_characters_has_a_longer_length(topic: str, field: bytes) -> None:
    record = encode(Destination(topic, 0, STORE_HOST), row(b"", {}))
    assert topic_field(topic) == field
    assert record.endswith(field + b"\0\0")
    assert RECORD_HEAD.struct.unpack_from(record)[1] == (MAGIC_V2 if len(topic) > 127 else MAGIC_V1)


@pytest.mark.parametrize(
    ("system_flag", "offsets"),
    [
        (TRANSACTION_NONE, [7, 8, 9]),
        (TRANSACTION_COMMIT | 0x01, [7, 8, 9]),
        (TRANSACTION_PREPARED, [7, 7, 7]),
        (TRANSACTION_ROLLBACK | 0x02, [7, 7, 7]),
    ],
)
def test_rows_follow_on_each_other(system_flag: int, offsets: list[int]) -> None:
    destination = Destination("T", 3, STORE_HOST, system_flag, 99)
    rows = [row(b"a", {}), row(b"bb", {"k": "v"}), row(b"", {"x": "y"})]
    rows = [made._replace(reconsume_times=2) for made in rows]
    sizes = record_sizes(destination, batch(*rows))
    content = encode(destination, *rows, queue_offset=7, physical_offset=500)
    starts = [sum(sizes[:number]) for number in range(3)]
    found = [decode_record(content, start, decompress=False) for start in starts]
    assert [m.queue_offset for m in found] == offsets
    assert [m.physical_offset for m in found] == [500 + start for start in starts]
    assert [m.body for m in found] == [b"a", b"bb", b""]
    assert {m.system_flag for m in found} == {system_flag}
    assert {(m.reconsume_times, m.prepared_transaction_offset) for m in found} == {(2, 99)}
    assert has_queue_offset(system_flag) is (offsets[1] == 8)


def test_a_crc_behind_properties_without_a_last_separator_gets_one() -> None:
    destination = Destination("T", 0, STORE_HOST)
    torn = Row(b"", b"a\x01b", 0, 0, BORN_HOST)
    record = encode(destination, torn, crc=True)
    assert record[-24:-20] == b"a\x01b\x02"
    assert record == encode(destination, torn._replace(block=b"a\x01b\x02"), crc=True)


def test_a_crc_without_other_properties_stands_alone() -> None:
    record = encode(Destination("T", 0, STORE_HOST), row(b"", {}), crc=True)
    assert record[-22:-20] == (20).to_bytes(2, "big")
    assert list(decode_record(record).properties) == ["__CRC32#"]
    assert is_sound(record, 0)
    assert not is_sound(flipped(record, 12, 1), 0)


# --- round trips ----------------------------------------------------------------------------------

HOST = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
TOPIC = st.text("abcXYZ019%|_-", min_size=1, max_size=12) | st.integers(100, 255).map("t".__mul__)
WORD = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
DESTINATION = st.builds(Destination, TOPIC, I32, HOST, st.integers(0, 0x7FF), I64)
ROW = st.builds(
    Row,
    st.binary(max_size=300),
    st.dictionaries(WORD, WORD, max_size=4).map(encode_properties),
    *(I32, I64, HOST),
    reconsume_times=I32,
)


@given(
    DESTINATION,
    st.lists(ROW, min_size=1, max_size=4),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    I64,
)
@pytest.mark.parametrize("crc", [False, True], ids=["plain", "crc"])
def test_every_record_comes_back(
    crc: bool, destination: Destination, rows: list[Row], queue_offset: int, begin: int, ms: int
) -> None:
    """Hosts of either family in each row; host bits of an earlier life are dropped."""
    sizes = record_sizes(destination, batch(*rows), property_crc=crc)
    content = b"???" + encoded(
        destination,
        *rows,
        queue_offset=queue_offset,
        physical_offset=begin,
        store_timestamp_ms=ms,
        crc=crc,
    )
    position, step = 3, int(has_queue_offset(destination.system_flag))
    flags = destination.system_flag & ~(FLAG_BORN_HOST_V6 | FLAG_STORE_HOST_V6)
    for number, (given_row, size) in enumerate(zip(rows, sizes, strict=True)):
        place = begin + position - 3
        assert check_record(memoryview(content), position, place) == size
        found = decode_record(bytearray(content), position, decompress=False)
        assert found.properties.pop("__CRC32#", "") != "" or not crc
        assert (found.body, found.properties) == (
            given_row.body,
            decode_properties(given_row.block),
        )
        assert (found.flag, found.born_timestamp_ms, found.born_host) == given_row[2:5]
        assert (found.topic, found.queue_id, found.store_host) == destination[:3]
        assert found.system_flag == flags | host_flags(given_row.born_host, found.store_host)
        assert found.reconsume_times == given_row.reconsume_times
        assert found.prepared_transaction_offset == destination.prepared_offset
        assert found.body_crc == body_crc(given_row.body)
        assert found.queue_offset == queue_offset + number * step
        assert (found.physical_offset, found.store_timestamp_ms) == (place, ms)
        assert found.store_size == size
        position += size
    assert position == len(content)


def test_a_body_is_unfolded_unless_it_is_asked_for_as_stored() -> None:
    folded = zlib.compress(b"Hello RocketMQ")
    record = encode(Destination("T", 0, STORE_HOST, 0x301), row(folded, {}))
    assert decode_record(record).body == b"Hello RocketMQ"
    assert decode_record(record, decompress=False).body == folded
    assert decode_record(record).body_crc == body_crc(folded)


def test_text_that_is_not_utf8_is_read_with_replacements() -> None:
    destination = Destination("abc", 0, STORE_HOST)
    odd = Row(b"", b"k\x01\xff\x02", 0, 0, BORN_HOST)
    record = encode(destination, odd).replace(b"\x03abc", b"\x03a\xffc")
    assert decode_record(record).topic == "a\ufffdc"
    assert decode_record(record).properties == {"k": "\ufffd"}


# --- damage ---------------------------------------------------------------------------------------


def test_with_the_property_crc_every_flip_is_seen_but_in_its_own_name() -> None:
    record = plain(crc=True)
    size = len(record)
    name = range(size + CRC_MARK_BEGIN, size + CRC_MARK_END)
    assert is_sound(record)
    assert unseen_flips(record, [p for p in range(size) if p not in name]) == []


def test_host_bits_of_the_system_flag_move_all_that_follows() -> None:
    record = plain()
    assert unseen_flips(record, [39])[:2] == [(39, 0x01), (39, 0x02)]
    assert not is_sound(flipped(record, 39, FLAG_BORN_HOST_V6))
    assert not is_sound(flipped(record, 39, FLAG_STORE_HOST_V6))


def test_without_crc_only_the_shape_is_looked_at() -> None:
    record = flipped(plain(), 88, 0xFF)
    assert check_record(record, 0, 1_000, crc=False) == len(record)
    with pytest.raises(BadRecord, match="CRC of its body"):
        check_record(record, 0, 1_000)


@pytest.mark.parametrize("crc", [False, True], ids=["plain", "crc"])
def test_a_record_cut_before_its_properties_is_bad(crc: bool) -> None:
    record = plain(crc=crc)
    block_begin = split_record(record, 0)[4]
    assert not any(is_sound(record[:length]) for length in range(8, len(record)))
    assert not any(is_sound(padded(record, length)) for length in range(8, block_begin))


def test_properties_that_are_zeros_in_part_are_seen_by_what_is_left_of_their_crc() -> None:
    """Without a CRC nothing tells them from what was written; RocketMQ takes them too."""
    without, record = plain(), plain(crc=True)
    size = len(record)
    assert is_sound(padded(without, split_record(without, 0)[4]))
    assert not any(is_sound(padded(record, cut)) for cut in range(size + CRC_MARK_END, size))
    for begin in range(split_record(record, 0)[4], size - PROPERTY_CRC_SIZE):
        assert not is_sound(record[:begin] + b"\0" + record[begin + 1 :])


@pytest.mark.parametrize(
    ("position", "content", "reason"),
    [
        (4, "00000000", "magic 0x00000000 is not that of a record"),
        (4, "daa320a8", "magic 0xDAA320A8 is not that of a record"),
        (0, "0000005a", "size 90 is too small or extends beyond its file"),
        (0, "ffffffff", "size -1 is too small or extends beyond its file"),
        (0, "7fffffff", "size 2147483647 is too small or extends beyond its file"),
        (28, "0000000000000000", "its own physical offset is 0"),
        (84, "ffffffff", "negative body length"),
        (84, "7fffffff", "it extends beyond its file"),
        (84, "00000008", "it extends beyond its file"),
        (104, "0000", "its lengths disagree with its size"),
        (104, "ffff", "its lengths disagree with its size"),
    ],
)
def test_a_bad_record_says_in_which_way(position: int, content: str, reason: str) -> None:
    record = bytearray(plain())
    changed = bytes.fromhex(content)
    record[position : position + len(changed)] = changed
    with pytest.raises(BadRecord) as caught:
        check_record(record, 0, 1_000)
    assert str(caught.value) == reason


def test_a_v2_record_with_a_negative_topic_length_is_bad() -> None:
    record = bytearray(encode(Destination(LONG_TOPIC, 0, STORE_HOST), row(b"", {})))
    record[88:90] = b"\xff\xff"
    with pytest.raises(BadRecord):
        decode_record(record)


def test_a_property_block_that_ends_in_another_property_needs_no_crc() -> None:
    made = row(b"", {"a_rather_long_name": "a rather long value"})
    record = encode(Destination("T", 0, STORE_HOST), made)
    assert check_record(record, 0, 0) == len(record)


def test_a_blank_is_no_record_and_not_bad() -> None:
    assert check_record(encode_blank(475).ljust(475, b"\0"), 0, 0) == 0


@given(st.binary(max_size=400))
def test_junk_behind_a_sound_beginning_is_bad_and_raises_nothing_else(junk: bytes) -> None:
    content = plain()[:8] + junk.ljust(8, b"\0")
    assert not is_sound(content)
