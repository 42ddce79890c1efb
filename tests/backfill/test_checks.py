"""Every differing byte is found; only whole views of a store's own log go into it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pocketmq.backfill.checks import (
    allocated_bytes,
    check_files,
    compare_log,
    compare_views,
    copy_views,
    queues_of,
)
from pocketmq.backfill.job import manifest, run
from pocketmq.rebuild.plan import map_here
from tests.backfill.jobs import FILE_SIZE, golden_job, small_job, small_log
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import LogBytes, rebuilt_files


@pytest.fixture
def built(golden: GoldenStores, tmp_path: Path) -> Path:
    run(golden_job(golden, "rebuild-base", tmp_path / "out"), map_here)
    return tmp_path / "out"


def queue_file(out: Path) -> Path:
    return min(path for path in (out / "consumequeue").rglob("*") if path.is_file())


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def kinds(out: Path) -> list[str]:
    return [finding.kind for finding in check_files(out, map_here)]


def test_files_are_as_their_manifest_says(built: Path) -> None:
    assert kinds(built) == []
    path = queue_file(built)
    flip(path, 3)
    (finding,) = check_files(built, map_here)
    assert (finding.kind, finding.file) == ("sha256", path.relative_to(built).as_posix())
    path.write_bytes(path.read_bytes()[:-1])
    assert kinds(built) == ["file_size"]
    path.rename(path.with_name("9" * 20))
    assert kinds(built) == ["missing_file", "unexpected_file"]


def test_views_are_compared_with_a_stores_own(built: Path, golden: GoldenStores) -> None:
    assert compare_views(built, golden.store("rebuild-base"), map_here) == []
    path = queue_file(built)
    flip(path, 25)
    (finding,) = compare_views(built, golden.store("rebuild-base"), map_here)
    assert (finding.kind, finding.offset) == ("content", 25)
    assert bytes.fromhex(finding.found)[0] ^ bytes.fromhex(finding.expected)[0] == 1


def test_index_files_are_compared_by_their_order(built: Path, golden: GoldenStores) -> None:
    files = sorted((built / "index").iterdir())
    for number, path in enumerate(files):
        path.rename(path.with_name(f"2000010100000000{number}"))
    assert compare_views(built, golden.store("rebuild-base"), map_here) == []
    files[0].with_name("20000101000000000").unlink()
    found = compare_views(built, golden.store("rebuild-base"), map_here)
    assert {finding.kind for finding in found} == {"content", "missing_file"}


def test_files_made_ahead_need_no_partner(
    built: Path, tmp_path: Path, golden: GoldenStores
) -> None:
    other = golden.copy("rebuild-base", tmp_path / "other")
    queue = queue_file(other).parent
    ahead = queue / f"{sum(path.stat().st_size for path in queue.iterdir()):020d}"
    ahead.write_bytes(bytes(2000))
    assert compare_views(built, other, map_here) == []
    ahead.write_bytes(bytes(1999) + b"\1")
    (finding,) = compare_views(built, other, map_here)
    assert finding.kind == "missing_file"
    assert [f.kind for f in compare_views(other, built, map_here)] == ["unexpected_file"]


def test_a_file_that_is_longer_differs_where_the_other_ends(built: Path, tmp_path: Path) -> None:
    path = queue_file(built)
    other = tmp_path / "other" / path.relative_to(built)
    other.parent.mkdir(parents=True)
    other.write_bytes(path.read_bytes()[:-20])
    finding = compare_views(built, tmp_path / "other", map_here)[0]
    assert (finding.kind, finding.expected) == ("content", "nothing")
    assert finding.offset == path.stat().st_size - 20


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
        f"the log has records after {end}, where the views end"
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
    (finding,) = copy_views(out, tmp_path / "copy", lambda _: None)
    assert finding.kind == "sha256"
    copied = (tmp_path / "copy" / finding.file).stat()
    assert copied.st_size == 1 << 24
    assert copied.st_blocks * 512 < 1 << 22


def test_files_that_are_not_as_built_are_told(out: Path, tmp_path: Path) -> None:
    first, second = (out / mark["path"] for mark in manifest(out)["files"][:2])
    first.rename(first.with_name("9" * 20))
    second.write_bytes(second.read_bytes()[:-1] + b"!")
    kinds = [finding.kind for finding in copy_views(out, tmp_path / "copy", lambda _: None)]
    assert sorted(kinds) == ["missing_file", "sha256", "unexpected_file"]


def test_queues_are_those_of_the_log(log: LogBytes, out: Path) -> None:
    assert queues_of(manifest(out)) == {("T", 0): (0, len(log.places))}
