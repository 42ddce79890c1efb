"""Index files built from rows are those the broker fills entry by entry, whole or in pieces."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketmq.format.columns.records import ENTRY_TYPE
from pocketmq.format.index_entries import packed
from pocketmq.format.index_layout import IndexGeometry
from pocketmq.format.names import zone_from_name
from pocketmq.log.hash_index import HashIndex
from pocketmq.rebuild import index_builder
from pocketmq.rebuild.index_builder import (
    FileBuilder,
    FileStart,
    IndexBuilder,
    entries_per_file,
)
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import TIME_MS
from tests.sim.quick_disk import QuickDisk

GEOMETRY = IndexGeometry(5, 12)


def rows_of(count: int, seed: int = 1) -> NDArray[np.void]:
    chance = np.random.default_rng(seed)
    rows = np.zeros(count, dtype=ENTRY_TYPE)
    rows["hash"] = chance.integers(0, 60, count)
    rows["physical_offset"] = np.sort(chance.integers(0, 10_000, count))
    rows["time_ms"] = TIME_MS + chance.integers(-5_000, 90_000, count)
    return rows


def plain(
    directory: Path,
    rows: NDArray[np.void],
    geometry: IndexGeometry = GEOMETRY,
    zone: str = "UTC",
) -> dict[str, bytes]:
    """Returns the files that the broker's own index writes for the entries."""
    index = HashIndex(QuickDisk(), directory, geometry, style="5.5", zone=zone_from_name(zone))
    columns = [rows[name].astype(np.int64) for name in ("hash", "physical_offset", "time_ms")]
    index.put(packed(*columns))
    index.close()
    return files_below(directory)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York"])
@pytest.mark.parametrize("count", [0, 1, 11, 12, 33, 34, 100])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_files_names_and_headers(tmp_path: Path, count: int, step: int, zone: str) -> None:
    rows = rows_of(count)
    parts = [rows[begin : begin + step] for begin in range(0, count, step)]
    builder = built(tmp_path / "a", GEOMETRY, parts, zone)
    assert files_below(tmp_path / "a") == plain(tmp_path / "b", rows, zone=zone)
    assert len(builder.names) == -(-count // entries_per_file(GEOMETRY))


def slot_table(hashes: Any, slot_count: int, number: int) -> Any:
    table = np.zeros(slot_count, dtype=np.int32)
    for count, value in enumerate(hashes.tolist(), number):
        table[value % slot_count] = count
    return table


@pytest.mark.parametrize("border", [1, 4, 10])
def test_a_file_in_two_pieces(tmp_path: Path, border: int) -> None:
    rows = rows_of(11)
    (wanted,) = plain(tmp_path / "b", rows).values()
    first = (int(rows["time_ms"][0]), int(rows["physical_offset"][0]))
    table = slot_table(rows["hash"][:border], GEOMETRY.slot_count, 1)
    later = FileBuilder(
        FileStart(tmp_path / "f", GEOMETRY, 0, *first, number=1 + border, slots=table)
    )
    later.put(rows[border:])
    later.finish()
    earlier = FileBuilder(FileStart(tmp_path / "f", GEOMETRY))
    earlier.put(rows[:border])
    earlier.close()
    assert (tmp_path / "f").read_bytes() == wanted


def built(
    directory: Path, geometry: IndexGeometry, parts: list[NDArray[np.void]], zone: str = "UTC"
) -> IndexBuilder:
    builder = IndexBuilder(directory, geometry, zone)
    for rows in parts:
        builder.add(rows)
    builder.finish()
    return builder


@pytest.mark.parametrize("geometry", [(1, 2), (1, 40), (3, 3), (1_000, 5), (7, 1_000)])
@pytest.mark.parametrize("block", [1, 3, 20_000])
def test_geometries_of_all_kinds(
    tmp_path: Path, geometry: tuple[int, int], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One entry a file, one slot, more slots than entries; blocks that end anywhere."""
    monkeypatch.setattr(index_builder, "BLOCK", block)
    rows = rows_of(61)
    built(tmp_path / "a", IndexGeometry(*geometry), [rows[:20], rows[20:20], rows[20:]])
    assert files_below(tmp_path / "a") == plain(tmp_path / "b", rows, IndexGeometry(*geometry))


@pytest.mark.parametrize(
    "times",
    [[0], [-5], [TIME_MS], [TIME_MS, TIME_MS - 86_400_000], [TIME_MS, 1, TIME_MS + 999],
     [-1, 0, 1, 999, 1_000], [1_000 * 2**31 + TIME_MS, TIME_MS]],
)  # fmt: skip
def test_times_that_stand_still_go_back_or_are_none(tmp_path: Path, times: list[int]) -> None:
    rows = rows_of(50)
    rows["time_ms"] = (times * 50)[:50]
    built(tmp_path / "a", GEOMETRY, [rows])
    assert files_below(tmp_path / "a") == plain(tmp_path / "b", rows)


def test_names_rise_where_clocks_do_not(tmp_path: Path) -> None:
    """Also over the end of a year."""
    rows = rows_of(11 * 40)
    rows["time_ms"] = 1_798_761_599_990  # 2026-12-31 23:59:59.990
    names = built(tmp_path / "a", GEOMETRY, [rows]).names
    assert names == sorted(set(names))
    assert (names[0], names[9], names[10]) == (
        "20261231235959990", "20261231235959999", "20270101000000000",
    )  # fmt: skip
    assert list(plain(tmp_path / "b", rows)) == names


@pytest.mark.parametrize("cut", range(0, 34, 3))
def test_a_state_taken_anywhere_goes_on(tmp_path: Path, cut: int) -> None:
    """Entries that were written after the state was taken are put again."""
    rows = rows_of(34)
    first = IndexBuilder(tmp_path / "a", GEOMETRY, "UTC")
    first.add(rows[:cut])
    document, slots = first.state()
    assert cut or slots is None
    document = json.loads(json.dumps(document))
    first.add(rows[cut:])
    again = IndexBuilder(tmp_path / "a", GEOMETRY, "UTC")
    again.restore(document, slots)
    again.add(rows[cut:])
    again.finish()
    assert files_below(tmp_path / "a") == plain(tmp_path / "b", rows)
