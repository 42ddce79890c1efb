"""`pocketmq store grep`, `stats` and `export` on the command line."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.command_line import run
from tests.golden_stores import GoldenStores


def test_grep(golden: GoldenStores) -> None:
    store = str(golden.store("basic"))
    done = run("store", "grep", "TagA", store, "--in", "properties", "-o", "jsonl", "-n", "3")
    assert done.code == 0
    assert [row["tag"] for row in done.rows] == ["TagA"] * 3
    assert run("store", "grep", "no such text", store).code == 3
    assert run("store", "grep", "(", store).code == 2
    counted = run("store", "grep", "taga", store, "-i", "--count")
    assert counted.document["messages"] > 3


def test_stats(golden: GoldenStores) -> None:
    done = run("store", "stats", str(golden.store("basic")), "--by", "topic", "-o", "jsonl")
    assert sum(row["messages"] for row in done.rows) == 2871
    top = run(
        "store", "stats", str(golden.store("basic")), "--by", "queue", "--top", "2", "-o", "jsonl"
    )
    assert len(top.rows) == 2


def test_jsonl_is_what_dump_prints(golden: GoldenStores, tmp_path: Path) -> None:
    store, file = str(golden.store("semantics")), tmp_path / "x.jsonl"
    done = run("store", "export", store, "--to", str(file), "--system")
    assert done.code == 0
    assert done.document["messages"] == 626
    dumped = run("store", "dump", store, "-o", "jsonl")
    assert [json.loads(line) for line in file.read_text().splitlines()] == dumped.rows
    assert run("store", "export", store, "--to", str(file)).code == 4


def test_parquet_and_arrow_hold_the_same_fields(golden: GoldenStores, tmp_path: Path) -> None:
    store = str(golden.store("basic"))
    dumped = run("store", "dump", store, "-o", "jsonl").rows
    assert run("store", "export", store, "--to", str(tmp_path / "x.parquet")).code == 0
    assert run("store", "export", store, "--to", str(tmp_path / "x.arrow")).code == 0
    parquet = pq.read_table(tmp_path / "x.parquet").to_pylist()
    with pa.ipc.open_stream((tmp_path / "x.arrow").read_bytes()) as reader:
        assert reader.read_all().to_pylist() == parquet
    assert len(parquet) == len(dumped)
    for row, document in zip(parquet, dumped, strict=True):
        for name in ("topic", "queue_id", "queue_offset", "physical_offset", "keys", "born_host"):
            assert row[name] == document[name]
        assert dict(row["properties"]) == document["properties"]


def test_columns_and_choices(golden: GoldenStores, tmp_path: Path) -> None:
    store, file = str(golden.store("basic")), str(tmp_path / "x.parquet")
    words = ("--columns", "topic,queue_offset", "--topic", "orders", "--compression", "snappy")
    assert run("store", "export", store, "--to", file, *words).code == 0
    table = pq.read_table(file)
    assert table.column_names == ["topic", "queue_offset"]
    assert set(table.column("topic").to_pylist()) == {"orders"}
    assert (
        run("store", "export", store, "--to", str(tmp_path / "y.parquet"), "--columns", "no").code
        == 2
    )
    assert run("store", "export", store, "--to", str(tmp_path / "y")).code == 2


def test_damage_leaves_a_file_and_exit_10(golden: GoldenStores, tmp_path: Path) -> None:
    store, file = str(golden.store("crash-flip.before")), tmp_path / "x.jsonl"
    done = run("store", "export", store, "--to", str(file))
    assert done.code == 10
    assert "Damage:" in done.err
    assert len(file.read_text().splitlines()) == 788
