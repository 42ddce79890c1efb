"""A lake as an Iceberg table: each message once in its snapshots, whatever happened to runs."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg import catalog as catalogs
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table import StaticTable, Table
from pyiceberg.utils.config import Config

from pocketmq.model.errors import NotAStore, TableChanged
from pocketmq.tools.archive.objects import open_objects
from pocketmq.tools.lake.catalog import OWN, TABLE
from pocketmq.tools.lake.commits import opened_lake
from pocketmq.tools.lake.iceberg import AGE_MAX_MS, MARKS
from pocketmq.tools.lake.iceberg_files import TableFiles
from pocketmq.tools.lake.publishing import TableName
from tests.kit.archived import FailingObjects, Stopped
from tests.kit.backed_up import fill, stocked
from tests.kit.lakes import SmallLake
from tests.kit.s3_server import S3Server
from tests.kit.store_language import store_at
from tests.sim.quick_disk import QuickDisk

LATE_MS = 1 << 45
"""A time at which all earlier snapshots are too old."""


def numbered(end: int) -> list[str]:
    return [f"body {number}" for number in range(end)]


def table_lake(place: Path, name: str = "l", table: TableName = TableName()) -> SmallLake:  # noqa: B008
    return SmallLake(place, str(place / name), table=table)


def table_of(lake: SmallLake) -> Table:
    """Returns the table as any reader sees it that is given the directory."""
    return StaticTable.from_metadata(str(lake.objects.directory))


def scanned(lake: SmallLake, **options: Any) -> list[str]:
    """Returns the bodies that pyiceberg reads, in the order of the log."""
    rows = table_of(lake).scan(**options).to_arrow().sort_by("physical_offset")
    return [body.decode() for body in rows.column("body").to_pylist()]


async def test_each_run_is_a_snapshot(tmp_path: Path) -> None:
    lake = table_lake(tmp_path)
    async with store_at(tmp_path / "s") as store:
        for count in range(0, 90, 30):
            await fill(store, count, count + 30)
            done = lake.run()
            assert (done.messages, done.files) == (30, 1)
            summary = table_of(lake).current_snapshot().summary  # type: ignore[union-attr]
            assert summary is not None
            assert summary["pocketmq.upto"] == str(store.store.flushed)
        assert lake.run().messages == 0
        await store.send("%RETRY%a-group-with-a-long-name", "other")
        await store.settled()
        assert lake.run().messages == 1
    assert len(table_of(lake).metadata.snapshots) == 4
    assert lake.bodies() == scanned(lake, row_filter="topic = 'T'") == numbered(90)
    retried = "topic = '%RETRY%a-group-with-a-long-name'"
    assert scanned(lake, row_filter=retried) == ["other"]
    assert [len(task.file.partition) for task in table_of(lake).scan().plan_files()] == [2] * 4


def killed(lake: SmallLake, fails_at: int) -> bool:
    """Runs a lake that is killed before a write; returns False if the run was over by then."""
    with suppress(Stopped):
        lake.run(objects=FailingObjects(lake.objects, fails_at))
        return False
    return True


async def test_a_run_killed_at_any_write_leaves_each_message_once(tmp_path: Path) -> None:
    """The run that makes the table is killed, and one that adds to it."""
    lakes = [table_lake(tmp_path, "l0")]
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 20)
        while killed(lakes[-1], len(lakes) - 1):
            lakes[-1].run()
            assert lakes[-1].bodies() == scanned(lakes[-1]) == numbered(20)
            lakes.append(table_lake(tmp_path, f"l{len(lakes)}"))
        await fill(store, 20, 40)
    for fails_at, lake in enumerate(lakes):
        killed(lake, fails_at)
        assert {*map(len, (lake.bodies(), scanned(lake)))} <= {20, 40}
        lake.run()
        assert lake.bodies() == scanned(lake) == numbered(40)
        assert lake.parquet_files == {file.path for file in lake.manifest.files}
    assert len(lakes) > 10


async def test_a_compaction_killed_at_any_write_leaves_each_message_once(tmp_path: Path) -> None:
    lake, copy = table_lake(tmp_path), tmp_path / "copy"
    async with store_at(tmp_path / "s") as store:
        for count in (0, 20):
            await fill(store, count, count + 20)
            lake.run()
    directory = lake.objects.directory
    assert directory is not None
    shutil.copytree(directory, copy)
    is_whole, fails_at = False, -1
    while not is_whole:
        fails_at += 1
        shutil.rmtree(directory)
        shutil.copytree(copy, directory)
        with suppress(Stopped):
            lake.compact(objects=FailingObjects(lake.objects, fails_at), now_ms=LATE_MS)
            is_whole = True
        assert lake.bodies() == scanned(lake) == numbered(40)
        lake.compact(now_ms=LATE_MS)
        assert lake.bodies() == scanned(lake) == numbered(40)
        assert lake.parquet_files == {file.path for file in lake.manifest.files}
        assert len(lake.manifest.files) == len(table_of(lake).metadata.snapshots) == 1
    assert fails_at > 14


async def test_a_compaction_keeps_files_of_snapshots_that_are_not_old(tmp_path: Path) -> None:
    lake = table_lake(tmp_path)
    async with store_at(tmp_path / "s") as store:
        for count in (0, 20):
            await fill(store, count, count + 20)
            lake.run()
    before = table_of(lake).metadata.snapshots
    lake.compact(now_ms=before[0].timestamp_ms + AGE_MAX_MS)
    assert len(lake.parquet_files) == 3
    assert scanned(lake, snapshot_id=before[0].snapshot_id) == numbered(20)
    assert scanned(lake, snapshot_id=before[1].snapshot_id) == numbered(40)
    lake.compact(now_ms=LATE_MS)
    assert len(lake.parquet_files) == 1
    assert scanned(lake) == numbered(40)


async def test_of_two_runs_at_once_one_adds_its_messages(tmp_path: Path) -> None:
    """They write through a URL, where no lock is."""
    await stocked(tmp_path / "s", 0, 20)
    lake = SmallLake(tmp_path, f"file://{tmp_path}/l", table=TableName())
    other = SmallLake(tmp_path, f"file://{tmp_path}/l")
    lake.run()
    with opened_lake(QuickDisk(), lake.objects) as opened:
        other.compact(now_ms=LATE_MS)
        async with store_at(tmp_path / "s") as store:
            await fill(store, 20, 40)
        other.run()
        with pytest.raises(TableChanged, match="run the command again"):
            opened.commit([], opened.manifest.marks.walked_upto((), 10**9))
    assert other.run().messages == 0
    assert lake.bodies() == numbered(40)


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlCatalog:
    """A catalog in a file of SQLite that pyiceberg's configuration names `small`."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    monkeypatch.setenv("PYICEBERG_CATALOG__SMALL__URI", uri)
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", Config())
    return SqlCatalog("small", uri=uri)


def rewritten_by_another(table: Table, condition: Any = None) -> None:
    """Replaces all files of a table by one of the rows that meet a condition, as others do."""
    table.refresh()
    rows = table.scan().to_arrow() if condition is None else table.scan(condition).to_arrow()
    path = f"{table.location()}/data/{len(table.metadata.snapshots)}.parquet"
    with table.io.new_output(path).create() as out:
        pq.write_table(rows, out)
    with table.transaction() as changed, changed.update_snapshot().overwrite() as snapshot:
        snapshot.append_data_file(parquet_file_to_data_file(table.io, table.metadata, path))
        for task in table.scan().plan_files():
            snapshot.delete_data_file(task.file)


async def test_a_table_of_a_catalog(tmp_path: Path, catalog: SqlCatalog) -> None:
    """Another program replaces its files, and deletes rows."""
    name = TableName("small", "mq.messages")
    lake = table_lake(tmp_path, table=name)
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 20)
        lake.run()
        table = catalog.load_table(name.table)
        rewritten_by_another(table)
        assert lake.bodies() == numbered(20)
        assert all(file.path.startswith("data/") for file in lake.manifest.files)
        await fill(store, 20, 40)
        assert lake.run().messages == 20
        rewritten_by_another(table, "physical_offset > 0")
        assert lake.run().messages == 0
        lake.compact()
    assert lake.bodies() == numbered(40)[1:]
    assert table.refresh().scan().count() == 39
    assert len(list(table.scan().plan_files())) == 1


async def test_another_programs_commit_is_seen(tmp_path: Path, catalog: SqlCatalog) -> None:
    await stocked(tmp_path / "s", 0, 20)
    name = TableName("small", "mq.messages")
    lake = table_lake(tmp_path, table=name)
    lake.run()
    with opened_lake(QuickDisk(), lake.objects) as opened:
        table = catalog.load_table(name.table)
        rewritten_by_another(table)
        paths = [file.path for file in opened.manifest.files]
        with pytest.raises(TableChanged, match="run the command again"):
            opened.commit([], opened.manifest.marks, without=paths)
    with opened_lake(QuickDisk(), lake.objects) as opened:
        rewritten_by_another(table)
        marks = opened.manifest.marks
        with pytest.raises(TableChanged):
            opened.commit([], marks.walked_upto((), marks.upto + 1))
    assert lake.bodies() == numbered(20)


async def test_a_table_elsewhere_or_of_others_is_refused(
    tmp_path: Path, catalog: SqlCatalog
) -> None:
    await stocked(tmp_path / "s", 0, 20)
    name = TableName("small", "mq.messages")
    table_lake(tmp_path, table=name).run()
    with pytest.raises(NotAStore, match=r"the catalog has table mq\.messages at file://.*/l"):
        table_lake(tmp_path, "elsewhere", table=name).run()
    table = catalog.load_table(name.table)
    with table.transaction() as changed:
        changed.remove_properties(MARKS)
    with pytest.raises(NotAStore, match=f"no property {MARKS}"):
        table_lake(tmp_path).run()
    with pytest.raises(NotAStore, match="configuration has no catalog none"):
        table_lake(tmp_path, "none", table=TableName("none", "mq.messages")).run()
    await stocked(tmp_path / "s", 20, 30)
    (tmp_path / "catalog.db").write_bytes(b"no database")
    with pytest.raises(OSError, match="catalog small: DatabaseError"):
        table_lake(tmp_path).run()


async def test_a_place_whose_catalog_lost_its_table_is_refused_and_keeps_its_files(
    tmp_path: Path, catalog: SqlCatalog
) -> None:
    """So does a machine whose configuration names another catalog of the same name."""
    name = TableName("small", "mq.messages")
    lake = table_lake(tmp_path, table=name)
    await stocked(tmp_path / "s", 0, 20)
    lake.run()
    metadata = catalog.load_table(name.table).metadata_location
    files = lake.parquet_files
    catalog.drop_table(name.table)
    for act in (lake.run, lake.compact, lake.bodies):
        with pytest.raises(NotAStore, match=r"catalog small has no table mq\.messages"):
            act()
    assert lake.parquet_files == files
    catalog.register_table(name.table, metadata)
    assert lake.run().messages == 0
    assert lake.bodies() == numbered(20)


async def test_a_compaction_keeps_a_snapshot_with_a_tag(
    tmp_path: Path, catalog: SqlCatalog
) -> None:
    name = TableName("small", "mq.messages")
    lake = table_lake(tmp_path, table=name)
    async with store_at(tmp_path / "s") as store:
        for count in (0, 20):
            await fill(store, count, count + 20)
            lake.run()
    table = catalog.load_table(name.table)
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_tag(first, "month-end").commit()
    lake.compact(now_ms=LATE_MS)
    assert next(one.snapshot_id for one in table.refresh().metadata.snapshots) == first
    assert len(table.metadata.snapshots) == 2
    assert table.scan(snapshot_id=first).to_arrow().num_rows == 20
    assert lake.bodies() == numbered(40)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("file:///a/l", "file:///a/l/data/1"),
        ("file:///a/l", "file:/a/l/data/1"),
        ("file:///a/l/", "/a/l/data/1"),
        ("s3://b/l", "s3a://b/l/data/1"),
    ],
)
def test_a_path_of_the_table_has_several_spellings(
    tmp_path: Path, location: str, path: str
) -> None:
    files = TableFiles(open_objects(QuickDisk(), str(tmp_path)), location)
    assert files.name(path) == "data/1"
    with pytest.raises(NotAStore, match="a file at another place"):
        files.name(path.replace("/l/", "/elsewhere/"))


async def test_changed_columns_or_partitions_are_refused(
    tmp_path: Path, catalog: SqlCatalog
) -> None:
    await stocked(tmp_path / "s", 0, 20)
    name = TableName("small", "mq.messages")
    lake = table_lake(tmp_path, table=name)
    lake.run()
    table = catalog.load_table(name.table)
    with table.update_spec() as spec:
        spec.remove_field("topic")
    rewritten_by_another(table)
    with pytest.raises(NotAStore, match="changed the partitions"):
        lake.run()
    with table.update_schema() as schema:
        schema.delete_column("flag")
    with pytest.raises(NotAStore, match="changed the columns"):
        lake.run()


async def test_places_of_other_tables_are_refused(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 3)
    (tmp_path / "l/metadata").mkdir(parents=True)
    with pytest.raises(NotAStore, match=r"contains other files \(metadata"):
        table_lake(tmp_path).run()
    assert not (tmp_path / "l" / OWN).exists()


async def test_a_lake_is_read_without_its_options(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 20)
    table_lake(tmp_path).run()
    lake = SmallLake(tmp_path)
    assert lake.run().messages == 0
    assert lake.bodies() == numbered(20)
    assert open_objects(QuickDisk(), str(tmp_path / "l")).names(OWN)
    assert (tmp_path / "l" / TABLE).is_file()


@pytest.mark.parametrize("form", [None, TableName()])
async def test_a_bucket(tmp_path: Path, form: TableName | None) -> None:
    """Runs are killed before each write; then a compaction replaces the files."""
    with S3Server() as bucket:
        async with store_at(tmp_path / "s") as store:
            await fill(store, 0, 20)
            lake = SmallLake(tmp_path, bucket.target("lake"), table=form)
            fails_at = 0
            while killed(lake, fails_at):
                fails_at += 1
            lake.run()
            await fill(store, 20, 40)
            fails_at = 0
            while killed(lake, fails_at):
                fails_at += 1
        assert lake.bodies() == numbered(40)
        assert lake.compact(now_ms=LATE_MS).after == 1
        assert lake.bodies() == numbered(40)
        found = [key for key in bucket.objects if key.endswith(".parquet")]
        assert found == [f"lake/{file.path}" for file in lake.manifest.files]
        versions = [key for key in bucket.objects if key.endswith(".metadata.json")]
        assert bool(versions) == (form is not None)
