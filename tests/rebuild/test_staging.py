"""The staging directory: what stays of an earlier run, and small files that are whole or absent."""

import os
from dataclasses import replace
from pathlib import Path

from broker.model.results import ScanEnd
from broker.rebuild.plan import Range
from broker.rebuild.range_pass import RangeResult
from broker.rebuild.staging import (
    Staging,
    boot_id,
    plan_document,
    range_mark,
    result_document,
    result_of,
)
from broker.walk.log_walk import Hole
from broker.walk.reader import Stop
from tests.fakes.log_bytes import SMALL, LogBytes


def ranges_of(tmp_path: Path) -> list[Range]:
    log = LogBytes(tmp_path / "s", 1024)
    for number in range(20):
        log.add(queue_offset=number)
    return [Range(file, file.base, file.end) for file in log.close().found()]


def test_the_same_settings_keep_what_is_finished(tmp_path: Path) -> None:
    ranges, staging = ranges_of(tmp_path), Staging(tmp_path / "out")
    document = plan_document(ranges, SMALL, 99)
    assert not staging.prepare(document)
    staging.write(staging.range_file("x"), {"a": 1})
    assert staging.prepare(document | {"upto": 100})
    assert staging.read(staging.range_file("x")) == {"a": 1}
    other = plan_document(ranges, replace(SMALL, style="5.3"), 99)
    assert not staging.prepare(other)
    assert staging.read(staging.range_file("x")) is None


def test_another_start_of_the_machine_keeps_nothing(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "out")
    document = plan_document(ranges_of(tmp_path), SMALL, 99)
    assert document["boot"] == boot_id()
    staging.prepare(document)
    assert not staging.prepare(document | {"boot": "another"})


def test_half_a_document_counts_as_none(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    path = tmp_path / "x.json"
    path.write_text('{"a": ')
    assert staging.read(path) is None
    staging.write(path, [1])
    assert staging.read(path) == [1]
    assert [found.name for found in tmp_path.iterdir()] == ["x.json"]


def test_results_survive_being_written_down(tmp_path: Path) -> None:
    result = RangeResult(
        1, 9, Stop(ScanEnd.BAD, 9, "odd"), 3, 4, 5, [Hole("f", 9, 12, "odd", True)], [(2, 3)]
    )
    staging = Staging(tmp_path)
    staging.write(tmp_path / "r", result_document(result))
    assert result_of(staging.read(tmp_path / "r")) == result


def test_a_file_that_was_written_to_is_another_range(tmp_path: Path) -> None:
    part = ranges_of(tmp_path)[0]
    before = range_mark(part)
    assert range_mark(part) == before
    path = Path(part.file.path)
    content = path.read_bytes()
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    assert range_mark(part) != before
