"""Behind damage: which record is believed, and which is an old one that no longer counts."""

from pathlib import Path

from broker.rebuild.holes import next_sound_record
from tests.fakes.log_bytes import TIME_MS, LogBytes


def log_of(tmp_path: Path, **last: int) -> LogBytes:
    log = LogBytes(tmp_path / "s")
    for number in range(6):
        log.add(queue_offset=number, time_ms=TIME_MS + number, body=b"bodybody")
    log.add(queue_offset=6, time_ms=last.get("time_ms", TIME_MS + 9))
    return log


def test_the_size_of_the_damaged_record_leads_on(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[2] + 90, b"\xff")
    (file,) = log.close().found()
    assert next_sound_record(file, log.places[2], TIME_MS) == log.places[3]


def test_without_a_size_the_next_record_is_searched(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[2], b"\xff\xff\xff\xff\0\0")
    log.damage(log.places[3] + 90, b"\xff")
    (file,) = log.close().found()
    assert next_sound_record(file, log.places[2], TIME_MS) == log.places[4]


def test_older_records_do_not_count(tmp_path: Path) -> None:
    log = log_of(tmp_path, time_ms=TIME_MS - 1)
    log.damage(log.places[5], bytes(8))
    (file,) = log.close().found()
    assert next_sound_record(file, log.places[5], TIME_MS + 4) is None
    assert next_sound_record(file, log.places[5], 0) == log.places[6]


def test_nothing_behind(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    (file,) = log.close().found()
    assert next_sound_record(file, log.end, TIME_MS) is None
    assert next_sound_record(file, file.end - 7, TIME_MS) is None
