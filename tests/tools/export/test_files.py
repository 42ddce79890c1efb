"""Exported files appear whole or not at all, and can be split."""

import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.message_columns import MESSAGE_COLUMNS
from pocketmq.model.errors import DiskFull
from pocketmq.rebuild.log_files import LogFile
from pocketmq.tools.export import files
from pocketmq.tools.export.files import export_files, file_name_of
from pocketmq.tools.selection import LogSearch, Picked, Selection
from tests.golden_stores import GoldenStores
from tests.kit.column_values import one_by_one
from tests.kit.log_bytes import TIME_MS, LogBytes, golden_files
from tests.tools.export.exports import exported, offsets, shape


@pytest.fixture
def basic(golden: GoldenStores) -> list[LogFile]:
    return golden_files(golden, "basic")


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_file_a_topic(golden: GoldenStores, tmp_path: Path, form: str) -> None:
    log = golden_files(golden, "semantics")
    done = exported(log, tmp_path / "out", shape(form, split_by="topic"))
    records = golden.manifest("semantics")["records"]
    topics = {record["topic"] for record in records}
    assert {path.name for path in done.files} == {f"{topic}.{form}" for topic in topics}
    assert done.messages == len(records)
    for topic in topics:
        wanted = [record["phy"] for record in records if record["topic"] == topic]
        assert offsets(tmp_path / "out" / f"{topic}.{form}") == wanted


def test_a_file_a_day_or_some_messages(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    for step in range(7):
        log.add(time_ms=TIME_MS + step * 43_200_000)
    found = log.close().found()
    days = exported(found, tmp_path / "days", shape("jsonl", split_by="day")).files
    assert [path.name for path in days] == [f"2026-11-{18 + n}.jsonl" for n in range(4)]
    assert [len(offsets(path)) for path in days] == [2, 2, 2, 1]
    parts = exported(found, tmp_path / "p", shape("parquet", split_by="rows", rows_max=3)).files
    assert [path.name for path in parts] == [f"part-0000{n}.parquet" for n in range(3)]
    assert [len(offsets(path)) for path in parts] == [3, 3, 1]


def test_with_many_topics_few_files_are_open_and_little_is_held(
    basic: list[LogFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "OPEN_MAX", 2)
    monkeypatch.setattr(files, "PENDING_BYTES_MAX", 50_000)
    done = exported(basic, tmp_path / "out", shape("parquet", split_by="topic"))
    assert any(path.name.endswith(".00001.parquet") for path in done.files)
    every = sorted(place for path in done.files for place in offsets(path))
    assert every == [row["physical_offset"] for row in one_by_one(basic, MESSAGE_COLUMNS)]


def test_names_of_files() -> None:
    assert file_name_of("orders", 0, "parquet") == "orders.parquet"
    assert file_name_of("%RETRY%g", 2, "jsonl") == "%RETRY%g.00002.jsonl"
    assert file_name_of("../etc", 0, "arrow") == "=..%2Fetc.arrow"
    assert file_name_of("", 0, "arrow") == "=.arrow"
    long = [file_name_of("%RETRY%" + "g" * 240 + end, 0, "parquet") for end in "ab"]
    assert long[0] != long[1]
    assert all(len(name) < 256 for name in long)


@pytest.mark.parametrize("day", [-(10**9), 10**9])
def test_days_no_calendar_knows(day: int) -> None:
    assert files.day_name(day) == f"day{day}"


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl"])
def test_nothing_found_makes_an_empty_file(basic: list[LogFile], tmp_path: Path, form: str) -> None:
    done = exported(basic, tmp_path / "x", shape(form), topics=("none",))
    assert (done.messages, done.files) == (0, [tmp_path / "x"])
    if form == "parquet":
        assert pq.read_table(tmp_path / "x").schema.names == [c.name for c in MESSAGE_COLUMNS]
    split = exported(basic, tmp_path / "d", shape(form, split_by="topic"), topics=("none",))
    assert split.files == list((tmp_path / "d").iterdir()) == []


class Broken(LogSearch):
    """A search that ends in the middle."""

    error: BaseException = KeyboardInterrupt()

    def __iter__(self) -> Iterator[Picked]:
        yield next(super().__iter__())
        raise self.error


@pytest.mark.parametrize("split", [None, "topic"])
def test_what_was_broken_off_leaves_what_was_there(
    basic: list[LogFile], tmp_path: Path, split: str | None
) -> None:
    target = tmp_path / "x"
    target.mkdir() if split else target.write_text("before")
    with pytest.raises(KeyboardInterrupt):
        export_files(Disk(), Broken(basic, Selection()), target, shape("jsonl", split_by=split))
    assert list(tmp_path.iterdir()) == [target]
    assert (list(target.iterdir()) == []) if split else (target.read_text() == "before")


def test_drafts_of_an_export_that_was_killed_are_replaced(
    basic: list[LogFile], tmp_path: Path
) -> None:
    (tmp_path / "x.draft").mkdir()
    (tmp_path / "x.draft" / "orders.jsonl").write_text("old")
    done = exported(basic, tmp_path / "x", shape("jsonl", split_by="topic"))
    assert set((tmp_path / "x").iterdir()) == set(done.files)


class FullFile(io.BytesIO):
    """A file on a disk that is full."""

    name = "full"

    def write(self, content: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl"])
def test_a_full_disk_is_told_and_leaves_nothing(
    basic: list[LogFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(Path, "open", lambda path, mode: FullFile())
    with pytest.raises(DiskFull):
        export_files(Disk(), LogSearch(basic, Selection()), tmp_path / "x", shape(form))
    assert list(tmp_path.iterdir()) == []
