"""Battery of killed archive runs: where a kill was, deleted log files, sums of messages."""

import json
import random
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from harness.budget import TARGETS, NotHere
from harness.process import Failed
from harness.s3 import Bucket, archive_place
from pocketmq.files.disk import Disk
from pocketmq.tools.archive.objects import open_objects
from pocketmq.tools.lake.catalog import INTENT
from pocketmq.tools.lake.publishing import TableName
from tests.kit.archived import FailingObjects, Stopped
from tests.kit.backed_up import fill
from tests.kit.lakes import SmallLake
from tests.kit.log_bytes import TIME_MS, LogBytes
from tests.kit.store_language import store_at
from torture.lakes import AFTER, EARLY, WITHIN, Watched, killed, lake_sum, log_sum, table_sum

FORMS = pytest.mark.parametrize("table", [None, TableName()], ids=["parquet", "iceberg"])
LOG_FILE_SIZE = 2048


def run_killed_at(lake: SmallLake, fails_at: int) -> bool:
    """Runs a lake that is killed before a write; returns False if the run was over by then."""
    with suppress(Stopped):
        lake.run(objects=FailingObjects(lake.objects, fails_at))
        return False
    return True


@FORMS
async def test_a_kill_is_before_within_or_after_a_commit(
    tmp_path: Path, table: TableName | None
) -> None:
    found: list[str] = []
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 20)
        is_killed = True
        while is_killed:
            lake = SmallLake(tmp_path, str(tmp_path / f"l{len(found)}"), table=table)
            seen = Watched(tmp_path / "s", lake.objects.target)
            before = seen.look()
            is_killed = run_killed_at(lake, len(found))
            found.append(seen.look().where(before))
            lake.run()
            after = seen.look()
            assert after.has_intended
            assert after.where(before) == AFTER
            assert after.where(after) == EARLY
    assert found[0] == EARLY
    assert found[-1] == AFTER
    assert [*dict.fromkeys(found)] == [EARLY, WITHIN, AFTER]


def log_of(place: Path, count: int) -> Path:
    """Makes the log of a stopped store, in several files."""
    log = LogBytes(place, LOG_FILE_SIZE)
    for number in range(count):
        body = b"body %d" % number
        log.add("T", 0, queue_offset=number, keys=f"k{number}", body=body, time_ms=TIME_MS)
    log.close()
    return place


def test_a_log_file_that_is_deleted_before_it_is_archived_is_wrong(tmp_path: Path) -> None:
    store = log_of(tmp_path / "s", 60)
    lake = SmallLake(tmp_path)
    lake.run()
    archived, other = (Watched(store, str(tmp_path / name)) for name in ("l", "other"))
    assert len(archived.bases) > 3
    other.look()
    min((store / "commitlog").iterdir()).unlink()
    assert archived.bases == other.bases
    archived.look()
    with pytest.raises(AssertionError, match="the lake ends at 0"):
        other.look()


@FORMS
def test_sums_of_log_and_lake_are_equal_for_the_same_messages(
    tmp_path: Path, table: TableName | None
) -> None:
    store = log_of(tmp_path / "s", 60)
    lake = SmallLake(tmp_path, table=table)
    lake.run()
    number, total = log_sum(store)
    assert (number, total) == lake_sum(lake.objects.target)
    assert number == 60
    if table is not None:
        assert (number, total) == table_sum(lake.objects.target, {})
    assert log_sum(log_of(tmp_path / "fewer", 59))[1] != total


def test_a_run_is_killed_while_it_commits(tmp_path: Path) -> None:
    """The program only begins a commit, whose second file never appears."""
    (tmp_path / "l" / "_pocketmq").mkdir(parents=True)
    (tmp_path / "l" / "a").touch()
    commit = json.dumps({"files": ["a", "b"]})
    program = f"import pathlib, time; pathlib.Path({str(tmp_path / 'l' / INTENT)!r})"
    program += f".write_text({commit!r}); time.sleep(600)"
    lake = Watched(log_of(tmp_path / "s", 1), str(tmp_path / "l"))

    class First(random.Random):
        def random(self) -> float:
            return 0.0

    assert killed([sys.executable, "-c", program], lake, WITHIN, First()) == WITHIN
    assert not lake.look().has_intended


@pytest.mark.parametrize("moment", [EARLY, WITHIN, AFTER])
def test_a_run_that_ends_is_not_killed(tmp_path: Path, moment: str) -> None:
    lake, chance = Watched(log_of(tmp_path / "s", 1), str(tmp_path / "l")), random.Random(1)
    assert killed([sys.executable, "-c", ""], lake, moment, chance) is None
    with pytest.raises(Failed, match="failed with 3"):
        killed([sys.executable, "-c", "raise SystemExit(3)"], lake, moment, chance)


def test_the_place_of_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with archive_place(tmp_path, TARGETS[0]) as place:
        assert place.target("lake") == str(tmp_path / "lake")
    url = Bucket("127.0.0.1:9").target("lake")
    assert open_objects(Disk(), url).target == "s3://bucket/lake"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotHere, match="versitygw"), archive_place(tmp_path, "s3"):
        pass
