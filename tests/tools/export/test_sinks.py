"""Every form of a file holds what decoding gives."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pocketmq.format.message_columns import MESSAGE_COLUMNS, columns_of
from pocketmq.rebuild.log_files import LogFile
from pocketmq.tools.export import files as sinks
from pocketmq.tools.export.files import export_stream
from pocketmq.tools.selection import LogSearch, Selection
from tests.golden_stores import GoldenStores
from tests.kit.column_values import one_by_one
from tests.kit.log_bytes import golden_files
from tests.tools.export.exports import exported, line, shape


@pytest.fixture
def basic(golden: GoldenStores) -> list[LogFile]:
    return golden_files(golden, "basic")


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_parquet(basic: list[LogFile], tmp_path: Path, compression: str) -> None:
    target = tmp_path / "all.parquet"
    done = exported(basic, target, shape("parquet", compression=compression))
    assert done.files == [target]
    expected = one_by_one(basic, MESSAGE_COLUMNS)
    assert pq.read_table(target).to_pylist() == expected
    assert done.messages == len(expected)
    column = pq.ParquetFile(target).metadata.row_group(0).column(0)
    assert column.compression == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())


def test_arrow(basic: list[LogFile], tmp_path: Path) -> None:
    exported(basic, tmp_path / "all.arrow", shape("arrow"))
    with pa.ipc.open_file(tmp_path / "all.arrow") as reader:
        assert reader.read_all().to_pylist() == one_by_one(basic, MESSAGE_COLUMNS)


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl"])
def test_bodies_as_they_are_stored(basic: list[LogFile], tmp_path: Path, form: str) -> None:
    target = tmp_path / "x"
    exported(basic, target, shape(form, "physical_offset", "body", decompress=False))
    columns = columns_of(["physical_offset", "body"])
    rows = one_by_one(basic, columns, decompress=False)
    if form == "parquet":
        assert pq.read_table(target).to_pylist() == rows
    elif form == "arrow":
        assert pa.ipc.open_file(target).read_all().to_pylist() == rows
    else:
        plain = one_by_one(basic, columns)
        assert rows != plain
        stored = LogSearch(basic, Selection())
        wanted = [line(m) for picked in stored for m in picked.messages(decompress=False)]
        assert target.read_bytes().splitlines() == wanted


def test_row_groups_are_bounded(
    basic: list[LogFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "ROW_GROUP_BYTES", 100_000)
    exported(basic, tmp_path / "x.parquet", shape("parquet"))
    groups = pq.ParquetFile(tmp_path / "x.parquet").metadata.num_row_groups
    assert groups > 5
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == one_by_one(basic, MESSAGE_COLUMNS)


def test_streams(basic: list[LogFile]) -> None:
    out = io.BytesIO()
    count = export_stream(LogSearch(basic, Selection()), out, shape("arrow"))
    rows = pa.ipc.open_stream(out.getvalue()).read_all().to_pylist()
    assert rows == one_by_one(basic, MESSAGE_COLUMNS)
    lines = io.BytesIO()
    assert export_stream(LogSearch(basic, Selection()), lines, shape("jsonl")) == count == len(rows)
    assert len(lines.getvalue().splitlines()) == count
