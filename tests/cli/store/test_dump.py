"""A store is looked at without a broker: all of it, with what is damaged told."""

from collections import Counter
from pathlib import Path

from tests.cli.command_line import run
from tests.golden_stores import GoldenStores


def test_a_dump_has_every_message_in_the_order_stored(golden: GoldenStores) -> None:
    done = run("store", "dump", str(golden.store("basic")), "-o", "jsonl")
    assert done.code == 0
    records = golden.manifest("basic")["records"]
    assert [row["physical_offset"] for row in done.rows] == [record["phy"] for record in records]
    assert done.rows[0]["message_id"] == records[0]["uniqKey"]
    assert done.rows[0]["born_host"] == records[0]["bornHost"].replace("|", ":")


def test_a_dump_is_json_to_a_pipe_and_a_table_when_asked(golden: GoldenStores) -> None:
    store = str(golden.store("rebuild-base"))
    assert run("store", "dump", store).document[0]["physical_offset"] == 0
    assert run("store", "dump", store, "-o", "table").out.startswith("TOPIC")


def test_the_units_of_a_queue(golden: GoldenStores) -> None:
    queue = golden.manifest("v533")["queues"][-1]
    name = f"{queue['topic']}:{queue['queueId']}"
    done = run("store", "dump", str(golden.store("v533")), "--queue", name, "-o", "jsonl")
    shown = [[row["physical_offset"], row["size"], row["tags_code"]] for row in done.rows]
    assert shown == queue["units"]


def test_the_entries_of_the_index(golden: GoldenStores) -> None:
    done = run("store", "dump", str(golden.store("v533")), "--index", "-o", "jsonl")
    counts = [file["indexCount"] - 1 for file in golden.manifest("v533")["indexFiles"]]
    assert len(done.rows) == sum(counts)
    assert done.rows[0]["number"] == 1


def test_sizes_can_be_set_and_must_fit(golden: GoldenStores) -> None:
    store = str(golden.store("basic"))
    done = run("store", "dump", store, "--set", "mappedFileSizeCommitLog=65536")
    assert done.code == 4
    assert "mappedFileSizeCommitLog" in done.err
    assert run("store", "dump", store, "--set", "mappedFileSizeCommitLog=131072").code == 0


def test_a_store_is_described(golden: GoldenStores) -> None:
    store = golden.store("basic")
    document = run("store", "info", str(store)).document
    assert document["commit_log"]["end_offset"] == golden.manifest("basic")["lastRecordEnd"]
    lines = run("store", "info", str(store), "-o", "table").out.splitlines()
    assert lines[0].split() == ["directory", str(store)]
    assert any(line.startswith("index") and "(500 slots" in line for line in lines)


def test_wrong_use_says_how(tmp_path: Path) -> None:
    assert run("store", "dump", str(tmp_path), "--queue", "t:0", "--index").code == 2
    assert "TOPIC:QUEUE" in run("store", "dump", str(tmp_path), "--queue", "orders").err
    (tmp_path / "commitlog").mkdir()
    assert run("store", "dump", str(tmp_path), "--set", "nonsense=1").code == 2


def test_the_halves_that_wait(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("semantics", tmp_path / "s")
    offsets = store / "config" / "consumerOffset.json"
    offsets.write_text(offsets.read_text().replace("0:52", "0:51", 1))
    (half,) = run("store", "dump", str(store), "--halves", "-o", "jsonl").rows
    assert (half["queue_offset"], half["check_times"], half["topic"]) == (51, 3, "TxT")
    assert run("store", "dump", str(store), "--halves", "--index").code == 2


def test_what_waits_for_its_time(golden: GoldenStores) -> None:
    rows = run("store", "dump", str(golden.store("semantics")), "--timers", "-o", "jsonl").rows
    assert {row["kind"] for row in rows} == {"timer", "delay level", "lease"}
    assert {row["topic"] for row in rows if row["kind"] == "delay level"} == {"DelayT"}


def test_how_much_waits_and_for_when(golden: GoldenStores) -> None:
    store = str(golden.store("semantics"))
    rows = run("store", "stats", store, "--by", "due", "-o", "jsonl").rows
    counts = Counter[str]()
    for row in rows:
        counts[row["kind"]] += row["messages"]
        hours = {row[f"{name}_due_timestamp_ms"] // 3_600_000 for name in ("first", "last")}
        assert len(hours) == 1
    assert counts == {"timer": 35, "lease": 30, "delay level": 12}
    assert rows == sorted(rows, key=lambda row: row["first_due_timestamp_ms"] // 3_600_000)


def test_whose_decisions_are_missing(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("semantics", tmp_path / "s")
    offsets = store / "config" / "consumerOffset.json"
    offsets.write_text(offsets.read_text().replace("0:52", "0:43", 1))
    (row,) = run("store", "stats", str(store), "--by", "producer-group", "-o", "jsonl").rows
    assert (row["producer_group"], row["topic"], row["messages"]) == ("PG_tx", "TxT", 6)
