"""A range: what it hands out, over holes as well, and what it tells."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from broker.format.columns.queues import QueueTable
from broker.model.message import FLAG_TRANSACTION_MASK
from broker.model.system_topics import QUARANTINE_TOPIC
from broker.rebuild.range_pass import UNKNOWN_TIME, RangePass, RangeResult
from broker.rebuild.reader import StopKind
from tests.fakes.log_bytes import EVERYTHING, SMALL, LogBytes


class Seen:
    """Takes units and entries, and remembers where their records lie."""

    def __init__(self) -> None:
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

    def tell(self, byte_count: int) -> None:
        self.told += byte_count


def passed(log: LogBytes, begin: int, upto: int, last_time_ms: int = 0) -> tuple[Seen, RangeResult]:
    seen = Seen()
    reading = RangePass(SMALL, QueueTable(), seen, seen.take, seen.tell)
    return seen, reading.run(log.close().found()[0], begin, upto, last_time_ms)


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
    assert result.stop.kind is StopKind.UPTO
    assert seen.told == log.places[5] - log.places[2]


def test_a_hole_is_gone_over_and_noted(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[3] + 4, b"\0")
    seen, result = passed(log, 0, EVERYTHING)
    assert seen.units == [place for place in log.places if place != log.places[3]]
    assert [(hole.begin, hole.end, hole.is_followed) for hole in result.holes] == [
        (log.places[3], log.places[4], True),
        (log.end, log.file_size, False),
    ]


def test_a_hole_before_the_next_range_ends_there(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(log.places[3] + 4, b"\0")
    _, result = passed(log, 0, log.places[4])
    assert [(hole.begin, hole.end) for hole in result.holes] == [(log.places[3], log.places[4])]
    assert result.stop.kind is StopKind.UPTO


def test_behind_a_hole_at_the_begin_nothing_is_believed_without_a_time(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.damage(0, bytes(8))
    seen, result = passed(log, 0, EVERYTHING, UNKNOWN_TIME)
    assert (seen.units, result.record_count, result.last_time_ms) == ([], 0, UNKNOWN_TIME)


def test_records_in_the_place_of_damage_are_gaps_without_units(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    place = log.add(QUARANTINE_TOPIC, flags=FLAG_TRANSACTION_MASK, keys="k")
    seen, result = passed(log, 0, EVERYTHING)
    assert result.gaps == [(place, log.end)]
    assert place not in seen.units + seen.entries
