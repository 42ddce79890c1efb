"""Heads and checks by column: the chain, the fields, which records are sound by their CRC."""

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.columns import heads as column_heads
from pocketmq.format.columns.heads import (
    BEHIND,
    FRONT,
    Heads,
    first_with_zeros,
    is_marked,
    read_heads,
    rows_at,
    sound_count,
    starts,
    unsound_by_crc,
    words_of,
)
from pocketmq.format.record import (
    MAGIC_V1,
    MAGIC_V2,
    RECORD_HEAD,
    BadRecord,
    check_record,
    split_record,
)
from pocketmq.format.record_scan import RecordScan
from pocketmq.model.batch import Destination
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import IPV4, IPV6, TIME_MS, LogBytes, golden_files
from tests.kit.rows import Row, encoded


def buffer_of(content: bytes) -> bytearray:
    return bytearray(bytes(FRONT) + content + bytes(BEHIND))


def loaded(content: bytes) -> tuple[bytearray, Heads]:
    """Bytes with room around them, and the heads in them."""
    buffer = buffer_of(content)
    return buffer, read_heads(buffer, starts(buffer, FRONT, FRONT + len(content)))


def heads_of(log: LogBytes) -> tuple[bytearray, Heads]:
    return loaded(bytes(log.files[0]))


def log_of_three(tmp_path: Path) -> LogBytes:
    log = LogBytes(tmp_path / "s")
    log.add("T", 1, queue_offset=7, body=b"one", keys="a")
    log.add("%RETRY%" + "g" * 150, 2, queue_offset=8, body=b"", born=IPV6)
    log.add("U", 3, queue_offset=9, body=b"three", host=IPV6, born=IPV6)
    return log


def test_every_field_is_the_plain_decoders(tmp_path: Path) -> None:
    buffer, heads = heads_of(log_of_three(tmp_path))
    for number, begin in enumerate(heads.begin.tolist()):
        head, body, topic_begin, topic_end, block_begin, block_end = split_record(buffer, begin)
        found = heads.take(slice(number, number + 1))
        assert (found.size[0], found.magic[0], found.body_crc[0]) == head[:3]
        assert (found.queue_id[0], found.queue_offset[0]) == (head[3], head[5])
        assert (found.physical_offset[0], found.system_flag[0]) == head[6:8]
        assert (found.born_timestamp_ms[0], found.store_timestamp_ms[0]) == (head[8], head[10])
        assert (found.body_begin[0], found.body_size[0]) == (body, head[14])
        assert (found.topic_begin[0], found.topic_size[0]) == (topic_begin, topic_end - topic_begin)
        assert (found.block_begin[0], found.block_size[0]) == (block_begin, block_end - block_begin)
    assert len(heads) == 3


def test_the_chain_ends_at_a_record_that_leaves_the_buffer(tmp_path: Path) -> None:
    log = log_of_three(tmp_path)
    buffer = buffer_of(bytes(log.files[0]))
    for missing in (1, 50, 100):
        found = starts(buffer, FRONT, FRONT + len(log.files[0]) - missing)
        assert found.tolist() == [FRONT + place for place in log.places[:2]]
    assert starts(buffer, FRONT, FRONT).tolist() == []


@pytest.mark.parametrize(
    ("number", "position", "content"),
    [
        (0, 4, b"\0"), (0, 35, b"\x77"), (0, 87, b"\x63"), (1, 4, b"\0"),
        *((1, 0, (size & 0xFFFFFFFF).to_bytes(4)) for size in (0, 90, -1, 2**31 - 1)),
        *((2, 84 + 24, octets) for octets in (b"\x7f\xff\xff\xff", b"\xff" * 4, b"\x80\0\0\0")),
    ],
)  # fmt: skip
def test_what_is_unsound_ends_the_sound_records(
    tmp_path: Path, number: int, position: int, content: bytes
) -> None:
    """Magic, own offset, body length; sizes no record has; lengths that lead out of the buffer."""
    log = log_of_three(tmp_path)
    log.damage(log.places[number] + position, content)
    _, heads = heads_of(log)
    assert sound_count(heads, -FRONT) == number
    assert position or len(heads) == 1, "a size no record has ends the chain"


def test_rows_and_words_are_the_bytes_there() -> None:
    buffer = bytearray(range(64))
    positions = np.array([0, 5, 40], dtype=np.int64)
    assert [row.tobytes() for row in rows_at(buffer, positions, 3)] == [
        bytes([0, 1, 2]), bytes([5, 6, 7]), bytes([40, 41, 42]),
    ]  # fmt: skip
    assert int(words_of(buffer)[8]) == int.from_bytes(bytes(range(8, 16)), "little")


BASE = 8192
cases = st.tuples(
    st.sampled_from(["T", "t" * 127, "%RETRY%" + "é" * 130]),
    st.sampled_from([b"", b"body", b"x" * 300]),
    st.sampled_from([b"", b"k\x01v\x02", b"p" * 200]),
    st.sampled_from([IPV4, IPV6]),
    st.sampled_from([IPV4, IPV6]),
)
changes = st.lists(
    st.tuples(st.integers(0, 3_000), st.sampled_from([b"\0", b"\xff", b"\1", bytes(60), b"\x7f"])),
    max_size=3,
)
noises = st.sampled_from([b"\0", b"\xff", b"\x7f", b"KEYS\x01behind\x02"])


@settings(max_examples=150)
@given(st.lists(cases, min_size=1, max_size=6), changes, noises)
def test_sound_records_are_those_of_a_scan(
    rows: list[tuple[str, bytes, bytes, bytes, bytes]],
    changed: list[tuple[int, bytes]],
    noise: bytes,
) -> None:
    """Whatever bytes change, whatever stands in front of the records and behind them."""
    log = LogBytes(Path("/none"), 1 << 16, base=BASE)
    for topic, body, block, born, host in rows:
        log.add(topic, body=body, block=block, born=born, host=host)
    content = log.files[0]
    for position, octets in changed:
        position %= len(content)
        content[position : position + len(octets)] = octets[: len(content) - position]
    wanted = [BASE + position for position, _ in RecordScan(content, BASE)]
    filler = noise * BEHIND
    buffer = bytearray(filler[:FRONT] + content + filler[:BEHIND])
    heads = read_heads(buffer, starts(buffer, FRONT, FRONT + len(content)))
    assert heads.physical_offset.tolist()[: sound_count(heads, BASE - FRONT)] == wanted


def test_a_record_without_anything_in_it() -> None:
    log = LogBytes(Path("/none"))
    log.add("", body=b"")
    log.add("", body=b"")
    _, heads = heads_of(log)
    assert heads.size.tolist() == [91, 91]
    assert heads.topic_size.tolist() == heads.body_size.tolist() == heads.block_size.tolist()
    assert sound_count(heads, -FRONT) == 2


def head_of(size: int, magic: int, body_size: int, prepared_offset: int = 0) -> bytes:
    """A head of a record at offset 0."""
    return RECORD_HEAD.struct.pack(
        size, magic, 0, 0, 0, 0, 0, 0, 0, IPV4, 0, IPV4, 0, prepared_offset, body_size
    )


NEGATIVE_LENGTHS = {
    # The topic, of no characters, begins ten bytes before the head ends.
    "body": head_of(88 - 10 + 1 + 2 + 16, MAGIC_V1, -10, prepared_offset=16 << 24) + bytes(40),
    # The length of the properties is the body's last byte and the topic's first one, 255.
    "topic": head_of(88 + 1 + 2 + 254, MAGIC_V2, 1) + b"\0\xff\xfd" + bytes(300),
    "properties": head_of(88 + 1 + 20 + 2 - 5, MAGIC_V1, 0) + b"\x14" + bytes(20) + b"\xff\xfb",
}


@pytest.mark.parametrize("name", NEGATIVE_LENGTHS)
def test_negative_lengths_are_unsound_though_they_add_up(name: str) -> None:
    content = NEGATIVE_LENGTHS[name]
    buffer = buffer_of(content)
    heads = read_heads(buffer, np.array([FRONT], dtype=np.int64))
    assert heads.block_begin[0] + heads.block_size[0] - FRONT == heads.size[0]
    lengths = {"body": heads.body_size, "topic": heads.topic_size, "properties": heads.block_size}
    assert [found for found, column in lengths.items() if column[0] < 0] == [name]
    assert sound_count(heads, -FRONT) == 0
    assert list(RecordScan(content.ljust(400, b"\0"), 0)) == []


def test_properties_that_end_in_zeros_are_damage_where_a_crc_is_appended(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    for block in (b"a\x01b\x02", b"\0", b"a\x01b\0\0"):
        log.add(block=block)
    buffer, heads = heads_of(log)
    assert unsound_by_crc(buffer, heads, property_crc=False) == 3
    assert unsound_by_crc(buffer, heads.take(slice(2, 3)), property_crc=True) == 0
    assert unsound_by_crc(buffer, heads, property_crc=True) == 1


def test_any_byte_of_a_record_with_a_property_crc_counts(golden: GoldenStores) -> None:
    content = bytearray(Path(golden_files(golden, "propcrc")[0].path).read_bytes())
    buffer, heads = loaded(bytes(content[:4096]))
    assert len(heads) > 3
    assert unsound_by_crc(buffer, heads, property_crc=True) == len(heads)
    ends = heads.block_begin + heads.block_size
    assert is_marked(buffer, ends - 20).all()
    for position in range(FRONT + 8, int(heads.size[0]) + FRONT - 20, 7):
        before, buffer[position] = buffer[position], buffer[position] ^ 0x10
        assert unsound_by_crc(buffer, heads, property_crc=True) == 0
        buffer[position] = before


def records_with_crc(rows: list[tuple[bytes, bytes, bytes]]) -> bytes:
    content = b""
    for body, block, host in rows:
        content += encoded(
            Destination("T", 0, host),
            Row(body, block, 0, TIME_MS, IPV4),
            physical_offset=len(content),
            store_timestamp_ms=TIME_MS,
            crc=True,
        )
    return content


def first_unsound(content: bytes, places: list[int], *, property_crc: bool) -> int:
    """The same record by record."""
    for number, place in enumerate(places):
        try:
            check_record(content, place, place, property_crc=property_crc)
        except BadRecord:
            return number
    return len(places)


parts = st.tuples(
    st.sampled_from([b"", b"a", b"body", bytes(9)]),
    st.sampled_from([b"", b"k\x01v", b"k\x01v\x02", b"__CRC32#\x010123456789\x02", b"z\x01\0\0"]),
    st.sampled_from([IPV4, IPV6]),
)


@settings(max_examples=100)
@given(
    st.lists(parts, min_size=1, max_size=5),
    st.booleans(),
    st.integers(0, 10_000),
    st.integers(0, 255),
    st.booleans(),
)
def test_the_first_unsound_record_is_the_plain_checks(
    rows: list[tuple[bytes, bytes, bytes]],
    with_crc: bool,
    position: int,
    octet: int,
    property_crc: bool,
) -> None:
    if with_crc:
        content = bytearray(records_with_crc(rows))
    else:
        log = LogBytes(Path("/none"))
        for body, block, host in rows:
            log.add(body=body, block=block, host=host)
        content = log.files[0]
    _, heads = loaded(bytes(content))
    places = (heads.begin - FRONT).tolist()
    # A byte of what only CRCs guard: bodies and properties.
    guarded = [
        at
        for begins, sizes in (
            (heads.body_begin, heads.body_size),
            (heads.block_begin, heads.block_size),
        )
        for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True)
        for at in range(begin, begin + size)
    ]
    if guarded:
        content[guarded[position % len(guarded)] - FRONT] = octet
    buffer, heads = loaded(bytes(content))
    wanted = first_unsound(bytes(content), places, property_crc=property_crc)
    assert unsound_by_crc(buffer, heads, property_crc=property_crc) == wanted


def test_the_first_of_several_is_named(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    for number in range(6):
        log.add(body=b"bodybody", block=b"a\x01b\0" if number == 2 else b"")
    for number in (5, 3, 4):
        log.damage(log.places[number] + 90, b"\0")
    assert unsound_by_crc(*heads_of(log), property_crc=False) == 3
    assert unsound_by_crc(*heads_of(log), property_crc=True) == 2


def test_a_crc_of_an_empty_body_is_not_looked_at(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(body=b"")
    log.damage(8, b"\1\2\3\4")
    assert unsound_by_crc(*heads_of(log), property_crc=False) == 1
    assert check_record(log.files[0], 0, 0) == len(log.files[0])


@pytest.mark.parametrize("rows_size_max", [0, 1 << 20])
@given(texts=st.lists(st.binary(max_size=6).map(lambda text: text.replace(b"\1", b"\0"))))
def test_the_first_stretch_with_a_zero_is_found(rows_size_max: int, texts: list[bytes]) -> None:
    buffer = buffer_of(b"\0".join(texts))
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    begins = FRONT + np.cumsum(sizes + 1) - sizes - 1
    expected = next((n for n, text in enumerate(texts) if b"\0" in text), len(texts))
    with patch.object(column_heads, "ROWS_SIZE_MAX", rows_size_max):
        assert first_with_zeros(buffer, begins, sizes) == expected
