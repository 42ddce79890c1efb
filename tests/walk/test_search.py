"""Behind damage: which record is believed, and which is an old one that no longer counts."""

from pathlib import Path

import pytest

from pocketmq.format.record import encode_blank
from pocketmq.rebuild.log_files import LogFile
from pocketmq.walk.search import is_sound_at, next_sound_record, store_time_at
from tests.kit.log_bytes import TIME_MS, LogBytes
from tests.kit.records import record


def log_of(tmp_path: Path, **last: int) -> LogBytes:
    log = LogBytes(tmp_path / "s")
    for number in range(6):
        log.add(queue_offset=number, time_ms=TIME_MS + number, body=b"bodybody")
    log.add(queue_offset=6, time_ms=last.get("time_ms", TIME_MS + 9))
    return log


def following(file: LogFile, physical_offset: int, last_time_ms: int) -> int | None:
    with file.opened() as source:
        return next_sound_record(source, physical_offset, last_time_ms)


def test_without_a_size_the_next_record_is_searched(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[2], b"\xff\xff\xff\xff\0\0")
    log.damage(log.places[3] + 90, b"\xff")
    (file,) = log.close().found()
    assert following(file, log.places[2], TIME_MS) == log.places[4]


def test_older_records_do_not_count(tmp_path: Path) -> None:
    log = log_of(tmp_path, time_ms=TIME_MS - 1)
    log.damage(log.places[5], bytes(8))
    (file,) = log.close().found()
    assert following(file, log.places[5], TIME_MS + 4) is None
    assert following(file, log.places[5], 0) == log.places[6]


def test_nothing_behind(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    (file,) = log.close().found()
    assert following(file, log.end, TIME_MS) is None
    assert following(file, file.end - 7, TIME_MS) is None


@pytest.mark.parametrize("size", [-1, 0, 1, 7, 90, 4_095, 4_096, 2**31 - 1])
def test_any_size_a_damaged_record_may_say(tmp_path: Path, size: int) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[2], (size & 0xFFFF_FFFF).to_bytes(4))
    (file,) = log.close().found()
    assert following(file, log.places[2], TIME_MS) == log.places[3]


@pytest.mark.parametrize(
    "content",
    [b"\xff" * 96, bytes(96), b"\xda\xa3\x20" * 32, b"\xa7\xda\xa3\x20" * 24,
     encode_blank(96) + bytes(88), b"\xda\xa3\x20\xa7" * 23 + b"\xda\xa3\x20\0"],
)  # fmt: skip
def test_any_bytes_in_the_place_of_a_record(tmp_path: Path, content: bytes) -> None:
    log = log_of(tmp_path)
    assert log.places[3] - log.places[2] == 100
    log.damage(log.places[2], content + b"\0" * 4)
    (file,) = log.close().found()
    assert following(file, log.places[2], TIME_MS) == log.places[3]


@pytest.mark.parametrize("topic", ["T", "%RETRY%" + "g" * 140])
def test_long_topics_are_found_as_well(tmp_path: Path, topic: str) -> None:
    log = LogBytes(tmp_path / "s")
    for number in range(3):
        log.add(topic, queue_offset=number)
    log.damage(log.places[0], b"\xff" * 8)
    (file,) = log.close().found()
    assert following(file, 0, TIME_MS) == log.places[1]


def test_a_record_that_says_it_lies_elsewhere_does_not_count(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[2], b"\xff" * 8)
    log.damage(log.places[3], record(0, size=100))
    (file,) = log.close().found()
    assert following(file, log.places[2], TIME_MS) == log.places[4]


def test_the_time_of_the_last_record_is_young_enough(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[2], bytes(8))
    (file,) = log.close().found()
    assert following(file, log.places[2], TIME_MS + 3) == log.places[3]
    assert following(file, log.places[2], TIME_MS + 4) == log.places[4]
    assert following(file, log.places[2], TIME_MS + 10) is None


def log_with_fakes(tmp_path: Path, count: int) -> LogBytes:
    """Records that hold a sound record in their bodies, whose CRC then no longer holds."""
    log = LogBytes(tmp_path / "s")
    log.add()
    for number in range(count):
        fake = record(log.end + 88, b"fake", time_ms=TIME_MS + 1)
        place = log.add(body=fake + b"tail", queue_offset=1 + number)
        log.damage(place + 88 + len(fake), b"\xff")
    return log


def test_the_size_of_a_damaged_record_leads_over_its_body(tmp_path: Path) -> None:
    log = log_with_fakes(tmp_path, 1)
    wanted = log.add(queue_offset=9)
    (file,) = log.close().found()
    assert following(file, log.places[1], TIME_MS) == wanted


@pytest.mark.parametrize(("count", "is_last"), [(1, True), (2, True), (2, False), (3, False)])
def test_records_in_the_bodies_of_damaged_ones_are_not_believed(
    tmp_path: Path, count: int, is_last: bool
) -> None:
    log = log_with_fakes(tmp_path, count)
    wanted = None if is_last else log.add(queue_offset=9)
    log.roll()
    file = log.close().found()[0]
    assert following(file, log.places[1], TIME_MS) == wanted


def test_a_size_that_leads_too_far_does_not_leave_records_out(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[2], (log.places[5] - log.places[2]).to_bytes(4))
    (file,) = log.close().found()
    assert following(file, log.places[2], TIME_MS) == log.places[3]


def test_a_sound_record_lies_where_it_says_and_is_young_enough(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.roll()
    (file, _) = log.close().found()
    with file.opened() as source:
        assert is_sound_at(source, log.places[1], TIME_MS + 1)
        assert not is_sound_at(source, log.places[1], TIME_MS + 2)
        elsewhere = source._replace(base=source.base + 1)
        assert store_time_at(elsewhere, log.places[1] + 1) is None
        blank = log.end_of(6)
        no_records = (log.places[1] + 1, blank, file.end - 4)
        assert [store_time_at(source, place) for place in no_records] == [None] * 3
