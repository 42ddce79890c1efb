"""CRCs of many records: the first that does not hold is named."""

from pathlib import Path

import pytest

from broker.format.columns.checks import is_marked, unsound_by_crc
from broker.format.columns.heads import BEHIND, FRONT, Heads, read_heads, starts
from tests.fakes.log_bytes import LogBytes, golden_files
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
    log.add(block=b"a\x01b\0\0")
    buffer, heads = loaded(bytes(log.files[0]))
    assert unsound_by_crc(buffer, heads, property_crc=False) == 2
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
