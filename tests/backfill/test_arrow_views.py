"""Units and entries as a dump tells them, and what files show to be wrong."""

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.backfill import arrow_views
from pocketmq.backfill.arrow_views import (
    ENTRY_SCHEMA,
    UNIT_SCHEMA,
    entry_batches,
    find_index_files,
    find_queue_files,
    unit_batches,
)
from pocketmq.backfill.log_walk import DamagedBytes
from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK, UNIT
from pocketmq.format.index_layout import HEADER_SIZE, IndexGeometry
from pocketmq.model.errors import StrayFile
from pocketmq.tools.dump import index_rows, queue_units
from tests.golden_stores import GoldenStores
from tests.kit.tool_sizes import golden_tool_sizes

Found = tuple[list[dict[str, Any]], list[DamagedBytes]]


def collected(found: Any) -> Found:
    parts = list(found)
    rows = [row for part in parts if not isinstance(part, DamagedBytes) for row in part.to_pylist()]
    return rows, [part for part in parts if isinstance(part, DamagedBytes)]


def units_of(store: Path) -> Found:
    files = find_queue_files(store)
    return collected(part for file in files for part in unit_batches(file, UNIT_SCHEMA))


def entries_of(store: Path, geometry: IndexGeometry) -> Found:
    paths = find_index_files(store)
    return collected(p for path in paths for p in entry_batches(path, geometry, ENTRY_SCHEMA))


@pytest.mark.parametrize("name", ["basic", "cqext"])
def test_units_are_those_of_a_dump(
    golden: GoldenStores, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_views, "ROWS_AT_ONCE", 7)
    store, sizes = golden.store(name), golden_tool_sizes(golden, name)
    rows, damage = units_of(store)
    queues = list(dict.fromkeys((row["topic"], row["queue_id"]) for row in rows))
    assert queues == sorted(queues)
    assert damage == []
    assert rows == [
        {"topic": topic, "queue_id": queue_id, **unit._asdict()}
        for topic, queue_id in queues
        for unit in queue_units(Disk(), store, sizes, topic=topic, queue_id=queue_id)
    ]


@pytest.mark.parametrize("name", ["basic", "v533"])
def test_entries_are_those_of_a_dump(
    golden: GoldenStores, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_views, "ROWS_AT_ONCE", 100)
    store, sizes = golden.store(name), golden_tool_sizes(golden, name)
    rows, damage = entries_of(store, sizes.geometry)
    assert damage == []
    assert rows == [row._asdict() for row in index_rows(Disk(), store, sizes)]


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    directory = tmp_path / "consumequeue" / "T" / "0"
    directory.mkdir(parents=True)
    return directory


def unit(number: int) -> bytes:
    return UNIT.pack(100 * number, 100, 0)


def test_pre_blank_units_and_files_made_ahead_are_no_rows(queue: Path, tmp_path: Path) -> None:
    (queue / f"{0:020d}").write_bytes(PRE_BLANK * 3 + unit(3))
    (queue / f"{80:020d}").write_bytes(bytes(80))
    rows, damage = units_of(tmp_path)
    assert [(row["queue_offset"], row["physical_offset"]) for row in rows] == [(3, 300)]
    assert damage == []


@pytest.mark.parametrize(
    ("contents", "position"),
    [
        ([unit(0) + bytes(20) + unit(2)], 20),
        ([unit(0) + bytes(20), unit(2) + unit(3)], 20),
        ([unit(0) + unit(1) + b"half of a unit"], 54),
    ],
)
def test_missing_units_are_told(
    queue: Path, tmp_path: Path, contents: list[bytes], position: int
) -> None:
    for number, content in enumerate(contents):
        (queue / f"{40 * number:020d}").write_bytes(content)
    rows, damage = units_of(tmp_path)
    assert [found.position for found in damage] == [position]
    assert rows


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("none")])
def test_what_is_no_file_is_refused_before_it_is_opened(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "index" / "20261121003515660"
    path.parent.mkdir()
    make(path)
    with pytest.raises(StrayFile, match="no plain file"):
        find_index_files(tmp_path)


def test_an_index_file_that_cannot_be_read_is_told(golden: GoldenStores, tmp_path: Path) -> None:
    geometry = golden_tool_sizes(golden, "v533").geometry
    shutil.copytree(golden.store("v533") / "index", tmp_path / "index")
    path = Path(find_index_files(tmp_path)[0])
    path.chmod(0o644)
    content = path.read_bytes()
    count = len(entries_of(tmp_path, geometry)[0])

    def told(changed: bytes) -> tuple[int, str]:
        path.write_bytes(changed)
        rows, (damage,) = entries_of(tmp_path, geometry)
        return count - len(rows), damage.reason

    full = struct.unpack_from(">i", content, 36)[0] - 1
    assert told(content[:-1])[1].startswith(f"it has {len(content) - 1} bytes")
    assert told(bytes(HEADER_SIZE) + content[HEADER_SIZE:]) == (
        full, "its header is empty, but it holds entries",
    )  # fmt: skip
    assert told(content[:36] + struct.pack(">i", 1 << 20) + content[40:])[1] == (
        "it cannot hold 1048576 entries"
    )
    fourth = geometry.entries_position + 20 * 4
    broken = content[: fourth + 16] + struct.pack(">i", 4) + content[fourth + 20 :]
    assert told(broken) == (full - 3, "entry 4 is invalid")


def test_a_new_index_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    geometry = IndexGeometry(3, 4)
    (tmp_path / "index" / "20261121000000000").write_bytes(bytes(geometry.file_size))
    (tmp_path / "index" / "notes.txt").touch()
    assert entries_of(tmp_path, geometry) == ([], [])


def test_a_store_may_have_neither(tmp_path: Path) -> None:
    assert find_queue_files(tmp_path) == []
    assert find_index_files(tmp_path) == []
