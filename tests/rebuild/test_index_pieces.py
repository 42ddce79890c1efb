"""Entries in spool files, and the pieces of index files that are built from them."""

from pathlib import Path

import numpy as np
import pytest

from pocketmq.format.columns.records import ENTRY_TYPE
from pocketmq.rebuild import parallel as module
from pocketmq.rebuild.index_builder import IndexBuilder
from pocketmq.rebuild.parallel import (
    Spools,
    build_index,
    build_piece,
    pieces_of,
    plan_pieces,
    read_segments,
    write_table,
)
from pocketmq.rebuild.plan import map_here
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
@pytest.mark.parametrize("piece_entries", [1, 2, 4, 1000])
def test_pieces_make_what_one_walk_makes(
    tmp_path: Path, counts: list[int], piece_entries: int
) -> None:
    staging = Staging(tmp_path / "out")
    spools, rows = spools_of(staging, counts)
    names = build_index(staging, spools, SMALL, map_here, workers=9, piece_entries=piece_entries)
    builder = IndexBuilder(tmp_path / "one", SMALL.geometry, "UTC")
    builder.add(rows)
    builder.finish()
    assert files_below(tmp_path / "out/index") == files_below(tmp_path / "one")
    assert names == builder.names


def test_borders(tmp_path: Path) -> None:
    spools, _ = spools_of(Staging(tmp_path), [5, 14])
    pieces = plan_pieces(Staging(tmp_path), spools, SMALL, workers=9, piece_entries=3)
    assert [(piece.first_entry, piece.start.number, piece.is_last) for piece in pieces] == [
        (0, 1, False), (3, 4, False), (6, 7, True),
        (9, 1, False), (12, 4, False), (15, 7, True), (18, 1, True),
    ]  # fmt: skip
    assert [len(piece.earlier) for piece in pieces] == [0, 1, 2, 0, 1, 2, 0]


def test_a_file_is_cut_into_no_more_pieces_than_keep_workers_busy() -> None:
    million = 1_000_000
    assert pieces_of(3 * million, 3 * million, 1, 400_000) == 1
    assert pieces_of(3 * million, 3 * million, 2, 400_000) == 4
    assert [pieces_of(n * million, 30 * million, 2, 400_000) for n in (20, 10)] == [3, 1]
    assert pieces_of(20 * million, 400 * million, 4, 400_000) == 1
    assert pieces_of(20 * million, 20 * million, 40, 400_000) == 8
    assert pieces_of(100_000, 100_000, 8, 400_000) == 1


def test_finished_files_stay_and_others_go(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    spools, _ = spools_of(staging, [20])
    arguments = {"workers": 9, "piece_entries": 4}
    build_index(staging, spools, SMALL, map_here, **arguments)
    wanted = files_below(tmp_path / "index")
    (tmp_path / "index/20200101000000000").write_bytes(b"stray")
    ran: list[str] = []

    def counting(function: object, tasks: object) -> object:
        ran.append(getattr(function, "__name__", ""))
        assert list(tasks) == []  # type: ignore[call-overload]
        return []

    build_index(staging, spools, SMALL, counting, **arguments)  # type: ignore[arg-type]
    assert files_below(tmp_path / "index") == wanted
    assert ran == [write_table.__name__, build_piece.__name__]
