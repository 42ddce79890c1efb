"""A store and its lake as one table: each message once, whatever runs beside the query."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from pocketmq.model.errors import NotAStore
from pocketmq.spark.data_source import PocketSource
from pocketmq.spark.stores import archive_option
from pocketmq.tools.lake.publishing import TableName
from tests.kit.lakes import SmallLake
from tests.kit.log_bytes import SMALL, TIME_MS, LogBytes, applied

FILE_SIZE = 2048
DAY_MS = 86_400_000
COUNT = 60


class Table:
    """A store in the making, its lake, and both as Spark reads them."""

    def __init__(self, place: Path, table: TableName | None = None) -> None:
        self.place = place
        self.log = LogBytes(place / "s", FILE_SIZE)
        self.lake = SmallLake(place, table=table)
        self.written = 0

    def write(self, count: int) -> None:
        """Adds messages of two topics with two queues, an hour apart, and closes the store."""
        for number in range(self.written, self.written + count):
            self.log.add(
                f"T{number % 2}", number // 2 % 2, queue_offset=number // 4, keys=f"k{number}",
                body=b"body %d" % number, time_ms=TIME_MS + number * DAY_MS // 24,
            )  # fmt: skip
        self.written += count
        directory = self.place / "s" / "commitlog"
        kept = sorted(directory.iterdir()) if directory.exists() else []
        for path in kept:
            path.unlink()
        if kept:
            directory.rmdir()
        self.log.close()
        for path in sorted(directory.iterdir()):
            if kept and path.name < kept[0].name:
                path.unlink()

    def dispatch(self) -> None:
        """Builds queues and index."""
        applied(self.log.entries, SMALL, self.place / "s")

    def expire(self, count: int) -> None:
        """Removes the oldest files of the log, as retention does."""
        for path in sorted((self.place / "s" / "commitlog").iterdir())[:count]:
            path.unlink()

    def source(self, *, log: bool = True, **options: str) -> tuple[Any, list[Any]]:
        """Plans a query; returns reader and partitions."""
        path = {"path": str(self.place / "s")} if log else {}
        source = PocketSource({**path, "archive": str(self.place / "l"), **options})
        schema = source.schema()
        reader: Any = source.reader(schema)
        sent = pickle.dumps(reader)  # As Spark does: before it plans.
        parts: list[Any] = pickle.loads(pickle.dumps(reader.partitions()))
        return pickle.loads(sent), parts

    def rows(self, **options: Any) -> list[dict[str, Any]]:
        """Returns the rows of a query, in the order of the log."""
        return rows_of(*self.source(**options))

    def numbers(self, **options: Any) -> list[int]:
        """Returns the numbers of the messages in a query."""
        return numbers_of(*self.source(**options, columns="body,physical_offset"))


def rows_of(reader: Any, parts: list[Any]) -> list[dict[str, Any]]:
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: int(row["physical_offset"]))


def numbers_of(reader: Any, parts: list[Any]) -> list[int]:
    return [int(row["body"].split()[1]) for row in rows_of(reader, parts)]


@pytest.fixture(params=["queues", "log", "iceberg"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    """A table whose first 40 messages are in the lake, in two runs; 60 are in the log."""
    made = Table(tmp_path, TableName() if request.param == "iceberg" else None)
    for count in (20, 20):
        made.write(count)
        made.lake.run()
    made.write(20)
    if request.param == "queues":
        made.dispatch()
    return made


def test_each_message_is_read_once(table: Table) -> None:
    source = PocketSource({"path": str(table.place / "s")})
    reader: Any = source.reader(source.schema())
    every = rows_of(reader, reader.partitions())
    assert len(every) == COUNT
    assert table.rows() == every
    assert table.numbers(log=False) == list(range(40))
    table.expire(2)
    assert table.rows() == every


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"topic": "T1"}, range(1, COUNT, 2)),
        ({"topic": "T0,T1", "queue_id": "1"}, [n for n in range(COUNT) if n // 2 % 2]),
        ({"topic": "T1", "keys": "k3,k41,k4"}, [3, 41]),
        ({"keys": "k3"}, [3]),
        ({"topic": "T0", "queue_begin": "9", "queue_upto": "11"}, [36, 38, 40, 42]),
        ({"since": str(TIME_MS + 30 * DAY_MS // 24), "until": str(TIME_MS + 45 * DAY_MS // 24)},
         range(30, 45)),
        ({"topic": "none"}, []),
    ],
)  # fmt: skip
def test_options_select(table: Table, options: dict[str, str], wanted: Any) -> None:
    table.expire(2)
    assert table.numbers(**options) == list(wanted)


def test_offsets_select(table: Table) -> None:
    begin, upto = table.log.places[10], table.log.places[50]
    assert table.numbers(begin=str(begin), upto=str(upto)) == list(range(10, 50))


def test_a_compaction_beside_a_query_changes_nothing(table: Table) -> None:
    both, alone = (
        table.source(columns="body,physical_offset"),
        table.source(log=False, columns="body,physical_offset"),
    )
    table.lake.run()
    assert table.lake.compact().after < table.lake.compact().before + 4
    assert numbers_of(*both) == list(range(COUNT))
    assert numbers_of(*alone) == list(range(40))


def test_retention_beside_a_query_changes_nothing(table: Table) -> None:
    planned = table.source(columns="body,physical_offset", topic="T0,T1")
    table.write(20)
    table.lake.run()
    table.expire(len(table.log.found()) - 1)
    assert numbers_of(*planned)[:COUNT] == list(range(COUNT))
    assert numbers_of(*table.source(columns="body,physical_offset")) == list(range(COUNT + 20))


def test_what_the_lake_lacks_is_read_from_the_log(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.write(20)
    table.lake.run("T0")
    assert table.numbers() == list(range(20))
    assert table.numbers(log=False) == list(range(0, 20, 2))
    table.log.add("rmq_sys_X", body=b"system 20")
    table.write(0)
    table.lake.run()
    assert table.numbers() == list(range(20))
    assert table.numbers(topic="rmq_sys_X") == [20]


@pytest.mark.parametrize("form", [None, TableName()])
def test_a_path_or_url_of_a_lake_is_read_as_one(tmp_path: Path, form: TableName | None) -> None:
    table = Table(tmp_path, form)
    table.write(8)
    table.lake.run()
    lake = str(tmp_path / "l")
    for path in (lake, f"file://{lake}"):
        source = PocketSource({"path": path, "columns": "body,physical_offset"})
        reader: Any = source.reader(source.schema())
        assert numbers_of(reader, reader.partitions()) == list(range(8))
    assert archive_option({"PATH": "s3a://bucket/lake", "topic": "a"}) == (
        "s3://bucket/lake",
        {"topic": "a"},
    )
    store = {"path": f"file://{tmp_path / 's'}", "topic": "a"}
    assert archive_option(store) == ("", store)


def test_mistakes(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.write(4)
    with pytest.raises(NotAStore, match="archive run"):
        table.source()
    table.lake.run()
    with pytest.raises(ValueError, match="archive applies to messages, not to units"):
        table.source(table="units")
    (tmp_path / "other" / "commitlog").mkdir(parents=True)
    with pytest.raises(ValueError, match="applies to one store, not to 2"):
        table.source(paths=f'["{tmp_path / "other"}"]')


def test_another_stores_lake_is_refused(tmp_path: Path) -> None:
    table, other = Table(tmp_path), Table(tmp_path / "other")
    for one, count in ((table, 4), (other, 6)):
        one.write(count)
        one.lake.run()
    assert table.numbers() == list(range(4))
    (tmp_path / "l").rename(tmp_path / "own")
    (tmp_path / "other" / "l").rename(tmp_path / "l")
    with pytest.raises(NotAStore, match="another store's lake: its last message"):
        table.source()
    assert table.numbers(log=False) == list(range(6))
