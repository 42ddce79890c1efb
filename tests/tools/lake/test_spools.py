"""Drafts of a lake in an object store: those of killed runs are removed, and no others."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pocketmq.tools.lake.spools import LOCK, PREFIX, spool
from tests.kit.backed_up import stocked
from tests.kit.lakes import SmallLake
from tests.kit.s3_server import S3Server

HOLD = """
import sys, tempfile
from pathlib import Path
from pocketmq.tools.lake.spools import spool
tempfile.tempdir = sys.argv[1]
with spool() as drafts:
    Path(drafts, "draft.parquet").write_bytes(bytes(1000))
    print(drafts, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of temporary files."""
    found = tmp_path / "tmp"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    return found


def entries(place: Path) -> set[Path]:
    """Returns what a directory contains."""
    return {*place.iterdir()}


def test_the_next_run_removes_the_drafts_of_a_killed_one(place: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(place)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        drafts = Path(process.stdout.readline().strip())
        with spool() as other:
            assert entries(place) == {drafts, other}
        assert entries(place) == {drafts}
        process.kill()
        process.wait()
        with spool() as other:
            assert entries(place) == {other}
    assert entries(place) == set()


def test_two_spools_of_one_process_exclude_each_other(place: Path) -> None:
    with spool() as one, spool() as other:
        assert entries(place) == {one, other}
        assert (one / LOCK).exists()


def test_what_is_no_spool_stays(place: Path) -> None:
    """Also a directory that its process has not locked yet."""
    new, other = place / f"{PREFIX}new", place / "other"
    for path in (new, other):
        path.mkdir()
    (other / LOCK).touch()
    with spool():
        pass
    assert entries(place) == {new, other}


async def test_a_lake_in_an_object_store_has_its_drafts_in_a_spool(
    tmp_path: Path, place: Path
) -> None:
    await stocked(tmp_path / "s", 0, 20)
    left = place / f"{PREFIX}left"
    left.mkdir()
    (left / LOCK).touch()
    with S3Server() as bucket:
        lake = SmallLake(tmp_path, bucket.target("lake"))
        assert lake.run().messages == 20
        assert len(lake.bodies()) == 20
    assert entries(place) == set()
