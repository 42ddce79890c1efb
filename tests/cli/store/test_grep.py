"""`pocketmq store grep` and `stats`: what is shown, counted and told, and the exit code."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pocketmq.cli.store.grep import PLACES
from pocketmq.cli.store.stats import LABELS
from tests.cli.command_line import run
from tests.cli.store.other_process import run_elsewhere
from tests.golden_stores import GoldenStores
from tests.kit.store_language import store_at


@pytest.fixture
def basic(golden: GoldenStores) -> str:
    return str(golden.store("basic"))


@pytest.fixture
def records(golden: GoldenStores) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = golden.manifest("basic")["records"]
    return found


# -- grep ------------------------------------------------------------------------------------------
def test_grep_prints_messages_as_a_dump_does(basic: str) -> None:
    done = run("store", "grep", "[0-9]7", basic, "-o", "jsonl")
    dumped = run("store", "dump", basic, "-o", "jsonl").rows
    assert done.code == 0
    assert done.rows
    assert all(row in dumped for row in done.rows)
    assert run("store", "grep", "[0-9]7", basic, "-n", "1", "-o", "table").out.startswith("TOPIC")


def test_a_grep_with_the_directory_first_is_told_the_order(basic: str) -> None:
    done = run("store", "grep", basic, "order 42")
    assert done.code == 2
    assert f"the pattern is the first argument: pocketmq store grep 'order 42' {basic}" in done.err


def test_grep_counts_or_stops_early(basic: str, records: list[dict[str, Any]]) -> None:
    tagged = sum(record["tags"] == "TagA" for record in records)
    assert run("store", "grep", "^TagA$", basic, "--in", "tag", "--count").document == {
        "messages": tagged
    }
    assert len(run("store", "grep", "TagA", basic, "--in", "tag", "-n", "3").document) == 3
    folded = run("store", "grep", "^taga$", basic, "--in", "tag", "-i", "--count", "-n", "2")
    assert folded.document == {"messages": 2}


@pytest.mark.parametrize("place", PLACES)
def test_grep_that_finds_nothing_exits_3(basic: str, place: str) -> None:
    done = run("store", "grep", "no such text", basic, "--in", place)
    assert (done.code, done.out) == (3, "[]\n")
    assert run("store", "grep", "no such text", basic, "--in", place, "--count").code == 3


def test_grep_names_the_filters_that_no_message_passed(basic: str) -> None:
    words = ("store", "grep", ".", basic, "--from", "0")
    empty = run(*words, "--since", "1700000000000", "--until", "1700000000000", "--key", "none")
    assert (empty.code, empty.out) == (3, "[]\n")
    assert "no message passed --since, --until, --key" in empty.err
    assert "leave out or widen --since or --until or --key" in empty.err
    assert "--in any" not in empty.err


def test_grep_that_finds_nothing_counts_what_it_searched(
    basic: str, records: list[dict[str, Any]]
) -> None:
    done = run("store", "grep", "no such text", basic, "--topic", "*")
    assert f"no message matches; {len(records)} messages searched" in done.err
    assert "only body was searched; all fields: --in any" in done.err


def test_a_pattern_must_be_one(basic: str) -> None:
    done = run("store", "grep", "(", basic)
    assert done.code == 2
    assert "regular expression" in done.err


# -- which messages --------------------------------------------------------------------------------
def chosen(store: str, *words: str) -> list[int]:
    done = run("store", "grep", "", store, "-o", "jsonl", *words)
    assert done.code in (0, 3)
    return [row["physical_offset"] for row in done.rows]


def test_messages_are_chosen_by_their_fields(basic: str, records: list[dict[str, Any]]) -> None:
    def places(**wanted: Any) -> list[int]:
        return [r["phy"] for r in records if all(r[name] == v for name, v in wanted.items())]

    one = records[9]
    assert chosen(basic, "--topic", one["topic"]) == places(topic=one["topic"])
    assert chosen(basic, "--queue-id", "1", "--queue-id", "1") == places(queueId=1)
    assert chosen(basic, "--key", one["uniqKey"]) == places(uniqKey=one["uniqKey"])
    assert chosen(basic, "--tag", "TagA") == places(tags="TagA")
    assert chosen(basic, "--property", f"UNIQ_KEY={one['uniqKey']}") == [one["phy"]]
    begin, end = records[4]["phy"], records[8]["phy"]
    assert chosen(basic, "--from", str(begin), "--upto", str(end)) == [
        record["phy"] for record in records[4:8]
    ]
    moment = records[len(records) // 2]["storeTimestamp"]
    assert chosen(basic, "--since", str(moment), "--until", str(moment + 1)) == places(
        storeTimestamp=moment
    )
    assert chosen(basic, "--topic", "none*") == []


@pytest.mark.parametrize("text", ["colour", "=red", "colour="])
def test_a_property_has_a_name_and_a_value(basic: str, text: str) -> None:
    done = run("store", "grep", "x", basic, "--property", text)
    assert done.code == 2
    assert "NAME=VALUE" in done.err


async def test_a_store_in_use_is_searched_up_to_what_is_flushed(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("orders", "one", "two")
        await store.settled()
        words = ("store", "grep", "o", str(store.directory), "-o", "jsonl")
        refused = await asyncio.to_thread(run_elsewhere, *words)
        found = await asyncio.to_thread(run_elsewhere, *words, "--read-only", "--upto", "99999")
    assert refused.code == 4
    assert "--read-only" in refused.err
    assert [row["body_text"] for row in found.rows] == ["one", "two"]
    assert "The store is in use: records that begin below" in found.err


# -- stats -----------------------------------------------------------------------------------------
def test_sums_over_everything(basic: str, records: list[dict[str, Any]]) -> None:
    document = run("store", "stats", basic).document
    assert document["summary"]["messages"] == len(records)
    assert document["summary"]["bytes"] == sum(record["size"] for record in records)
    assert len(document["largest"]) == 20
    (line,) = run("store", "stats", basic, "-o", "jsonl").rows
    assert line == document["summary"]
    table = run("store", "stats", basic, "-o", "table").out
    assert table.startswith("messages")
    assert "PHYSICAL_OFFSET" in table


@pytest.mark.parametrize("by", LABELS)
def test_groups(basic: str, records: list[dict[str, Any]], by: str) -> None:
    document = run("store", "stats", basic, "--by", by, "--top", "99999").document
    assert document["by"] == by
    assert document["groups"] == len(document["rows"]) > 0
    assert not document["is_rough"]
    assert all(name in row for row in document["rows"] for name in LABELS[by])
    if by != "key":
        assert sum(row["messages"] for row in document["rows"]) == len(records)
    assert run("store", "stats", basic, "--by", by, "-o", "jsonl").rows == document["rows"][:20]
    table = run("store", "stats", basic, "--by", by, "-o", "table").out
    assert table.startswith(LABELS[by][0].upper())


def test_groups_left_out_are_told(basic: str) -> None:
    done = run("store", "stats", basic, "--by", "queue", "--top", "2", "-o", "jsonl")
    assert len(done.rows) == 2
    assert "Only the 2 largest rows" in done.err


def test_lag_of_groups(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("v533", tmp_path / "store")
    queue = max(golden.manifest("v533")["queues"], key=lambda queue: queue["maxOffset"])
    name, number = queue["topic"], queue["queueId"]
    table = {"offsetTable": {f"{name}@g": {str(number): 1}, "other@g": {"0": 1}}}
    (store / "config" / "consumerOffset.json").write_text(json.dumps(table))
    row = {
        "group": "g", "topic": name, "queue_id": number, "committed_offset": 1,
        "end_offset": queue["maxOffset"], "lag": queue["maxOffset"] - 1,
    }  # fmt: skip
    words = ("store", "stats", str(store), "--by", "group")
    assert row in run(*words, "-o", "jsonl").rows
    of_topic = run(*words, "--topic", name).document
    assert [one for one in of_topic if one["committed_offset"] is not None] == [row]
    others = [one for one in of_topic if one["committed_offset"] is None]
    assert len(others) == sum(one["topic"] == name for one in golden.manifest("v533")["queues"]) - 1
    assert all(one["lag"] == one["end_offset"] for one in others)
    assert run(*words, "-o", "table").out.startswith("GROUP")


def test_lag_without_consume_queues_or_a_table(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("rebuild-cq.before", tmp_path / "store")
    (store / "config" / "consumerOffset.json").write_text('{"offsetTable":{"none@g":{"0":1}}}')
    (row,) = run("store", "stats", str(store), "--by", "group").document
    assert (row["end_offset"], row["lag"]) == (None, 0)
    for path in (store / "config").glob("consumerOffset.json*"):
        path.write_text("{")
    done = run("store", "stats", str(store), "--by", "group")
    assert done.code == 1
    assert "consumerOffset.json" in done.err
