"""What a run will write is foretold from samples."""

from pathlib import Path

from broker.backfill.estimate import SAMPLES, Estimate, estimate
from broker.backfill.job import new_job, run
from broker.rebuild.plan import map_here, plan_ranges
from tests.backfill.jobs import golden_job, small_job, small_log
from tests.fakes.log_bytes import SMALL
from tests.golden_stores import GoldenStores


def test_the_estimate_is_near_what_is_built(golden: GoldenStores, tmp_path: Path) -> None:
    for name in ("basic", "v533", "rebuild-base", "semantics"):
        job = golden_job(golden, name, tmp_path / name)
        ranges = plan_ranges(job.files, job.upto, map_here, workers=1)
        found = estimate(job, ranges)
        built = run(job, map_here)
        assert 0.6 < found.records / built["record_count"] < 1.6
        assert 0.6 < found.entries / built["entry_count"] < 1.6
        assert found.queues <= len(built["queues"])


def test_every_byte_that_is_written_counts(tmp_path: Path) -> None:
    job = small_job(small_log(tmp_path / "s", 8), tmp_path / "out", workers=1, piece_entries=4)
    assert len(job.files) <= SAMPLES
    ranges = plan_ranges(job.files, job.upto, map_here, workers=1)
    found = estimate(job, ranges)
    assert found.queue_bytes == 20 * found.records + 4096
    files = -(-found.entries // 9)
    assert found.index_bytes == 20 * found.entries + files * (40 + 4 * 7)
    assert found.scratch_bytes >= 20 * found.entries
    assert found.total_bytes == found.queue_bytes + found.index_bytes + found.scratch_bytes


def test_nothing_needs_nothing(tmp_path: Path) -> None:
    job = new_job(tmp_path, tmp_path / "out", SMALL, log_file_bytes=64)
    assert estimate(job, []) == Estimate()
