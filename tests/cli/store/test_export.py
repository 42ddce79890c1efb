"""`pocketmq store export`: files as asked for, nothing replaced unasked, damage told."""

import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pocketmq.cli.store import export as command
from tests.cli.command_line import run
from tests.golden_stores import GoldenStores


@pytest.fixture
def basic(golden: GoldenStores) -> str:
    return str(golden.store("basic"))


def test_lines_are_those_of_a_dump(golden: GoldenStores, tmp_path: Path) -> None:
    store, target = str(golden.store("semantics")), tmp_path / "all.jsonl"
    done = run("store", "export", store, "--to", str(target), "--system")
    dumped = run("store", "dump", store, "-o", "jsonl").out
    assert target.read_text() == dumped
    assert run("store", "export", store, "--to", "-", "--format", "jsonl", "--system").out == dumped
    assert done.document == {
        "to": str(target), "format": "jsonl", "messages": len(dumped.splitlines()),
        "bytes": len(dumped.encode()), "files": [str(target)],
    }  # fmt: skip


def test_system_topics_are_left_out_unless_asked_for(golden: GoldenStores, tmp_path: Path) -> None:
    store, topics = str(golden.store("semantics")), set()
    for line in run("store", "export", store, "--to", "-", "--format", "jsonl").rows:
        topics.add(line["topic"])
    every = {record["topic"] for record in golden.manifest("semantics")["records"]}
    assert "SCHEDULE_TOPIC_XXXX" in every - topics or "rmq_sys_wheel_timer" in every - topics
    assert topics < every


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
def test_fields_are_those_of_a_dump(basic: str, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"all.{suffix}"
    assert run("store", "export", basic, "--to", str(target), "-o", "table").code == 0
    is_parquet = suffix == "parquet"
    table = pq.read_table(target) if is_parquet else pa.ipc.open_file(target).read_all()
    rows, documents = table.to_pylist(), run("store", "dump", basic, "-o", "jsonl").rows
    assert len(rows) == len(documents)
    for row, document in zip(rows, documents, strict=True):
        document.pop("body_text", None)
        row["properties"] = dict(row["properties"])
        row["body"] = b64encode(row["body"]).decode()
        assert {name: value for name, value in row.items() if value is not None} == document


def test_columns(basic: str, tmp_path: Path) -> None:
    target = str(tmp_path / "x.parquet")
    assert run("store", "export", basic, "--to", target, "--columns", "tag, topic,tag").code == 0
    assert pq.read_table(target).column_names == ["tag", "topic"]
    lines = run(
        "store", "export", basic, "--to", "-", "--format", "jsonl", "--columns", "body,queue_id"
    )
    assert list(lines.rows[0]) == ["body", "body_text", "queue_id"]
    assert run("store", "export", basic, "--to", target, "--no-body", "--yes").code == 0
    assert "body" not in pq.read_table(target).column_names
    unknown = run("store", "export", basic, "--to", target, "--columns", "colour")
    assert unknown.code == 2
    assert "there are topic, queue_id" in unknown.err
    assert run("store", "export", basic, "--to", target, "--columns", "body", "--no-body").code == 2
    words = ("store", "export", basic, "--to", "-", "--format", "jsonl")
    pairs = zip(run(*words, "--raw-body").rows, run(*words).rows, strict=True)
    assert {row["system_flag"] & 1 for row, decompressed in pairs if row != decompressed} == {1}


def test_split(basic: str, golden: GoldenStores, tmp_path: Path) -> None:
    topics = {record["topic"] for record in golden.manifest("basic")["records"]}
    words = ("store", "export", basic, "--to", str(tmp_path / "out"), "--format", "parquet")
    done = run(*words, "--split-by", "topic", "--topic", "*", "--compression", "snappy", "--system")
    assert {Path(file).stem for file in done.document["files"]} == topics
    again = run(*words, "--split-by", "topic", "--yes")
    assert again.code == 4
    assert "new or empty" in again.err
    parts = run(
        "store", "export", basic, "--to", str(tmp_path / "p"), "--format", "jsonl",
        "--split-by", "rows", "--rows", "1000", "--system",
    )  # fmt: skip
    assert [Path(file).name for file in parts.document["files"]] == [
        "part-00000.jsonl", "part-00001.jsonl", "part-00002.jsonl"
    ]  # fmt: skip


def test_an_arrow_stream(basic: str) -> None:
    # The runner of other tests decodes what is printed.
    words = ["-m", "pocketmq", "store", "export", basic, "--to", "-", "--format", "arrow"]
    done = subprocess.run([sys.executable, *words], capture_output=True, check=True)
    assert len(pa.ipc.open_stream(done.stdout).read_all()) == 2871
    assert done.stderr == b"2871 messages\n"


def test_nothing_is_replaced_unasked(basic: str, tmp_path: Path) -> None:
    target = tmp_path / "x.jsonl"
    target.write_text("before")
    refused = run("store", "export", basic, "--to", str(target))
    assert refused.code == 4
    assert "--yes" in refused.err
    assert target.read_text() == "before"
    assert run("store", "export", basic, "--to", str(target), "--yes").code == 0
    assert json.loads(target.read_text().splitlines()[0])["queue_id"] >= 0
    assert run("store", "export", basic, "--to", str(tmp_path), "--format", "jsonl").code == 2
    inside = run("store", "export", basic, "--to", f"{basic}/x.jsonl")
    assert inside.code == 4
    assert "is inside the store" in inside.err


@pytest.mark.parametrize(
    "words",
    [
        ("--to", "x"),
        ("--to", "-"),
        ("--to", "-", "--format", "parquet"),
        ("--to", "-", "--format", "jsonl", "--split-by", "day"),
        ("--to", "x.jsonl", "--compression", "zstd"),
        ("--to", "x.arrow", "--compression", "snappy"),
        (),
    ],
)
def test_wrong_use_says_how(basic: str, words: tuple[str, ...]) -> None:
    assert run("store", "export", basic, *words).code == 2


def test_without_pyarrow(basic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    done = run("store", "export", basic, "--to", str(tmp_path / "x.parquet"))
    assert done.code == 1
    assert "pip install pyarrow" in done.err
    assert run("store", "export", basic, "--to", str(tmp_path / "x.jsonl")).code == 0
    code = "import sys; sys.modules['pyarrow'] = None\nfrom pocketmq.cli import main\nmain()"
    words = ["store", "export", basic, "--to", str(tmp_path / "y.jsonl")]
    subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
