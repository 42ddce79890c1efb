"""Entries in spool files: entry g of all is found wherever it lies."""

from pathlib import Path

import numpy as np
import pytest

from broker.format.columns.records import ENTRY_TYPE
from broker.rebuild import spool as module
from broker.rebuild.spool import Spools, SpoolWriter, read_segments


def spooled(tmp_path: Path, counts: list[int]) -> Spools:
    begin, paths = 0, []
    for number, count in enumerate(counts):
        writer = SpoolWriter(tmp_path / "spool" / str(number))
        rows = np.zeros(count, dtype=ENTRY_TYPE)
        rows["hash"] = rows["physical_offset"] = np.arange(begin, begin + count)
        rows["time_ms"] = rows["physical_offset"] * 10
        for part in (rows[: count // 2], rows[count // 2 :]):
            writer.add(part)
        writer.close()
        assert writer.count == count
        paths.append(str(tmp_path / "spool" / str(number)))
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


def test_a_spool_that_is_written_again_is_new(tmp_path: Path) -> None:
    spooled(tmp_path, [9])
    spooled(tmp_path, [2])
    assert (tmp_path / "spool/0").stat().st_size == 2 * ENTRY_TYPE.itemsize
