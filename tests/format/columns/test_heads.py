"""Heads by column: the chain, the fields, and which records are sound."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.format.columns.heads import (
    BEHIND,
    FRONT,
    Heads,
    read_heads,
    rows_at,
    sound_count,
    starts,
    words_of,
)
from broker.format.record import MAGIC_V1, MAGIC_V2, RECORD_HEAD, split_record
from broker.format.record_scan import RecordScan
from tests.fakes.log_bytes import IPV4, IPV6, LogBytes


def buffer_of(content: bytes) -> bytearray:
    return bytearray(bytes(FRONT) + content + bytes(BEHIND))


def heads_of(log: LogBytes) -> tuple[bytearray, Heads]:
    buffer = buffer_of(bytes(log.files[0]))
    return buffer, read_heads(buffer, starts(buffer, FRONT, FRONT + len(log.files[0])))


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


def test_what_is_unsound_ends_the_sound_records(tmp_path: Path) -> None:
    damages = {"magic": (4, b"\0"), "own offset": (35, b"\x77"), "body length": (87, b"\x63")}
    for position, content in damages.values():
        log = log_of_three(tmp_path)
        log.damage(log.places[0] + position, content)
        _, heads = heads_of(log)
        assert sound_count(heads, -FRONT) == 0
    log = log_of_three(tmp_path)
    log.damage(log.places[1] + 4, b"\0")
    _, heads = heads_of(log)
    assert sound_count(heads, -FRONT) == 1


def test_a_size_no_record_has_ends_the_chain(tmp_path: Path) -> None:
    for size in (0, 90, -1, 2**31 - 1):
        log = log_of_three(tmp_path)
        log.damage(log.places[1], (size & 0xFFFFFFFF).to_bytes(4))
        _, heads = heads_of(log)
        assert heads.begin.tolist() == [FRONT]


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


def test_lengths_that_lead_out_of_the_buffer_are_not_followed(tmp_path: Path) -> None:
    for octets in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0"):
        log = log_of_three(tmp_path)
        log.damage(log.places[2] + 84 + 24, octets)  # The last one's body length, behind IPv6.
        _, heads = heads_of(log)
        assert sound_count(heads, -FRONT) == 2


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
