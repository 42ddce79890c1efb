"""Walking a log over damage: what is a hole, what is the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pocketmq.log.commit_log import CommitLog
from pocketmq.model.finding import ScanEnd
from pocketmq.store.recovery.log_survey import Known, Survey, stretches, survey_log
from pocketmq.walk.log_walk import ORDERLY_END, Hole
from tests.kit.generators import result_of
from tests.kit.log_bytes import LogBytes
from tests.sim.quick_disk import QuickDisk

FILE_SIZE = 1_024
UNKNOWN = Known(None)


def a_log(tmp_path: Path, count: int = 24) -> LogBytes:
    """Records of 100 bytes, ten in a file, each a ms later."""
    log = LogBytes(tmp_path / "s", file_size=FILE_SIZE)
    for number in range(count):
        log.add(queue_offset=number, time_ms=1_000 + number, body=b"bodybody")
    return log


def directory_of(log: LogBytes) -> Path:
    """The directory of the log's files, which the first call writes."""
    directory = log.store / "commitlog"
    return directory if directory.exists() else log.close().store / "commitlog"


@contextmanager
def opened(log: LogBytes, disk: QuickDisk) -> Iterator[CommitLog]:
    found = CommitLog(disk, directory_of(log), FILE_SIZE)
    found.load()
    try:
        yield found
    finally:
        found.close()


def survey(
    log: LogBytes, known: Known = UNKNOWN, *, begin: int = 0, chunk_size: int = 1 << 20
) -> Survey:
    disk = QuickDisk()
    with opened(log, disk) as found:
        return result_of(survey_log(found, disk, begin, known, crc=True, chunk_size=chunk_size))


def spans(found: Survey) -> list[tuple[int, int, bool]]:
    return [(hole.begin, hole.end, hole.is_followed) for hole in found.holes]


def test_a_sound_log_has_no_holes(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    found = survey(log)
    assert (found.end, found.scan_end, found.holes) == (log.end, ScanEnd.END_OF_DATA, [])
    assert (found.last_record, found.last_time) == (log.places[-1], 1_023)


def test_damage_with_sound_records_behind_is_a_hole(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.damage(log.places[3] + 90, b"\xff")
    log.damage(log.places[6], bytes(100))
    found = survey(log)
    assert spans(found) == [
        (log.places[3], log.places[4], True),
        (log.places[6], log.places[7], True),
    ]
    assert found.end == log.end
    assert "CRC" in found.holes[0].reason
    assert Path(found.holes[0].path).name == f"{0:020d}"


def test_damage_over_a_files_end_is_a_hole_in_each_file(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    for place in log.places[8:11]:
        log.damage(place, b"\xff" * 100)
    assert spans(survey(log)) == [
        (log.places[8], FILE_SIZE, False),
        (FILE_SIZE, log.places[11], True),
    ]


def test_a_whole_file_that_is_damaged_is_stepped_over(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    for place in log.places[10:20]:
        log.damage(place, bytes(100))
    log.damage(2 * FILE_SIZE - 24, bytes(8))
    assert spans(survey(log)) == [(FILE_SIZE, 2 * FILE_SIZE, False)]


def test_a_damaged_blank_is_a_hole(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.damage(FILE_SIZE - 24, b"\0\0\0\x19")
    found = survey(log)
    assert spans(found) == [(FILE_SIZE - 24, FILE_SIZE, False)]
    assert found.end == log.end


def test_nothing_sound_behind_is_the_end(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.damage(log.places[23] + 90, b"\xff")
    found = survey(log)
    assert (found.end, found.scan_end, found.holes) == (log.places[23], ScanEnd.BAD, [])
    assert found.last_record == log.places[22]


@pytest.mark.parametrize(
    ("known", "ends"),
    [*((Known(mark), mark <= 300) for mark in (0, 300, 301, 5_000)),
     *((Known(None, view_end=end), end <= 300) for end in (300, 301))],
)  # fmt: skip
def test_damage_ends_the_log_behind_what_is_known(tmp_path: Path, known: Known, ends: bool) -> None:
    log = a_log(tmp_path)
    log.damage(log.places[3] + 90, b"\xff")
    found = survey(log, known)
    assert (found.end, found.holes == []) == (log.places[3] if ends else log.end, ends)


def test_zeros_below_the_mark_are_a_hole_too(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.damage(log.places[2], bytes(700))
    found = survey(log, Known(log.end))
    assert spans(found) == [(log.places[2], log.places[9], True)]
    assert found.holes[0].reason in (ORDERLY_END, "zeros followed by other bytes")


def test_the_walk_may_begin_with_any_record(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.damage(log.places[3] + 90, b"\xff")
    assert survey(log, begin=log.places[5]).holes == []


def test_stretches_are_what_lies_between_holes() -> None:
    holes = [Hole("", 10, 20, "", True), Hole("", 20, 30, "", False), Hole("", 50, 60, "", True)]
    assert list(stretches(holes, 0, 100)) == [(0, 10), (30, 50), (60, 100)]
    assert list(stretches(holes, 30, 55)) == [(30, 50)]
    assert list(stretches(holes, 60, 60)) == []
    assert list(stretches([], 5, 9)) == [(5, 9)]


@pytest.mark.parametrize("chunk_size", [120, 300, 1 << 20])
def test_a_record_behind_the_mark_that_lacks_its_last_pages_ends_the_log(
    tmp_path: Path, chunk_size: int
) -> None:
    log = a_log(tmp_path)
    log.damage(log.places[7] - 3, bytes(3))
    log.damage(log.places[15] - 3, bytes(3))
    found = survey(log, Known(log.places[2]), chunk_size=chunk_size)
    assert (found.end, found.scan_end) == (log.places[6], ScanEnd.TORN)
    assert (found.last_record, found.last_time) == (log.places[5], 1_005)
    assert found.reason == "zeros in its topic or properties"
    behind_the_first = survey(log, Known(log.places[7]), chunk_size=chunk_size)
    assert (behind_the_first.end, behind_the_first.last_time) == (log.places[14], 1_013)


def test_a_page_lost_in_the_middle_of_properties_ends_the_log_too(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", file_size=FILE_SIZE)
    for number in range(3):
        log.add(body=b"sound", block=b"name\x01" + b"v" * 200 + b"\x02", time_ms=1_000 + number)
    log.damage(log.places[2] - 150, bytes(50))
    found = survey(log, Known(0))
    assert (found.end, found.scan_end) == (log.places[1], ScanEnd.TORN)
    assert found.reason == "zeros in its topic or properties"
