"""The log of what waits: units one behind the other, through files and starts."""

from pathlib import Path

import numpy as np
import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.timer_layout import LOG_UNIT_SIZE, LOG_UNIT_TYPE, Units, units_per_file
from pocketmq.log.timer_log import TimerLog, found_file_size
from pocketmq.model.errors import DiskFull, StoreGap
from tests.golden_stores import GoldenStores
from tests.sim.disk import SimDisk

DIRECTORY = Path("/timerlog")
FILE_SIZE = 5 * LOG_UNIT_SIZE + 16
PER_FILE = 5


def units_of(*numbers: int, previous: int = -1) -> Units:
    """Units of messages that lie at these offsets."""
    units = np.zeros(len(numbers), LOG_UNIT_TYPE)
    units["size"], units["magic"], units["previous"] = LOG_UNIT_SIZE, 1, previous
    units["physical_offset"], units["record_size"] = numbers, 100
    return units


def opened(disk: Disk, end: int | None = None) -> TimerLog:
    log = TimerLog(disk, DIRECTORY, FILE_SIZE)
    log.load()
    log.truncate(log.end if end is None else end)
    return log


def append(log: TimerLog, *numbers: int) -> list[int]:
    """Appends units, as many at a time as fit; returns where they lie."""
    places: list[int] = []
    while len(places) < len(numbers):
        units = units_of(*numbers[len(places) :])[: log.room()]
        places += log.places(len(units)).tolist()
        log.append(units)
    return places


def numbers_of(log: TimerLog, begin: int = 0) -> list[int]:
    return [n for _, units in log.pieces(begin) for n in units["physical_offset"].tolist()]


def test_units_go_on_in_the_next_file() -> None:
    assert units_per_file(FILE_SIZE) == PER_FILE
    log = opened(SimDisk())
    places = append(log, *range(12))
    assert places == [n // 5 * FILE_SIZE + n % 5 * LOG_UNIT_SIZE for n in range(12)]
    assert numbers_of(log) == list(range(12))
    assert numbers_of(log, places[7]) == list(range(7, 12))
    assert log.end == 2 * FILE_SIZE + 2 * LOG_UNIT_SIZE
    log.close()


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 9, 10, 11])
def test_what_is_truncated_is_gone_and_goes_on_there(count: int) -> None:
    disk = SimDisk()
    log = opened(disk)
    append(log, *range(12))
    log.close()
    log = opened(disk, count // 5 * FILE_SIZE + count % 5 * LOG_UNIT_SIZE)
    assert numbers_of(log) == list(range(count))
    places = append(log, *range(100, 107))
    assert places[0] == count // 5 * FILE_SIZE + count % 5 * LOG_UNIT_SIZE
    log.close()
    log = opened(disk, places[-1] + LOG_UNIT_SIZE)
    assert numbers_of(log) == [*range(count), *range(100, 107)]
    log.close()


def test_a_chain_is_followed_through_files_and_ends_where_it_leads_nowhere() -> None:
    log = opened(SimDisk())
    before = -1
    for number in range(9):
        log.room()
        (place,) = log.places(1).tolist()
        log.append(units_of(number, previous=before))
        before = place
    places, units = log.chain(before, 100)
    assert units["physical_offset"].tolist() == list(range(8, -1, -1))
    assert places[0] == before
    places, units = log.chain(before, 3)
    assert units["physical_offset"].tolist() == [8, 7, 6]
    assert int(units["previous"][-1]) == FILE_SIZE
    assert len(log.chain(log.end, 5)[0]) == len(log.chain(-1, 5)[0]) == 0
    log.close()


def test_a_chain_that_leads_onward_is_no_endless_one() -> None:
    log = opened(SimDisk())
    log.room()
    log.append(units_of(1, 2, 3, previous=LOG_UNIT_SIZE))
    assert log.chain(LOG_UNIT_SIZE, 100)[1]["physical_offset"].tolist() == [2]
    log.close()


def test_a_full_disk_adds_nothing_and_later_all() -> None:
    disk = SimDisk()
    log = opened(disk)
    append(log, *range(5))
    disk.capacity_bytes = 0
    with pytest.raises(DiskFull):
        append(log, 5, 6)
    assert numbers_of(log) == list(range(5))
    disk.capacity_bytes = None
    append(log, 5, 6)
    assert numbers_of(log) == list(range(7))
    log.close()


def test_files_whose_units_are_over_go_but_never_the_last() -> None:
    log = opened(SimDisk())
    append(log, *range(12))
    assert log.drop_before(FILE_SIZE - 1) == 0
    assert log.drop_before(2 * FILE_SIZE) == 2
    assert log.drop_before(10 * FILE_SIZE) == 0
    assert (log.begin, numbers_of(log)) == (2 * FILE_SIZE, [10, 11])
    log.close()


def test_a_file_that_is_missing_is_told_of() -> None:
    disk = SimDisk()
    log = opened(disk)
    append(log, *range(12))
    log.close()
    disk.unlink(DIRECTORY / f"{FILE_SIZE:020}")
    with pytest.raises(StoreGap):
        TimerLog(disk, DIRECTORY, FILE_SIZE).load()


def test_files_that_are_there_say_how_long_they_are(golden: GoldenStores) -> None:
    directory = golden.store("semantics") / "timerlog"
    assert found_file_size(Disk(), directory) == 5_200
    log = TimerLog(Disk(), directory, 1 << 20)
    log.files.load(read_only=True)
    log.end = log.files.max_offset
    assert [len(units) for _, units in log.pieces(0)] == [99, 35]
    log.close()
