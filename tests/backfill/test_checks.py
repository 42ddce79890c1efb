"""Every byte that is not what was built, or what others built, is found."""

from pathlib import Path

import pytest

from broker.backfill.checks import check_files, compare_views
from broker.backfill.job import run
from broker.rebuild.plan import map_here
from tests.backfill.jobs import golden_job
from tests.golden_stores import GoldenStores


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
