"""The records before, at and behind damage."""

from pathlib import Path

import pytest

from broker.tools.repair.neighbours import Neighbour, Neighbours, store_time_position
from tests.fakes.log_bytes import IPV4, IPV6, TIME_MS, LogBytes


@pytest.fixture
def log(tmp_path: Path) -> LogBytes:
    """Thirty records in several files, each a second younger than the one before."""
    log = LogBytes(tmp_path / "s", 1024, base=1024)
    for number in range(30):
        log.add(queue_offset=number, time_ms=TIME_MS + 1_000 * number)
    return log.close()


def numbers(log: LogBytes, found: Neighbour | None) -> int | None:
    return None if found is None else log.places.index(found.physical_offset)


@pytest.mark.parametrize("number", [0, 1, 7, 12, 29])
def test_beside_one_damaged_record(log: LogBytes, number: int) -> None:
    begin = log.places[number]
    end = begin + 96
    beside = Neighbours(log.found(), [(begin, end)])
    assert numbers(log, beside.before(begin)) == (number - 1 if number else None)
    after = beside.after(end)
    assert after is None or log.places.index(after.physical_offset) > number
    assert beside.at(begin) == (begin, 96, TIME_MS + 1_000 * number, False)


def test_a_file_that_is_damaged_as_a_whole(log: LogBytes) -> None:
    beside = Neighbours(log.found(), [(2048, 3072)])
    before, after = beside.before(2048), beside.after(3072)
    assert before is not None
    assert after is not None
    assert before.physical_offset < 2048 <= 3072 == after.physical_offset


def test_nothing_starts_in_a_record_behind_the_log_or_at_a_blank(log: LogBytes) -> None:
    beside = Neighbours(log.found(), [])
    for place in (log.places[3] + 1, 1 << 40, 2048 - 8, 2048 - 64, log.end):
        assert beside.at(place) is None


def test_the_last_record(log: LogBytes) -> None:
    assert numbers(log, Neighbours(log.found(), []).before(1 << 60)) == 29


def test_a_record_with_a_property_crc_is_told(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(block=b"a\x01b\x02__CRC32#\x010123456789\x02")
    log.close()
    # The CRC is wrong, so this is no record; the one without is.
    assert Neighbours(log.found(), []).at(0) is None


@pytest.mark.parametrize("born", [b"", IPV6])
def test_where_the_store_time_stands(tmp_path: Path, born: bytes) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(born=born or IPV4)
    position = store_time_position(bytes(log.files[0]))
    assert int.from_bytes(log.files[0][position : position + 8]) == TIME_MS
