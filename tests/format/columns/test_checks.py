"""CRCs of many records: the first that does not hold is named."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.format.columns.checks import is_marked, unsound_by_crc
from broker.format.columns.heads import BEHIND, FRONT, Heads, read_heads, starts
from broker.format.record import BadRecord, check_record
from broker.model.batch import Destination
from tests.fakes.log_bytes import IPV4, IPV6, TIME_MS, LogBytes, golden_files
from tests.fakes.rows import Row, encoded
from tests.golden_stores import GoldenStores


def loaded(content: bytes) -> tuple[bytearray, Heads]:
    buffer = bytearray(bytes(FRONT) + content + bytes(BEHIND))
    return buffer, read_heads(buffer, starts(buffer, FRONT, FRONT + len(content)))


def test_bodies_that_hold(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    for body in (b"", b"a", b"b" * 200):
        log.add(body=body)
    buffer, heads = loaded(bytes(log.files[0]))
    assert unsound_by_crc(buffer, heads, property_crc=False) == 3


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_changed_body_is_named(tmp_path: Path, number: int) -> None:
    log = LogBytes(tmp_path / "s")
    for body in (b"aaaa", b"bbbb", b"cccc"):
        log.add(body=body)
    content = bytes(log.files[0]).replace([b"aaaa", b"bbbb", b"cccc"][number], b"aabb")
    buffer, heads = loaded(content)
    assert unsound_by_crc(buffer, heads, property_crc=False) == number


def test_properties_that_end_in_zeros_are_damage_where_a_crc_is_appended(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(block=b"a\x01b\x02")
    log.add(block=b"\0")
    log.add(block=b"a\x01b\0\0")
    buffer, heads = loaded(bytes(log.files[0]))
    assert unsound_by_crc(buffer, heads, property_crc=False) == 3
    later = heads.take(slice(2, 3))
    assert unsound_by_crc(buffer, later, property_crc=True) == 0
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
        for begin, size in zip(heads.body_begin.tolist(), heads.body_size.tolist(), strict=True)
        for at in range(begin, begin + size)
    ]
    guarded += [
        at
        for begin, size in zip(heads.block_begin.tolist(), heads.block_size.tolist(), strict=True)
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
    buffer, heads = loaded(bytes(log.files[0]))
    assert unsound_by_crc(buffer, heads, property_crc=False) == 3
    assert unsound_by_crc(buffer, heads, property_crc=True) == 2


def test_a_crc_of_an_empty_body_is_not_looked_at(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(body=b"")
    log.damage(8, b"\1\2\3\4")
    buffer, heads = loaded(bytes(log.files[0]))
    assert unsound_by_crc(buffer, heads, property_crc=False) == 1
    assert check_record(log.files[0], 0, 0) == len(log.files[0])
