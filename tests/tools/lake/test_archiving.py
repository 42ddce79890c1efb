"""Each message is in the lake exactly once, whatever happened to earlier runs."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from pocketmq.model.errors import Corruption, NotAStore
from pocketmq.tools.lake.catalog import (
    OWN,
    LakeFile,
    LakeMarks,
    Manifest,
    manifest_of,
    partition_of,
)
from pocketmq.tools.lake.schema import SCHEMA
from tests.golden_stores import GoldenStores
from tests.kit.archived import FailingObjects, Stopped
from tests.kit.backed_up import fill, stocked
from tests.kit.lakes import SmallLake
from tests.kit.store_language import store_at

FILE_SIZE = 4096
DAY_MS = 86_400_000


def numbered(end: int) -> list[str]:
    return [f"body {number}" for number in range(end)]


async def test_runs_add_what_is_new(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    async with store_at(tmp_path / "s") as store:
        for count in range(0, 90, 30):
            await fill(store, count, count + 30)
            done = lake.run()
            assert (done.messages, done.files) == (30, 1)
            assert done.upto == store.store.flushed
        await store.send("U", "other")
        await store.settled()
        assert lake.run().messages == 1
        before = lake.manifest
        assert lake.run() == (store.store.flushed, 0, 0, 0, 0)
        assert lake.manifest == before
    assert lake.bodies() == numbered(90)
    assert lake.bodies("U") == ["other"]
    assert {Path(path).parent.name for path in lake.parquet_files} == {"topic=T", "topic=U"}


async def test_a_run_commits_in_steps_and_rolls_files(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    lake.step_size = 1
    await stocked(tmp_path / "s", 0, 90)
    lake.run()
    assert lake.manifest.run > 2
    assert lake.bodies() == numbered(90)


async def test_rows_have_the_columns_of_the_spark_reader(
    golden: GoldenStores, tmp_path: Path
) -> None:
    lake = SmallLake(tmp_path, store=golden.store("rebuild-base"))
    lake.run()
    table = lake.table()
    assert table.schema.equals(SCHEMA)
    row = table.slice(0, 1).to_pylist()[0]
    assert int(row["store_timestamp"].timestamp() * 1000) == row["store_timestamp_ms"]
    assert len(set(table.column("physical_offset").to_pylist())) == table.num_rows


async def test_a_run_killed_at_any_write_leaves_each_message_once(tmp_path: Path) -> None:
    """It is killed before each write of a run, then before each write of a compaction."""
    lakes = [SmallLake(tmp_path, str(tmp_path / f"l{number}")) for number in range(12)]
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 30)
        for lake in lakes:
            lake.run()
        await fill(store, 30, 90)
        for fails_at, lake in enumerate(lakes):
            lake.step_size = 1
            with suppress(Stopped):
                lake.run(objects=FailingObjects(lake.objects, fails_at))
            assert lake.bodies() == numbered(len(lake.bodies()))
            lake.run()
            assert lake.bodies() == numbered(90)
            assert lake.parquet_files == {file.path for file in lake.manifest.files}
    for fails_at, lake in enumerate(lakes):
        with suppress(Stopped):
            lake.compact(objects=FailingObjects(lake.objects, fails_at))
        assert lake.bodies() == numbered(90)
        lake.compact()
        lake.run()
        assert lake.bodies() == numbered(90)
        assert lake.parquet_files == {file.path for file in lake.manifest.files}
        assert len(lake.manifest.files) == 1


async def test_a_first_run_killed_at_any_write_leaves_each_message_once(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 30)
    for fails_at in range(4):
        lake = SmallLake(tmp_path, str(tmp_path / f"l{fails_at}"))
        with suppress(Stopped):
            lake.run(objects=FailingObjects(lake.objects, fails_at))
        lake.run()
        assert lake.bodies() == numbered(30)
        assert lake.parquet_files == {file.path for file in lake.manifest.files}


async def test_chosen_topics_go_ahead_and_the_others_follow(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 20)
        await store.send("U", "u0")
        await store.send("V", "v0")
        await store.settled()
        done = lake.run("U", "T")
        assert (done.messages, done.upto) == (21, -1)
        await store.send("U", "u1")
        await store.settled()
        assert lake.run("U").messages == 1
        assert lake.run().messages == 1
        assert lake.run().messages == 0
    assert lake.bodies() == numbered(20)
    assert lake.bodies("U") == ["u0", "u1"]
    assert lake.bodies("V") == ["v0"]


async def test_until_ends_before_a_store_time(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 40)
        store.clock.advance(DAY_MS)
        until_ms = store.clock.wall_ms()
        await fill(store, 40, 60)
        assert lake.run(until_ms=until_ms - 2 * DAY_MS).messages == 0
        assert lake.run(until_ms=until_ms).messages == 40
        assert lake.run(until_ms=until_ms).messages == 0
        assert lake.run(until_ms=until_ms - 2 * DAY_MS).messages == 0
        assert lake.run(until_ms=until_ms + 1).messages == 20
    assert lake.bodies() == numbered(60)
    assert len({file.partition for file in lake.manifest.files}) == 2


async def test_what_retention_removed_first_is_told(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 10)
        upto = lake.run().upto
        await fill(store, 10, 150)
        image = store.killed(tmp_path / "image")
    shutil.rmtree(tmp_path / "s")
    image.rename(tmp_path / "s")
    for path in sorted((tmp_path / "s/commitlog").iterdir())[:2]:
        path.unlink()
    assert lake.run().gap == 2 * FILE_SIZE - upto
    bodies = lake.bodies()
    assert bodies[:10] == numbered(10)
    assert bodies[10:] == numbered(150)[150 - len(bodies) + 10 :]


async def test_a_lake_of_another_store_is_refused(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 30)
    lake = SmallLake(tmp_path)
    lake.run()
    shutil.rmtree(tmp_path / "s")
    await stocked(tmp_path / "s", 1, 40)
    with pytest.raises(NotAStore, match="differs from that of the store"):
        lake.run()
    shutil.rmtree(tmp_path / "s")
    await stocked(tmp_path / "s", 0, 3)
    with pytest.raises(NotAStore, match="and the log ends at"):
        lake.run()
    assert lake.bodies() == numbered(30)


async def test_other_files_are_refused_and_left(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 3)
    (tmp_path / "l").mkdir()
    (tmp_path / "l/notes.txt").touch()
    with pytest.raises(NotAStore, match=r"notes\.txt"):
        SmallLake(tmp_path).run()
    assert [path.name for path in (tmp_path / "l").iterdir()] == ["notes.txt"]


async def test_a_changed_manifest_is_refused(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 3)
    lake = SmallLake(tmp_path)
    lake.run()
    path = tmp_path / "l" / OWN / "manifest.json"
    path.write_text(path.read_text().replace('"run": 1', '"run": 2'))
    with pytest.raises(Corruption, match="its sha256 does not match"):
        lake.run()


async def test_a_url_is_written_through_pyarrow(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path, f"file://{tmp_path}/l")
    async with store_at(tmp_path / "s") as store:
        for count in range(0, 60, 20):
            await fill(store, count, count + 20)
            lake.run()
    small = sum(file.size for file in lake.manifest.files)
    assert lake.compact() == (3, 1, small)
    assert lake.bodies() == numbered(60)
    assert len(list((tmp_path / "l").rglob("*.parquet"))) == 1


def test_a_manifest_there_and_back() -> None:
    file = LakeFile(f"{partition_of(0, '%RETRY%g')}/1.parquet", 1, 2, 3, 4, 5, 6)
    made = Manifest(3, LakeMarks({"": 9}), (file,), ("gone",))
    assert manifest_of(made.encode(), "x") == made
    assert file.partition == "date=1970-01-01/topic=%25RETRY%25g"
