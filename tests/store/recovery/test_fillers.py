"""Stand-ins in the place of damage: the log is a chain of sound records again."""

import json
from pathlib import Path

import pytest

from pocketmq.format.record import BLANK_SIZE, decode_record
from pocketmq.model.errors import FsyncFailed
from pocketmq.model.topic import QUARANTINE_TOPIC
from pocketmq.store.recovery.recovery_plan import fill_holes
from pocketmq.walk.log_walk import Hole
from tests.kit.log_bytes import LogBytes
from tests.sim.quick_disk import QuickDisk
from tests.store.recovery.test_log_survey import (
    FILE_SIZE,
    a_log,
    directory_of,
    opened,
    survey,
)

NOW_MS = 1_795_000_000_000
REASON = "the CRC of its body is wrong"


def mended(log: LogBytes, disk: QuickDisk | None = None) -> list[tuple[int, int]]:
    """Replaces the holes that a survey finds; returns their ranges."""
    disk = disk or QuickDisk()
    holes = survey(log).holes
    with opened(log, disk) as found:
        done = fill_holes(found, disk, log.store, holes, time_ms=1_002, now_ms=NOW_MS)
    assert survey(log).holes == []
    return [(hole.begin, hole.end) for hole in done]


def topics(log: LogBytes) -> list[str]:
    with opened(log, QuickDisk()) as found:
        return [decode_record(file.view, at).topic for _, file, at, _ in found.scan(0)]


def test_a_stand_in_takes_the_place_of_a_damaged_record(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.damage(log.places[3] + 95, b"\xff")
    assert mended(log) == [(log.places[3], log.places[4])]
    shown = topics(log)
    assert QUARANTINE_TOPIC.startswith(shown[3])
    assert len(shown) == 24


def test_what_was_damaged_lies_aside(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.damage(log.places[3] + 95, b"\xff")
    damaged = (directory_of(log) / f"{0:020d}").read_bytes()[300:400]
    mended(log)
    (copy,) = (log.store / "pocketmq" / "quarantine").glob("*/*@300")
    assert copy.read_bytes() == damaged
    note = json.loads(copy.with_name(f"{copy.name}.json").read_bytes())
    assert (note["begin"], note["end"], note["reason"]) == (300, 400, REASON)


def test_up_to_a_files_end_a_blank_closes_it(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    for place in log.places[8:11]:
        log.damage(place, b"\xff" * 100)
    assert mended(log) == [(800, FILE_SIZE), (FILE_SIZE, log.places[11])]
    assert survey(log).end == log.end


def test_a_damaged_blank_becomes_one_again(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    before = bytes(log.files[0])
    log.damage(FILE_SIZE - 24, b"\0\0\0\x19")
    mended(log)
    assert (directory_of(log) / f"{0:020d}").read_bytes() == before


def test_a_hole_too_short_for_a_stand_in_takes_what_follows_with_it(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    hole = Hole(str(directory_of(log) / f"{0:020d}"), 300, 300 + BLANK_SIZE, "?", True)
    disk = QuickDisk()
    with opened(log, disk) as found:
        (done,) = fill_holes(found, disk, log.store, [hole], time_ms=0, now_ms=NOW_MS)
    assert done.end > hole.end


def test_the_copy_is_durable_before_anything_is_written(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.damage(log.places[3] + 95, b"\xff")
    holes, disk = survey(log).holes, QuickDisk()
    before = (directory_of(log) / f"{0:020d}").read_bytes()
    disk.fail("sync", FsyncFailed(why="EIO"))
    with opened(log, disk) as found, pytest.raises(FsyncFailed):
        fill_holes(found, disk, log.store, holes, time_ms=0, now_ms=NOW_MS)
    assert (directory_of(log) / f"{0:020d}").read_bytes() == before
    assert mended(log) == [(300, 400)]
