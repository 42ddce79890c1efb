"""A log is read over damage, and every hole in it is told."""

from pathlib import Path

import pytest

from pocketmq.backfill.log_walk import DamagedBytes, survey, walk
from pocketmq.rebuild.log_files import LogFile
from pocketmq.rebuild.plan import Range, map_here, plan_ranges
from tests.backfill.jobs import FILE_SIZE
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import TIME_MS, LogBytes, golden_files


def log_of(store: Path, count: int = 40) -> LogBytes:
    """A log whose records are a second apart."""
    log = LogBytes(store, FILE_SIZE)
    for number in range(count):
        log.add(queue_offset=number, time_ms=TIME_MS + 1000 * number)
    return log


def walked(files: list[LogFile], piece_size: int = 0) -> tuple[list[int], list[DamagedBytes]]:
    """(physical offsets of all records, damage) of a log."""
    ranges = plan_ranges(files, files[-1].end, map_here, workers=1, piece_size=piece_size)
    places: list[int] = []
    damage: list[DamagedBytes] = []
    for stretch in survey(ranges):
        for found in walk(stretch, check_crc=True):
            if isinstance(found, DamagedBytes):
                damage.append(found)
            else:
                places += found.heads.physical_offset.tolist()
    return places, damage


@pytest.mark.parametrize("piece_size", [0, 300])
def test_a_sound_log_has_all_its_records(tmp_path: Path, piece_size: int) -> None:
    log = log_of(tmp_path).close()
    assert walked(log.found(), piece_size) == (log.places, [])


@pytest.mark.parametrize("piece_size", [0, 300])
@pytest.mark.parametrize("number", [0, 3, 20])
def test_a_damaged_record_is_told_and_the_others_are_read(
    tmp_path: Path, number: int, piece_size: int
) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[number] + 4, b"\0\0")
    places, damage = walked(log.close().found(), piece_size)
    assert places == log.places[:number] + log.places[number + 1 :]
    assert [found.physical_offset for found in damage] == [log.places[number]]
    assert damage[0].position == log.places[number] % FILE_SIZE
    assert "magic" in damage[0].reason


def test_a_file_of_zeros_between_others_is_told(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(FILE_SIZE, bytes(FILE_SIZE))
    places, damage = walked(log.close().found())
    assert places == [place for place in log.places if place // FILE_SIZE != 1]
    assert [(found.physical_offset, found.position) for found in damage] == [(FILE_SIZE, 0)]


def test_what_a_crash_left_at_the_end_is_no_damage(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[-1] + 30, b"\xff" * 9)
    assert walked(log.close().found()) == (log.places[:-1], [])


def test_files_made_ahead_are_no_damage(tmp_path: Path) -> None:
    log = log_of(tmp_path, 3)
    log.files += [bytearray(), bytearray()]
    assert walked(log.close().found()) == (log.places, [])


def test_records_older_than_what_came_before_are_left_behind(tmp_path: Path) -> None:
    """A broker cut its log in one file and left the next one's records."""
    log = LogBytes(tmp_path, FILE_SIZE)
    for number in range(30):
        log.add(queue_offset=number, time_ms=TIME_MS - 1000 * number)
    begin = log.places[-1] - log.places[-1] % FILE_SIZE
    log.damage(begin, bytes(4))
    places, _ = walked(log.close().found())
    assert places == [place for place in log.places if place < begin]


def test_a_flipped_time_at_the_begin_of_a_file_hides_nothing(tmp_path: Path) -> None:
    """No CRC covers a store time; what follows is judged by the lesser of two."""
    log = log_of(tmp_path)
    first = next(place for place in log.places if place >= FILE_SIZE)
    log.damage(first + 56, (1 << 60).to_bytes(8))
    later = [place for place in log.places if place >= 2 * FILE_SIZE]
    log.damage(later[0] + 4, bytes(2))
    places, damage = walked(log.close().found())
    assert places == [place for place in log.places if place != later[0]]
    assert [found.physical_offset for found in damage] == [later[0]]


def test_golden_logs_are_read_as_rocketmq_reads_them(golden: GoldenStores) -> None:
    for name in ("basic", "crash-torn.before", "clean-torn.after", "cqext"):
        records = golden.manifest(name)["records"]
        places, damage = walked(golden_files(golden, name))
        assert (places, damage) == ([record["phy"] for record in records], [])


def test_survey_tells_what_lies_behind_each_range(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    files = log.close().found()
    stretches = survey([Range(file, file.base, file.end) for file in files])
    assert [stretch.is_followed for stretch in stretches] == [True] * (len(files) - 1) + [False]
    times = [stretch.last_time_ms for stretch in stretches]
    assert times == sorted(times)
    assert times[0] == 0
