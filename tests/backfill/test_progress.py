"""The progress of a run can be read from its directory by any process."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pocketmq.backfill.job import run
from pocketmq.backfill.progress import Phase, Progress, ProgressReader
from pocketmq.model.errors import Corruption
from pocketmq.rebuild.parallel import plan
from pocketmq.rebuild.plan import map_here
from tests.backfill.jobs import golden_job, small_job, small_log
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import LogBytes


def looked(out: Path) -> Progress:
    progress = ProgressReader(out).look()
    assert progress is not None
    return progress


def test_nothing_was_begun(tmp_path: Path) -> None:
    assert ProgressReader(tmp_path).look() is None


def test_a_run_is_seen_from_its_plan_to_its_end(tmp_path: Path) -> None:
    job = small_job(small_log(tmp_path / "s"), tmp_path / "out", workers=1, group_units=4)
    plan(job, map_here)
    assert looked(job.out).phase is Phase.PLANNED
    reader = ProgressReader(job.out)
    seen: list[Progress] = []

    def watched(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        for task in tasks:
            yield function(task)
            found = reader.look()
            assert found is not None
            seen.append(found)

    built = run(job, watched)
    seen.append(looked(job.out))
    phases = list(dict.fromkeys(found.phase for found in seen))
    assert phases == [Phase.PLANNED, Phase.READING, Phase.INDEXING, Phase.COMPLETE]
    reading = [found for found in seen if found.phase is Phase.READING]
    assert [found.ranges_finished for found in reading] == list(range(1, len(job.files)))
    assert all(found.is_running for found in seen[:-1])
    assert not seen[-1].is_running
    indexed = [found.indexed for found in seen]
    assert indexed == sorted(indexed)
    assert indexed[-1] == seen[-1].entries == built["entry_count"]
    assert (seen[-1].bytes_finished, seen[-1].records) == (job.upto, built["record_count"])


def test_damage_is_seen(golden: GoldenStores, tmp_path: Path) -> None:
    job = golden_job(golden, "crash-flip.before", tmp_path)
    with pytest.raises(Corruption):
        run(job, map_here)
    (damage,) = looked(tmp_path).damage
    assert damage.endswith("the CRC of its body is wrong")


def test_a_range_that_cannot_be_read_is_seen(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 1024)
    log.add("../../etc", queue_offset=0)
    job = small_job(log.close(), tmp_path / "out")
    with pytest.raises(Corruption, match="only letters, digits"):
        run(job, map_here)
    found = looked(job.out)
    assert (found.phase, found.ranges_finished) == (Phase.READING, 0)
    assert "only letters, digits" in found.damage[0]
    assert not (tmp_path / "etc").exists()
