"""Ranges: whole files, or pieces that begin where records begin."""

from pathlib import Path

import pytest

from broker.rebuild.plan import CutTask, cut_points, map_here, plan_ranges
from tests.fakes.log_bytes import EVERYTHING, LogBytes


def log_of(tmp_path: Path) -> LogBytes:
    log = LogBytes(tmp_path / "s", 4096)
    for number in range(70):
        log.add(queue_offset=number, body=b"x" * (number % 9 * 11))
    return log.close()


def test_many_files_are_ranges_as_they_are(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    ranges = plan_ranges(log.found(), EVERYTHING, map_here, workers=1)
    assert [(part.begin, part.end) for part in ranges] == [
        (file.base, file.end) for file in log.found()
    ]
    assert ranges[1].name == f"{4096:020d}"


@pytest.mark.parametrize("piece_size", [1, 100, 700, 4095])
def test_pieces_begin_at_records_and_leave_nothing_out(tmp_path: Path, piece_size: int) -> None:
    log = log_of(tmp_path)
    ranges = plan_ranges(log.found(), EVERYTHING, map_here, workers=1, piece_size=piece_size)
    begins = [part.begin for part in ranges]
    assert set(begins) <= set(log.places)
    assert [part.end for part in ranges] == [*begins[1:], log.found()[-1].end]
    for part in ranges:
        assert part.begin in (
            part.file.base,
            *cut_points(CutTask(part.file, EVERYTHING, piece_size)),
        )
    if piece_size == 1:
        assert begins == log.places


def test_nothing_begins_at_or_behind_the_limit(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    upto = log.places[40]
    ranges = plan_ranges(log.found(), upto, map_here, workers=1, piece_size=300)
    assert ranges[-1].end == upto
    assert all(part.begin < upto for part in ranges)


def test_behind_damage_nothing_is_cut(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 4096)
    for number in range(20):
        log.add(queue_offset=number)
    log.damage(log.places[9] + 4, b"\0")
    (file,) = log.close().found()
    points = cut_points(CutTask(file, EVERYTHING, 200))
    assert points
    assert max(points) < log.places[9]
