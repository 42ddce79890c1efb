"""Files that a rebuild keeps beside the views: finished ranges, its state, the manifest."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pocketmq.model.finding import ScanEnd
from pocketmq.rebuild import sequential as module
from pocketmq.rebuild.index_builder import IndexBuilder
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.rebuild.manifest import digest_of, mark_file, view_files, write_manifest
from pocketmq.rebuild.plan import Range
from pocketmq.rebuild.range_pass import RangeResult
from pocketmq.rebuild.sequential import Resume, rebuild
from pocketmq.rebuild.staging import (
    MANIFEST_FILE,
    Staging,
    plan_document,
    range_mark,
    result_document,
    result_of,
)
from pocketmq.rebuild.unit_files import QueueFiles, UnitWriter
from pocketmq.walk.log_walk import Hole
from pocketmq.walk.reader import Stop
from tests.kit.log_bytes import EVERYTHING, SMALL, LogBytes


def ranges_of(tmp_path: Path) -> list[Range]:
    log = LogBytes(tmp_path / "s", 1024)
    for number in range(20):
        log.add(queue_offset=number)
    return [Range(file, file.base, file.end) for file in log.close().found()]


def test_the_same_settings_keep_what_is_finished(tmp_path: Path) -> None:
    ranges, staging = ranges_of(tmp_path), Staging(tmp_path / "out")
    document = plan_document(ranges, SMALL, 99)
    assert not staging.prepare(document)
    staging.write(staging.range_file("x"), {"a": 1})
    assert staging.prepare(document | {"upto": 100})
    assert staging.read(staging.range_file("x")) == {"a": 1}
    other = plan_document(ranges, replace(SMALL, index_style="5.3"), 99)
    assert not staging.prepare(other)
    assert staging.read(staging.range_file("x")) is None


def test_half_a_document_counts_as_none(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    path = tmp_path / "x.json"
    path.write_text('{"a": ')
    assert staging.read(path) is None
    staging.write(path, [1])
    assert staging.read(path) == [1]
    assert [found.name for found in tmp_path.iterdir()] == ["x.json"]


def test_results_survive_being_written_down(tmp_path: Path) -> None:
    result = RangeResult(
        1, 9, Stop(ScanEnd.BAD, 9, "odd"), 3, 4, (5, 6), [Hole("f", 9, 12, "odd", True)], [(2, 3)]
    )
    staging = Staging(tmp_path)
    staging.write(tmp_path / "r", result_document(result))
    assert result_of(staging.read(tmp_path / "r")) == result


def test_a_file_that_was_written_to_is_another_range(tmp_path: Path) -> None:
    part = ranges_of(tmp_path)[0]
    before = range_mark(part)
    assert range_mark(part) == before
    path = Path(part.file.path)
    content = path.read_bytes()
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    assert range_mark(part) != before


def test_files_and_their_sources(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    for number in range(25):
        log.add(queue_offset=number + 3, keys="k")
    out = tmp_path / "out"
    rebuilt = rebuild(log.close().found(), SMALL, out, upto=EVERYTHING)
    write_manifest(Staging(out), rebuilt, [mark_file((str(out), p)) for p in view_files(out)])
    manifest = json.loads((out / "rebuild" / MANIFEST_FILE).read_text())
    assert [mark["path"] for mark in manifest["files"]] == view_files(out)
    for mark in manifest["files"]:
        content = (out / mark["path"]).read_bytes()
        digest = hashlib.sha256(content.rstrip(b"\0")).hexdigest()
        assert (mark["size"], mark["sha256"]) == (len(content), digest)
    sources = [mark["source"] for mark in manifest["files"]]
    assert sources[:3] == [
        [log.places[0], log.places[6]], [log.places[7], log.places[16]],
        [log.places[17], log.places[24]],
    ]  # fmt: skip
    assert sources[3:] == [
        [log.places[begin], log.places[min(begin + 8, 24)]] for begin in range(0, 25, 9)
    ]
    assert manifest["queues"] == [["T", 0, 3, 28]]


def test_a_file_without_units_has_no_source(tmp_path: Path) -> None:
    (tmp_path / "consumequeue").mkdir()
    (tmp_path / "consumequeue/x").write_bytes(bytes(200))
    assert mark_file((str(tmp_path), "consumequeue/x")).source == []


def log_of(tmp_path: Path) -> LogBytes:
    log = LogBytes(tmp_path / "s", 1024)
    for number in range(30):
        log.add("AB"[number % 2], queue_offset=number // 2, keys="k")
    return log.close()


def restored(log: LogBytes, tmp_path: Path, settings: KnownShape = SMALL) -> tuple[int, int]:
    """How many files need not be read again, and how many queues are known from them."""
    units = UnitWriter(QueueFiles(tmp_path / "q", 200))
    index = IndexBuilder(tmp_path / "out/index", SMALL.geometry, "UTC")
    resume = Resume(tmp_path / "state", log.found(), settings, EVERYTHING)
    results = resume.restore(units, index)
    return len(results), len(units.runs)


def saved(log: LogBytes, tmp_path: Path) -> None:
    rebuild(log.found(), SMALL, tmp_path / "out", upto=EVERYTHING, state=tmp_path / "state")


@pytest.fixture(autouse=True)
def after_every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAVED_EVERY_BYTES", 1)


def test_the_same_arguments_go_on(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    assert restored(log, tmp_path) == (0, 0)
    saved(log, tmp_path)
    assert restored(log, tmp_path) == (len(log.files), 2)
    assert len(list((tmp_path / "state").glob("slots-*"))) == 1


def test_other_settings_a_changed_file_or_another_start_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(tmp_path)
    saved(log, tmp_path)
    assert restored(log, tmp_path, replace(SMALL, index_style="5.3")) == (0, 0)
    monkeypatch.setattr(module, "boot_id", lambda: "another")
    assert restored(log, tmp_path) == (0, 0)
    monkeypatch.undo()
    path = Path(log.found()[1].path)
    path.write_bytes(path.read_bytes())
    assert restored(log, tmp_path) == (0, 0)


def test_seldom_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAVED_EVERY_BYTES", 1 << 30)
    log = log_of(tmp_path)
    saved(log, tmp_path)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize(
    "parts",
    [
        [],
        [(0, b"a")],
        [(70_000, b"a\0\0b"), (9_000_000, b"c"), (9_100_000, b"")],
        [(5 << 20, b"")],
        [(0, b"x" * 200_000 + bytes(100_000)), (1 << 20, b"")],
    ],
)
def test_the_digest_of_a_file_is_that_of_its_bytes_without_the_last_zeros(
    tmp_path: Path, parts: list[tuple[int, bytes]], is_sparse: bool
) -> None:
    path = tmp_path / "file"
    with path.open("w+b") as file:
        for position, content in parts:
            file.truncate(position + len(content))
            file.seek(position)
            file.write(content)
    content = path.read_bytes()
    if not is_sparse:
        path.write_bytes(content)
    with path.open("rb") as file:
        digest = digest_of(file.fileno())
    assert digest.size == len(content)
    assert digest.hexdigest() == hashlib.sha256(content.rstrip(b"\0")).hexdigest()
