"""Samples estimate the size of views well enough to refuse a disk that is too full."""

from pathlib import Path

import pytest

from pocketmq.rebuild.estimate import SAMPLES, Estimate, estimate, estimate_job
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_log_files
from pocketmq.rebuild.plan import map_here, plan_ranges, whole_files
from pocketmq.rebuild.sequential import rebuild
from tests.backfill.jobs import small_job, small_log
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import (
    EVERYTHING,
    SMALL,
    LogBytes,
    golden_files,
    golden_settings,
    rebuilt_files,
)


def estimated(files: list[LogFile], settings: KnownShape, upto: int) -> Estimate:
    return estimate(whole_files(files, upto), settings)


@pytest.mark.parametrize("name", ["basic", "v533", "propcrc", "rebuild-base"])
def test_golden_stores(golden: GoldenStores, tmp_path: Path, name: str) -> None:
    files, settings = golden_files(golden, name), golden_settings(golden, name)
    told = estimated(files, settings, EVERYTHING)
    built = rebuild(files, settings, tmp_path, upto=EVERYTHING)
    assert told.records == pytest.approx(built.record_count, rel=0.5)
    assert told.entries == pytest.approx(built.entry_count, rel=0.5)
    content = sum(len(content.rstrip(b"\0")) for content in rebuilt_files(tmp_path).values())
    assert content < told.view_bytes < 4 * content
    assert told.queues <= len(built.queues)


def test_a_part_of_a_log_takes_a_part_of_the_room(golden: GoldenStores) -> None:
    files, settings = golden_files(golden, "basic"), golden_settings(golden, "basic")
    half = estimated(files, settings, files[len(files) // 2].base)
    whole = estimated(files, settings, EVERYTHING)
    assert 0 < half.records < whole.records
    assert 0 < half.view_bytes < whole.view_bytes


def test_no_log_and_a_log_without_records(tmp_path: Path) -> None:
    assert estimated([], SMALL, EVERYTHING) == Estimate()
    log = LogBytes(tmp_path / "s").close()
    assert estimated(find_log_files(log.store, 4096), SMALL, EVERYTHING) == Estimate()


def test_the_empty_end_of_the_last_file_has_no_records(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 1 << 20)
    for number in range(100):
        log.add(queue_offset=number, keys=f"k{number}")
    log.close()
    empty = tmp_path / "s" / "commitlog" / f"{1 << 20:020d}"
    empty.write_bytes(bytes(1 << 20))
    files = find_log_files(log.store, 1 << 20)
    assert len(files) == 2
    assert 95 <= estimated(files, SMALL, EVERYTHING).records <= 130
    assert estimated(files, SMALL, log.places[50]).records == pytest.approx(50, rel=0.1)


def test_every_byte_that_is_written_counts(tmp_path: Path) -> None:
    job = small_job(small_log(tmp_path / "s", 8), tmp_path / "out", workers=1, group_units=4)
    assert len(job.files) <= SAMPLES
    ranges = plan_ranges(job.files, job.upto, map_here, workers=1)
    found = estimate_job(job, ranges)
    assert found.queue_bytes == 20 * found.records + 4096
    files = -(-found.entries // 9)
    assert found.index_bytes == 20 * found.entries + files * (40 + 4 * 7)
    assert found.scratch_bytes >= 20 * found.entries
    assert found.total_bytes == found.queue_bytes + found.index_bytes + found.scratch_bytes
