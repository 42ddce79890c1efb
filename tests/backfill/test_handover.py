"""Views go into a store only when they are of its whole log, and as they were built."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from broker.backfill.checks import copy_views
from broker.backfill.handover import allocated_bytes, compare_log, queues_of
from broker.backfill.job import manifest, run
from broker.rebuild.plan import map_here
from tests.backfill.jobs import FILE_SIZE, small_job, small_log
from tests.fakes.log_bytes import LogBytes, rebuilt_files


@pytest.fixture
def log(tmp_path: Path) -> LogBytes:
    return small_log(tmp_path / "s")


@pytest.fixture
def out(log: LogBytes, tmp_path: Path) -> Path:
    run(small_job(log, tmp_path / "out"), map_here)
    return tmp_path / "out"


def test_views_fit_the_log_they_were_built_from(log: LogBytes, out: Path) -> None:
    assert compare_log(out, log.store, FILE_SIZE) == ("", True)
    ahead = log.store / "commitlog" / f"{len(log.files) * FILE_SIZE:020d}"
    ahead.write_bytes(bytes(FILE_SIZE))
    assert compare_log(out, log.store, FILE_SIZE) == ("", True)


def test_a_log_that_was_written_to_may_still_fit(log: LogBytes, out: Path) -> None:
    os.utime(log.found()[0].path)
    assert compare_log(out, log.store, FILE_SIZE) == ("", False)


@pytest.mark.parametrize("number", [3, 20, 38, None])
def test_views_of_a_part_of_the_log_do_not_fit(
    log: LogBytes, out: Path, number: int | None
) -> None:
    """Where the views end a record begins, or a file does, or the last record."""
    place = FILE_SIZE if number is None else log.places[number]
    run(replace(small_job(log, out), upto=place), map_here)
    end = manifest(out)["end"]
    assert compare_log(out, log.store, FILE_SIZE).objection == (
        f"the log goes on behind {end}, where the views end"
    )


def test_a_log_that_lost_files_does_not_fit(log: LogBytes, out: Path) -> None:
    first, second, *others = (Path(file.path) for file in log.found())

    def objection_without(*paths: Path) -> str:
        for path in paths:
            path.unlink()
        return compare_log(out, log.store, FILE_SIZE).objection

    assert "the log ends before" in objection_without(*others)
    assert objection_without(first) == f"the log begins at {FILE_SIZE}, the views at 0"
    assert "the log ends before" in objection_without(second)


def test_a_copy_is_the_same_and_as_sparse(out: Path, tmp_path: Path) -> None:
    told: list[int] = []
    assert copy_views(out, tmp_path / "copy", told.append) == []
    assert rebuilt_files(tmp_path / "copy") == rebuilt_files(out)
    assert sum(told) == sum(mark["size"] for mark in manifest(out)["files"])
    assert allocated_bytes(out) > 0


def test_holes_stay_holes(out: Path, tmp_path: Path) -> None:
    path = out / manifest(out)["files"][0]["path"]
    with path.open("r+b") as file:
        file.truncate(1 << 24)
    (finding,) = copy_views(out, tmp_path / "copy")
    assert finding.kind == "sha256"
    copied = (tmp_path / "copy" / finding.file).stat()
    assert copied.st_size == 1 << 24
    assert copied.st_blocks * 512 < 1 << 22


def test_files_that_are_not_as_built_are_told(out: Path, tmp_path: Path) -> None:
    first, second = (out / mark["path"] for mark in manifest(out)["files"][:2])
    first.rename(first.with_name("9" * 20))
    second.write_bytes(second.read_bytes()[:-1] + b"!")
    kinds = [finding.kind for finding in copy_views(out, tmp_path / "copy")]
    assert sorted(kinds) == ["missing_file", "sha256", "unexpected_file"]


def test_queues_are_those_of_the_log(log: LogBytes, out: Path) -> None:
    assert queues_of(manifest(out)) == {("T", 0): (0, len(log.places))}
