"""`pocketmq archive run`, `compact` and `ls` of a lake on the command line."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from pocketmq.client import ClientError
from pocketmq.files.disk import Disk
from pocketmq.tools.archive.objects import open_objects
from pocketmq.tools.lake import finding
from pocketmq.tools.lake.commits import opened_lake
from tests.cli.command_line import Ran, run
from tests.cli.local_broker import LocalBroker
from tests.cli.store.other_process import run_elsewhere
from tests.golden_stores import GoldenStores
from tests.kit.lakes import SmallLake


def archived(source: object, target: object, *options: str) -> Ran:
    return run("archive", "run", str(source), str(target), *options)


def test_a_directory(golden: GoldenStores, tmp_path: Path) -> None:
    store, target = golden.store("basic"), tmp_path / "lake"
    assert archived(store, tmp_path / "all").code == 0
    topic = run("archive", "ls", str(tmp_path / "all")).document[-1]["topic"]
    done = archived(store, target, "--topic", topic)
    assert done.document["messages"] > 0
    count = done.document["messages"]
    rest = archived(store, target)
    assert archived(store, target).document == {
        **rest.document,
        "messages": 0,
        "files": 0,
        "size": 0,
    }
    rows = run("archive", "ls", str(target)).document
    assert sum(row["messages"] for row in rows) == count + rest.document["messages"]
    assert {row["messages"] for row in rows if row["topic"] == topic} == {count}
    again = run("archive", "compact", str(target)).document
    assert again["before"] == again["after"] == len(rows)


def test_mistakes(golden: GoldenStores, tmp_path: Path) -> None:
    store, target = golden.store("rebuild-base"), tmp_path / "lake"
    assert run("archive", "compact", str(target)).code == 3
    absent = run("archive", "ls", str(target))
    assert (absent.code, "nothing is there" in absent.err) == (3, True)
    assert "make an archive" in absent.err
    assert archived(tmp_path / "none here", target).code == 3
    done = archived(store, "ftp://host/place")
    assert done.code == 2
    assert not target.exists()
    assert run("archive", "ship", str(store), str(target), "--once").code == 0
    done = archived(store, target)
    assert done.code == 4
    assert "is no lake" in done.err


def test_one_process_at_a_time(golden: GoldenStores, tmp_path: Path) -> None:
    objects = open_objects(Disk(), str(tmp_path / "lake"))
    with opened_lake(Disk(), objects):
        done = run_elsewhere("archive", "run", str(golden.store("rebuild-base")), objects.target)
    assert done.code != 0
    assert "is in use by" in done.err


def test_a_broker(broker: LocalBroker, tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)

    def added() -> tuple[int, int]:
        done = archived("h:1", lake.objects.target)
        assert done.code == 0, done.err
        return done.document["messages"], done.document["upto"]

    broker.fill(3)
    broker.fill(2, queue_id=1)
    assert added() == (5, broker.store.flushed)
    assert added()[0] == 0
    broker.fill(4)
    broker.fill(1, topic="payments")
    assert added() == (5, broker.store.flushed)
    assert lake.bodies("orders") == ["0", "1", "2", "0", "1", "3", "4", "5", "6"]
    assert lake.bodies("payments") == ["0"]


def test_a_topic_that_was_made_again(broker: LocalBroker, tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    target = lake.objects.target
    broker.fill(3)
    assert archived("h:1", target).document["messages"] == 3
    assert run("topic", "rm", "orders", "--yes").code == 0
    broker.fill(5)
    assert archived("h:1", target).document["messages"] == 5
    assert lake.bodies("orders") == ["0", "1", "2", "0", "1", "2", "3", "4"]


def test_until_of_a_broker(broker: LocalBroker, tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    broker.fill(3)
    broker.clock.advance(60_000)
    until = str(broker.clock.wall_ms())
    broker.fill(2)
    done = archived("h:1", lake.objects.target, "--until", until)
    assert (done.document["messages"], done.document["upto"]) == (3, -1)
    assert not broker.requests("ReportArchive")
    assert archived("h:1", lake.objects.target).document["messages"] == 2
    (report,) = broker.requests("ReportArchive")
    assert (report.upto, report.target) == (broker.store.flushed, lake.objects.target)


def test_what_is_archived_stays_so_when_the_broker_refuses_the_report(
    broker: LocalBroker, tmp_path: Path
) -> None:
    lake = SmallLake(tmp_path)
    broker.fill(3)

    def refused(request: object) -> None:
        raise ClientError("AccessDenied", "it needs update", status="PERMISSION_DENIED")

    broker.answers["Admin/ReportArchive"] = refused
    done = archived("h:1", lake.objects.target)
    assert (done.code, done.document["messages"]) == (0, 3)
    assert "so retention may wait: it needs update" in done.err
    assert lake.bodies("orders") == ["0", "1", "2"]


def test_another_brokers_lake_is_refused(broker: LocalBroker, tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    broker.fill(3, topic="payments")
    broker.fill(3)
    assert archived("h:1", lake.objects.target).code == 0
    with opened_lake(Disk(), lake.objects) as opened:
        marks = opened.manifest.marks
        later = {key: mark._replace(physical_offset=10**9) for key, mark in marks.queues.items()}
        opened.commit([], replace(marks, queues=later))
    done = archived("h:1", lake.objects.target)
    assert done.code == 4
    assert "the lake has another message 2 of queue 0 of orders than the broker" in done.err


def test_an_iceberg_table(
    golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, target = golden.store("basic"), tmp_path / "lake"
    count = archived(store, target, "--format", "iceberg").document["messages"]
    table = StaticTable.from_metadata(str(target))
    assert table.scan().count() == count > 0
    assert archived(store, target).document["messages"] == 0
    rows = run("archive", "ls", str(target)).document
    assert sum(row["messages"] for row in rows) == count
    assert run("archive", "compact", str(target)).document["after"] == len(rows)
    monkeypatch.setattr(finding, "find_spec", lambda name: None)
    for words in (
        ("archive", "run", str(store), str(target)),
        ("archive", "run", str(store), str(tmp_path / "new"), "--format", "iceberg"),
        ("archive", "compact", str(target)),
        ("archive", "ls", str(target)),
    ):
        done = run(*words)
        assert (done.code, "is an Iceberg table, which needs pyiceberg" in done.err) == (1, True)
        assert "Next:  pip install pyiceberg" in done.err


def test_options_that_are_not_the_lakes_are_refused(golden: GoldenStores, tmp_path: Path) -> None:
    store, files, table = golden.store("rebuild-base"), tmp_path / "files", tmp_path / "table"
    assert archived(store, files).code == archived(store, table, "--format", "iceberg").code == 0
    named = ("--catalog", "prod", "--table", "mq.messages")
    refused: list[tuple[Path, tuple[str, ...], str]] = [
        (files, ("--format", "iceberg"), "files has Parquet files with a manifest"),
        (files, named, "files has Parquet files with a manifest"),
        (table, ("--format", "parquet"), "table has an Iceberg table"),
        (table, named, "table has an Iceberg table"),
    ]
    for target, options, text in refused:
        done = archived(store, target, *options)
        assert (done.code, text in done.err) == (4, True), done.err
    for wrong in (
        ("--catalog", "prod"),
        ("--table", "mq.messages"),
        (*named, "--format", "parquet"),
        ("--catalog", "prod", "--table", "messages"),
    ):
        assert archived(store, tmp_path / "new", *wrong).code == 2
    assert not (tmp_path / "new").exists()
    done = archived(store, tmp_path / "new", *named)
    assert (done.code, "has no catalog prod" in done.err) == (4, True), done.err
