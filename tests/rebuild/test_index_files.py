"""Entries in spool files, and the index files that are built from them."""

from pathlib import Path

import numpy as np
import pytest

from pocketmq.format.columns.records import ENTRY_TYPE
from pocketmq.rebuild import index_files as module
from pocketmq.rebuild.index_builder import IndexBuilder
from pocketmq.rebuild.index_files import (
    Spools,
    build_index_file,
    plan_index_files,
    read_segments,
)
from pocketmq.rebuild.staging import Staging
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import SMALL, TIME_MS


def spooled(tmp_path: Path, counts: list[int]) -> Spools:
    begin, paths = 0, []
    for number, count in enumerate(counts):
        rows = np.zeros(count, dtype=ENTRY_TYPE)
        rows["hash"] = rows["physical_offset"] = np.arange(begin, begin + count)
        rows["time_ms"] = rows["physical_offset"] * 10
        paths.append(str(tmp_path / str(number)))
        rows.tofile(paths[-1])
        begin += count
    return Spools(paths, counts)


def test_every_stretch_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 3)
    spools = spooled(tmp_path, [4, 0, 7, 1, 0])
    assert spools.count == 12
    for begin in range(12):
        assert spools.row(begin) == (begin, begin * 10)
        for end in range(begin, 13):
            rows = list(read_segments(spools.segments(begin, end)))
            found = [number for part in rows for number in part["hash"].tolist()]
            assert found == list(range(begin, end))


FULL = SMALL.geometry.entry_count_max - 1


def spools_of(
    staging: Staging, counts: list[int]
) -> tuple[Spools, "np.ndarray[tuple[int], np.dtype[np.void]]"]:
    rows = np.zeros(sum(counts), dtype=ENTRY_TYPE)
    rows["hash"] = np.arange(len(rows)) * 7 % 40
    rows["physical_offset"] = np.arange(len(rows)) * 100
    rows["time_ms"] = TIME_MS + np.arange(len(rows)) * 1_500
    begin = 0
    for number, count in enumerate(counts):
        staging.spool("").mkdir(parents=True, exist_ok=True)
        rows[begin : begin + count].tofile(staging.spool(str(number)))
        begin += count
    return Spools([str(staging.spool(str(number))) for number in range(len(counts))], counts), rows


@pytest.mark.parametrize("counts", [[], [0], [1], [FULL], [FULL + 1], [5, 0, 23, 11], [3] * 12])
def test_files_are_those_of_one_walk(tmp_path: Path, counts: list[int]) -> None:
    staging = Staging(tmp_path / "out")
    spools, rows = spools_of(staging, counts)
    tasks = plan_index_files(staging.out, spools, SMALL)
    for task in reversed(tasks):
        build_index_file(task)
    builder = IndexBuilder(tmp_path / "one", SMALL.geometry, "UTC")
    builder.add(rows)
    builder.finish()
    assert files_below(tmp_path / "out/index") == files_below(tmp_path / "one")
    assert [task.start.path.name for task in tasks] == builder.names
    assert [task.entry_count for task in tasks] == [FULL] * (len(rows) // FULL) + [
        count for count in [len(rows) % FULL] if count
    ]


def test_a_finished_file_has_rows_for_the_manifest(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "out")
    spools, _ = spools_of(staging, [20])
    task = plan_index_files(staging.out, spools, SMALL)[0]
    assert staging.rows_of_part(task.name, task.mark) is None
    build_index_file(task)
    rows = staging.rows_of_part(task.name, task.mark)
    assert rows is not None
    assert rows.files[0][:2] == [f"index/{task.start.path.name}", SMALL.geometry.file_size]
    assert staging.rows_of_part(task.name, [0, 1, 2]) is None
    assert not list(staging.work.glob("drafts/*"))
    (staging.out / rows.files[0][0]).unlink()
    assert staging.rows_of_part(task.name, task.mark) is None
