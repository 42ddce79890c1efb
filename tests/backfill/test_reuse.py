"""A run goes on from what an earlier one finished, and from nothing that may be stale."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.backfill.job import find_reuse, outlook, run
from pocketmq.rebuild.parallel import RebuildJob
from pocketmq.rebuild.plan import map_here, plan_ranges
from tests.backfill.jobs import small_job, small_log
from tests.kit.log_bytes import LogBytes, rebuilt_files


class Killed(Exception):
    """The driver ended here."""


class Counted:
    """A map that counts ranges read, and may end the driver before a kind of task."""

    def __init__(self, fatal: str = "") -> None:
        self.ranges = 0
        self.fatal = fatal

    def __call__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        if function.__name__ == self.fatal:
            raise Killed
        self.ranges += len(tasks) if function.__name__ == "read_range" else 0
        return map_here(function, tasks)


def killed_before(job: RebuildJob, kind: str) -> None:
    with pytest.raises(Killed):
        run(job, Counted(kind))


def assert_as_fresh(job: RebuildJob, fresh: Path) -> None:
    run(replace(job, out=fresh), map_here)
    assert rebuilt_files(job.out) == rebuilt_files(fresh)


def touched(path: str) -> None:
    """Sets the modification time of a file a second ahead."""
    changed_ns = Path(path).stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(changed_ns, changed_ns))


def grown(log: LogBytes, count: int) -> None:
    """Adds records to the last file of a log that was closed."""
    first = len(log.places)
    for number in range(first, first + count):
        log.add(queue_offset=number, keys=f"k{number}")
    for number, content in enumerate(log.files):
        name = f"{number * log.file_size:020d}"
        path = log.store / "commitlog" / name
        wanted = bytes(content).ljust(log.file_size, b"\0")
        if not path.exists() or path.read_bytes() != wanted:
            path.write_bytes(wanted)
            touched(str(path))


def test_a_killed_run_reads_nothing_twice(tmp_path: Path) -> None:
    job = small_job(small_log(tmp_path / "s"), tmp_path / "out")
    killed_before(job, "build_part")
    assert outlook(job, map_here).reused == plan_ranges(job.files, job.upto, map_here, workers=1)
    again = Counted()
    run(job, again)
    assert again.ranges == 0
    assert_as_fresh(job, tmp_path / "fresh")


def test_other_settings_need_everything_anew(tmp_path: Path) -> None:
    job = small_job(small_log(tmp_path / "s"), tmp_path / "out")
    killed_before(job, "build_part")
    other = replace(job, settings=replace(job.settings, index_style="5.3"))
    assert outlook(other, map_here).is_cleared
    again = Counted()
    run(other, again)
    assert again.ranges == len(job.files)
    assert_as_fresh(other, tmp_path / "fresh")


def test_a_file_that_was_mended_meanwhile_needs_everything_anew(tmp_path: Path) -> None:
    job = small_job(small_log(tmp_path / "s"), tmp_path / "out")
    killed_before(job, "build_part")
    touched(job.files[1].path)
    again = Counted()
    run(job, again)
    assert again.ranges == len(job.files)
    assert_as_fresh(job, tmp_path / "fresh")


def test_a_log_that_grew_is_read_from_its_last_file_on(tmp_path: Path) -> None:
    log = small_log(tmp_path / "s")
    first = small_job(log, tmp_path / "out", keep_spool=True)
    run(first, map_here)
    grown(log, 15)
    job = small_job(log, tmp_path / "out", keep_spool=True)
    assert not find_reuse(job, plan_ranges(job.files, job.upto, map_here, workers=1)).is_complete
    again = Counted()
    run(job, again)
    assert again.ranges == len(job.files) - len(first.files) + 1
    assert_as_fresh(job, tmp_path / "fresh")


def test_a_log_whose_end_was_cut_off_leaves_nothing_of_it(tmp_path: Path) -> None:
    log = small_log(tmp_path / "s")
    first = small_job(log, tmp_path / "out", keep_spool=True)
    run(first, map_here)
    place = log.places[-3]
    log.damage(place, bytes(log.end - place))
    path = Path(first.files[-1].path)
    path.write_bytes(bytes(log.files[-1]).ljust(log.file_size, b"\0"))
    touched(str(path))
    job = small_job(log, tmp_path / "out", keep_spool=True)
    assert run(job, map_here)["record_count"] == len(log.places) - 3
    assert_as_fresh(job, tmp_path / "fresh")


def test_a_file_that_went_needs_everything_anew(tmp_path: Path) -> None:
    job = small_job(small_log(tmp_path / "s"), tmp_path / "out")
    run(job, map_here)
    Path(job.files[0].path).unlink()
    job = replace(job, files=job.files[1:])
    run(job, map_here)
    assert_as_fresh(job, tmp_path / "fresh")
