"""Before a run: every worker reaches log and output, the output fits, and paths are directories."""

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.backfill.job import run
from pocketmq.backfill.places import (
    Probe,
    probe,
    probe_workers,
    refuse_address,
    refuse_small_disk,
    unwritable,
)
from pocketmq.model.errors import PlaceUnusable
from pocketmq.rebuild.parallel import RebuildJob
from pocketmq.rebuild.plan import Mapper, map_here
from pocketmq.rebuild.staging import Staging
from tests.backfill.jobs import small_job, small_log

Change = Callable[[Probe], Probe]


def two_hosts(change: Change) -> Mapper:
    """A map over two machines, the second of which sees a probe's paths otherwise."""

    def run_probes(function: Any, tasks: Sequence[Any]) -> Iterable[Any]:
        assert function is probe
        first, second = tasks
        return [probe(first, "one"), probe(change(second), "two")]

    return run_probes


@pytest.fixture
def job(tmp_path: Path) -> RebuildJob:
    return small_job(small_log(tmp_path / "s"), tmp_path / "out", workers=2)


def assert_two_is_named(job: RebuildJob, change: Change, why: str) -> None:
    with pytest.raises(PlaceUnusable, match=rf"host two: {why}.*; no fault on one; mount both"):
        probe_workers(job, two_hosts(change))
    assert list(Staging(job.out).work.iterdir()) == []


def test_workers_that_see_the_same_leave_nothing_behind(job: RebuildJob) -> None:
    probe_workers(job, two_hosts(lambda task: task))
    assert list(Staging(job.out).work.iterdir()) == []


def test_the_worker_without_the_log_is_named(job: RebuildJob, tmp_path: Path) -> None:
    missing = ((str(tmp_path / "gone"), 1024),)
    assert_two_is_named(job, lambda task: replace(task, ends=missing), ".*/gone: No such file")


def test_a_shorter_log_is_named(job: RebuildJob, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"x")
    short = ((str(tmp_path / "short"), 1024),)
    assert_two_is_named(
        job, lambda task: replace(task, ends=short), ".*/short has 1 bytes there, 1024 on the"
    )


@pytest.mark.parametrize("is_made", [False, True], ids=["none", "another"])
def test_the_worker_with_another_output_is_named(
    job: RebuildJob, tmp_path: Path, is_made: bool
) -> None:
    if is_made:
        Staging(tmp_path / "local").work.mkdir(parents=True)
        (tmp_path / "local/rebuild/probe").write_text("of another run")
    local = str(tmp_path / "local")
    assert_two_is_named(job, lambda task: replace(task, out=local), ".*/local is another directory")


def test_what_a_worker_wrote_must_reach_the_driver(job: RebuildJob, tmp_path: Path) -> None:
    """The second machine has a copy of the output, not the output."""

    def copied(task: Probe) -> Probe:
        Staging(tmp_path / "copy").work.mkdir(parents=True)
        (tmp_path / "copy/rebuild/probe").write_text(task.token)
        return replace(task, out=str(tmp_path / "copy"))

    assert_two_is_named(job, copied, "the driver does not see what it wrote")


def test_a_run_reads_nothing_before_the_probe(job: RebuildJob) -> None:
    with pytest.raises(PlaceUnusable, match="host two"):
        run(job, two_hosts(lambda task: replace(task, out="/nowhere")))
    assert not (job.out / "consumequeue").exists()


def test_a_small_disk_is_refused_with_both_numbers(job: RebuildJob) -> None:
    with pytest.raises(PlaceUnusable, match=r"needs about [0-9]{4,} bytes, and 1000 are free"):
        refuse_small_disk(job, 1000)
    run(job, map_here)
    refuse_small_disk(job, 1000)


@pytest.mark.parametrize("given", ["s3a://b/store", Path("s3a://b/store"), "hdfs://n:9000/s"])
def test_addresses_are_refused(given: Any, tmp_path: Path, job: RebuildJob) -> None:
    with pytest.raises(PlaceUnusable, match=r"(s3a|hdfs)://.*it is an address.*; mount it"):
        refuse_address(given)
    refuse_address("./a:b")
    refuse_address(tmp_path)


def test_no_directory_is_made_of_an_address(
    job: RebuildJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlaceUnusable, match="it is an address"):
        run(replace(job, out=Path("s3a://b/views")), map_here)
    assert not (tmp_path / "s3a:").exists()


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_an_output_that_cannot_be_written_is_one_error(code: int, tmp_path: Path) -> None:
    error = OSError(code, os.strerror(code))
    assert f"cannot be written: {os.strerror(code)}; " in str(unwritable(tmp_path, error))


def test_other_errors_of_the_disk_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Input/output"):
        unwritable(tmp_path, OSError(errno.EIO, os.strerror(errno.EIO)))
