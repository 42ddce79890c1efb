"""Index files built from rows are those the broker fills entry by entry, whole or in pieces."""

from datetime import UTC
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from broker.format.columns.records import ENTRY_TYPE
from broker.format.index_layout import IndexGeometry
from broker.log.hash_index import HashIndex
from broker.rebuild.index_builder import (
    FileBuilder,
    FileStart,
    IndexBuilder,
    entries_per_file,
    overlay,
    slot_table_of,
)
from tests.fakes.golden_log import files_below
from tests.fakes.log_bytes import TIME_MS
from tests.fakes.quick_disk import QuickDisk

GEOMETRY = IndexGeometry(5, 12)


def rows_of(count: int, seed: int = 1) -> NDArray[np.void]:
    chance = np.random.default_rng(seed)
    rows = np.zeros(count, dtype=ENTRY_TYPE)
    rows["hash"] = chance.integers(0, 60, count)
    rows["physical_offset"] = np.sort(chance.integers(0, 10_000, count))
    rows["time_ms"] = TIME_MS + chance.integers(-5_000, 90_000, count)
    return rows


def plain(directory: Path, rows: NDArray[np.void]) -> dict[str, bytes]:
    index = HashIndex(QuickDisk(), directory, GEOMETRY, style="5.5", zone=UTC)
    columns = [rows[name].astype(np.int64) for name in ("hash", "physical_offset", "time_ms")]
    if len(rows):
        index._held.append((columns[0], columns[1], columns[2]))
    index._put_held()
    index.close()
    return files_below(directory)


@pytest.mark.parametrize("count", [0, 1, 11, 12, 33, 34, 100])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_files_names_and_headers(tmp_path: Path, count: int, step: int) -> None:
    rows = rows_of(count)
    builder = IndexBuilder(tmp_path / "a", GEOMETRY, "UTC")
    for begin in range(0, count, step):
        builder.add(rows[begin : begin + step])
    builder.finish()
    assert files_below(tmp_path / "a") == plain(tmp_path / "b", rows)
    assert len(builder.names) == -(-count // entries_per_file(GEOMETRY))


@pytest.mark.parametrize("border", [1, 4, 10])
def test_a_file_in_two_pieces(tmp_path: Path, border: int) -> None:
    rows = rows_of(11)
    (wanted,) = plain(tmp_path / "b", rows).values()
    first = (int(rows["time_ms"][0]), int(rows["physical_offset"][0]))
    table = slot_table_of(rows["hash"][:border], GEOMETRY.slot_count, 1)
    later = FileBuilder(
        FileStart(tmp_path / "f", GEOMETRY, 0, *first, number=1 + border, slots=table)
    )
    later.put(rows[border:])
    later.finish()
    earlier = FileBuilder(FileStart(tmp_path / "f", GEOMETRY))
    earlier.put(rows[:border])
    earlier.close()
    assert (tmp_path / "f").read_bytes() == wanted


def test_tables_lie_on_each_other() -> None:
    lower = slot_table_of(np.array([1, 6, 2], dtype=np.int32), 5, 1)
    upper = slot_table_of(np.array([7, 4], dtype=np.int32), 5, 4)
    assert overlay(lower, upper).tolist() == [0, 2, 4, 0, 5]


def test_the_state_of_a_file_in_the_making(tmp_path: Path) -> None:
    rows = rows_of(30)
    first = IndexBuilder(tmp_path / "a", GEOMETRY, "UTC")
    first.add(rows[:17])
    document, slots = first.state()
    first.add(rows[17:25])  # Written after the state was taken: it is put again.
    again = IndexBuilder(tmp_path / "a", GEOMETRY, "UTC")
    again.restore(document, slots)
    again.add(rows[17:])
    again.finish()
    assert files_below(tmp_path / "a") == plain(tmp_path / "b", rows)
    assert IndexBuilder(tmp_path, GEOMETRY, "UTC").state()[1] is None
