"""The chain of records: compiled, it ends where that in Python does, and finds the same damage."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from pocketmq.format.columns import heads
from pocketmq.format.record import RECORD_SIZE_MIN, BadRecord, check_record
from pocketmq.format.record_chain import record_chain, sound_chain
from pocketmq.model.batch import Destination
from tests.kit.rows import Row, encoded

SIZES = some.lists(some.integers(RECORD_SIZE_MIN, 300), max_size=8)


@given(sizes=SIZES, last=some.binary(max_size=120), front=some.integers(0, 70))
def test_the_chain_is_that_of_the_columns(sizes: list[int], last: bytes, front: int) -> None:
    content = b"".join(size.to_bytes(4) + bytes(size - 4) for size in sizes) + last
    found = np.frombuffer(record_chain(content, RECORD_SIZE_MIN), dtype=">i8")
    buffer = bytearray(front) + content
    assert (found + front).tolist() == heads.starts(buffer, front, len(buffer)).tolist()
    assert found[: len(sizes)].tolist() == np.cumsum([0, *sizes])[:-1].tolist()


def test_a_record_that_ends_with_the_content_counts_and_a_longer_one_does_not() -> None:
    content = (91).to_bytes(4) + bytes(87)
    assert record_chain(content, 91) == bytes(8)
    assert (
        record_chain(content[:-1], 91) == record_chain(content, 92) == record_chain(b"", 91) == b""
    )


def test_a_negative_size_ends_the_chain() -> None:
    assert record_chain(b"\xff" * 200, 91) == b""


def checked(content: bytes, physical_offset: int) -> tuple[int, int]:
    """Returns what `sound_chain` should, from records that are checked one by one."""
    position, last = 0, -1
    while len(content) - position >= RECORD_SIZE_MIN:
        try:
            size = check_record(content, position, physical_offset + position)
        except BadRecord:
            break
        if not size:
            break
        position, last = position + size, position
    return position, last


def records(place: int) -> bytes:
    """Returns records of both magics and all widths of hosts, with and without property CRC."""
    found = b""
    for topic in ("t", "x" * 200):
        for hosts in ((8, 8), (8, 20), (20, 8), (20, 20)):
            for crc in (False, True):
                rows = Row(b"body", b"KEYS\x01k\x02", born_host=bytes(hosts[0])), Row(b"", b"")
                rows = rows[0], rows[1]._replace(born_host=bytes(hosts[0]))
                to = Destination(topic, 1, bytes(hosts[1]))
                found += encoded(to, *rows, physical_offset=place + len(found), crc=crc)
    return found


RECORDS = records(4_096)


def test_records_of_all_shapes_are_sound() -> None:
    assert sound_chain(RECORDS, 4_096) == checked(RECORDS, 4_096)
    assert sound_chain(RECORDS, 4_096)[0] == len(RECORDS)
    assert sound_chain(RECORDS, 4_097) == (0, -1)
    assert sound_chain(b"", 0) == (0, -1)


@given(at=some.integers(0, len(RECORDS) - 1), flip=some.integers(1, 255), end=some.integers(0, 400))
def test_any_damage_ends_the_chain_where_a_check_of_each_record_ends_it(
    at: int, flip: int, end: int
) -> None:
    content = bytearray(RECORDS)
    content[at] ^= flip
    for part in (bytes(content), bytes(content[: at + end])):
        assert sound_chain(part, 4_096) == checked(part, 4_096)
