"""A run writes only where it may, one at a time, and builds only what is missing."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.backfill import job as job_module
from pocketmq.backfill.job import is_running, manifest, objection, outlook, run
from pocketmq.model.errors import NotAStore, StoreLocked, ViewFailed
from pocketmq.rebuild.plan import TaskFailed, map_here
from pocketmq.rebuild.staging import build_settings
from tests.backfill.jobs import golden_job, small_job, small_log
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import SMALL, views


def test_a_run_builds_the_views_and_says_what_it_built(
    golden: GoldenStores, tmp_path: Path
) -> None:
    built = run(golden_job(golden, "basic", tmp_path), map_here)
    assert views(tmp_path) == views(golden.store("basic"))
    assert built == manifest(tmp_path)
    assert built["record_count"] == len(golden.manifest("basic")["records"])


def test_the_outlook_tells_everything_and_changes_nothing(
    golden: GoldenStores, tmp_path: Path
) -> None:
    job = golden_job(golden, "basic", tmp_path / "out", workers=2)
    before = outlook(job, map_here)
    assert [part.file for part in before.ranges] == job.files
    assert (before.reused, before.is_complete, before.is_cleared) == ([], False, False)
    assert before.free_bytes > before.needed.total_bytes > 0
    assert not job.out.exists()
    run(job, map_here)
    after = outlook(job, map_here)
    assert (after.reused, after.is_complete) == (after.ranges, True)
    assert outlook(replace(job, upto=job.files[3].base), map_here).is_cleared


def test_what_is_built_already_is_not_built_again(golden: GoldenStores, tmp_path: Path) -> None:
    job = golden_job(golden, "rebuild-base", tmp_path)
    built = run(job, map_here)

    def never(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        raise AssertionError(f"{function.__name__} was called")

    assert run(job, never) == built


def test_less_of_the_log_leaves_nothing_of_the_rest(golden: GoldenStores, tmp_path: Path) -> None:
    job = golden_job(golden, "rebuild-base", tmp_path / "out")
    half = replace(job, upto=job.files[8].base)
    run(job, map_here)
    run(half, map_here)
    run(replace(half, out=tmp_path / "fresh"), map_here)
    assert views(tmp_path / "out") == views(tmp_path / "fresh")


def test_a_store_and_what_is_in_it_are_not_written_to(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.store("basic")
    assert objection(store, store) == "it is a store itself"
    assert "is inside the store" in objection(store, store / "rebuilt")
    assert "is inside the store" in objection(store, store / "index")
    assert objection(tmp_path / "s", golden.store("v533")) == "it is a store itself"
    assert objection(store, tmp_path / "new" / "place") == ""
    assert objection(store, tmp_path) == ""


def test_views_of_unknown_origin_and_files_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "out" / "index").mkdir(parents=True)
    assert objection(tmp_path / "s", tmp_path / "out") == (
        "it holds index/, which no backfill wrote"
    )
    (tmp_path / "file").touch()
    assert objection(tmp_path / "s", tmp_path / "file") == "it is no directory"
    run(small_job(small_log(tmp_path / "s"), tmp_path / "mine"), map_here)
    assert objection(tmp_path / "s", tmp_path / "mine") == ""


def test_two_runs_do_not_share_a_directory(tmp_path: Path) -> None:
    job = small_job(small_log(tmp_path / "s"), tmp_path / "out")
    seen: list[bool] = []

    def nosy(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        seen.append(is_running(job.out))
        with pytest.raises(StoreLocked, match=f"in use by process {os.getpid()};"):
            run(job, map_here)
        return map_here(function, tasks)

    assert not is_running(job.out)
    run(job, nosy)
    assert set(seen) == {True}
    assert not is_running(job.out)


def test_a_task_that_failed_for_good_ends_the_run(tmp_path: Path) -> None:
    def failing(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        raise TaskFailed("OSError: the disk is full")

    job = small_job(small_log(tmp_path / "s"), tmp_path / "out")
    with pytest.raises(ViewFailed, match="after 4 tries: OSError: the disk is full"):
        run(job, failing)
    assert not is_running(job.out)


def test_a_store_without_a_log_has_empty_views(tmp_path: Path) -> None:
    built = run(job_module.new_job(tmp_path, tmp_path / "o", SMALL, log_file_bytes=64), map_here)
    assert (built["record_count"], built["files"]) == (0, [])


def test_a_foreign_file_in_the_log_is_refused(tmp_path: Path) -> None:
    log = small_log(tmp_path / "s")
    (log.store / "commitlog" / "holiday.jpg").touch()
    with pytest.raises(NotAStore, match=r"holiday\.jpg"):
        small_job(log, tmp_path / "out")


def test_what_views_were_built_with_is_known_afterwards(tmp_path: Path) -> None:
    job = small_job(small_log(tmp_path / "s"), tmp_path / "out")
    run(job, map_here)
    assert build_settings(job.out) == (job.upto, job.settings)
