"""A range: what it hands out, over holes as well, and what it tells."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketmq.model.errors import IllegalTopic
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import FLAG_TRANSACTION_MASK, TRANSACTION_PREPARED
from pocketmq.model.topic import QUARANTINE_TOPIC
from pocketmq.rebuild.range_pass import RangePass, RangeResult
from pocketmq.rebuild.unit_files import QueueFiles, UnitWriter
from pocketmq.walk.log_walk import NO_RECORD, Times
from pocketmq.walk.reader import NO_FILE
from tests.kit.log_bytes import EVERYTHING, SMALL, TIME_MS, LogBytes


class Seen(UnitWriter):
    """Takes units and entries, and remembers where their records lie."""

    def __init__(self) -> None:
        super().__init__(QueueFiles(Path("/none"), 200))
        self.units: list[int] = []
        self.entries: list[int] = []
        self.told = 0

    def add(
        self, queue: NDArray[np.int64], queue_offset: NDArray[np.int64], units: NDArray[np.void]
    ) -> None:
        assert len(queue) == len(queue_offset) == len(units)
        self.units += units["physical_offset"].tolist()

    def take(self, rows: NDArray[np.void]) -> None:
        self.entries += rows["physical_offset"].tolist()

    def advance(self, byte_count: int) -> None:
        self.told += byte_count


def passed(
    log: LogBytes, begin: int, upto: int, last_times: Times = NO_RECORD
) -> tuple[Seen, RangeResult]:
    seen = Seen()
    reading = RangePass(SMALL, seen, seen.take, seen.advance)
    reading.walk.resume(last_times, NO_FILE)
    return seen, reading.run(log.close().found()[0], begin, upto)


def log_of(tmp_path: Path) -> LogBytes:
    log = LogBytes(tmp_path / "s")
    for number in range(8):
        log.add(queue_offset=number, keys="a b" if number % 2 else "")
    return log


def test_units_and_entries_of_a_range(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    seen, result = passed(log, log.places[2], log.places[5])
    assert seen.units == log.places[2:5]
    assert seen.entries == [log.places[3]] * 2
    assert (result.record_count, result.entry_count, result.end) == (3, 2, log.places[5])
    assert result.stop.kind is ScanEnd.UPTO
    assert seen.told == log.places[5] - log.places[2]


def test_behind_a_hole_at_the_begin_nothing_is_believed_without_a_time(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(0, bytes(8))
    seen, result = passed(log, 0, EVERYTHING, ())
    assert (seen.units, result.record_count, result.last_times) == ([], 0, ())


def test_records_in_the_place_of_damage_are_gaps_without_units(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    place = log.add(QUARANTINE_TOPIC, flags=FLAG_TRANSACTION_MASK, keys="k")
    seen, result = passed(log, 0, EVERYTHING)
    assert result.gaps == [(place, log.end)]
    assert place not in seen.units + seen.entries


@pytest.mark.parametrize("damaged", [[3], [0, 1, 4, 6], [7]])
def test_holes_are_gone_over_and_noted_and_progress_is_of_records_alone(
    tmp_path: Path, damaged: list[int]
) -> None:
    log = log_of(tmp_path)
    for number in damaged:
        log.damage(log.places[number] + 4, b"\0")
    seen, result = passed(log, 0, EVERYTHING)
    sound = [number for number in range(8) if number not in damaged]
    ends = [*log.places[1:], log.end]
    assert seen.units == [log.places[number] for number in sound]
    assert seen.told == sum(ends[number] - log.places[number] for number in sound)
    begins = [number for number in damaged if number - 1 not in damaged]
    behind = [next((n for n in sound if n > number), None) for number in begins]
    wanted = [(log.places[n], log.file_size if s is None else log.places[s], s is not None)
              for n, s in zip(begins, behind, strict=True)]  # fmt: skip
    wanted += [] if 7 in damaged else [(log.end, log.file_size, False)]
    assert [(hole.begin, hole.end, hole.is_followed) for hole in result.holes] == wanted
    assert all(hole.reason for hole in result.holes)


def test_a_hole_before_the_next_range_ends_there(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[3] + 4, b"\0")
    _, result = passed(log, 0, log.places[4])
    assert [(hole.begin, hole.end) for hole in result.holes] == [(log.places[3], log.places[4])]
    assert result.stop.kind is ScanEnd.UPTO


def test_behind_a_hole_at_the_begin_the_time_before_it_decides(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    for number in range(6):
        log.add(queue_offset=number, time_ms=TIME_MS + number)
    log.damage(0, bytes(8))
    log.close()
    file = log.found()[0]
    for last_time_ms, wanted in ((0, 1), (TIME_MS + 1, 1), (TIME_MS + 3, 3), (TIME_MS + 6, 6)):
        seen = Seen()
        reading = RangePass(SMALL, seen, seen.take)
        reading.walk.resume((0, last_time_ms), NO_FILE)
        result = reading.run(file, 0, EVERYTHING)
        assert seen.units == log.places[wanted:]
        assert result.record_count == 6 - wanted


def test_ranges_one_after_the_other_are_the_whole(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    file = log.close().found()[0]
    seen = Seen()
    reading = RangePass(SMALL, seen, seen.take)
    borders = [0, log.places[1], log.places[4], log.places[5], EVERYTHING]
    results = [reading.run(file, begin, end) for begin, end in pairwise(borders)]
    assert seen.units == log.places
    assert [result.record_count for result in results] == [1, 3, 1, 3]
    assert [result.stop.kind for result in results[:3]] == [ScanEnd.UPTO] * 3
    assert [result.end for result in results] == [*borders[1:4], log.end]


def test_a_range_without_records(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    seen, result = passed(log, 0, EVERYTHING, (0, TIME_MS))
    assert (seen.units, result.record_count, result.end) == ([], 0, 0)
    assert result.last_times == (0, TIME_MS)
    assert [(hole.begin, hole.end, hole.is_followed) for hole in result.holes] == [(0, 4096, False)]


def runs_of(log: LogBytes, out: Path) -> dict[tuple[str, int], tuple[int, int, bool]]:
    """Writes the units of a log; returns first, end, and whether nothing is missing, by queue."""
    files = QueueFiles(out, 200)
    units = UnitWriter(files)
    RangePass(SMALL, units, lambda rows: None).run(log.close().found()[0], 0, EVERYTHING)
    try:
        units.flush()
    finally:
        files.close()
    return units.queue_runs()


def test_runs_of_queues(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    for topic, queue_offset in (("A", 3), ("B", 0), ("A", 4), ("C", 1), ("C", 3), ("A", 5)):
        log.add(topic, queue_offset=queue_offset)
    log.add("D", flags=TRANSACTION_PREPARED)
    assert runs_of(log, tmp_path / "q") == {
        ("A", 0): (3, 3, True), ("B", 0): (0, 1, True), ("C", 0): (1, 2, False),
    }  # fmt: skip


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "订单", "t" * 128])
def test_a_name_that_can_be_no_directory_is_refused(tmp_path: Path, topic: str) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(topic)
    with pytest.raises(IllegalTopic):
        runs_of(log, tmp_path / "q")
    assert not (tmp_path / "q").exists()
