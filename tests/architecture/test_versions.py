"""How stores of real brokers are compared, and how what came of it is shown."""

from pathlib import Path
from typing import Any

import pytest

from torture.judged import Truth, counted, difference, left_as_it_was, taken_back
from torture.versions import SHAPES, STEPS, counts, shape_of, tables

ONE: dict[str, Any] = {"topic": "orders", "physical_offset": 0, "properties": {"KEYS": "a"}}
TWO: dict[str, Any] = {"topic": "orders", "physical_offset": 90, "properties": {}}


def told(*messages: dict[str, Any], found: list[int]) -> Truth:
    """Returns what a broker says that has these messages in one queue and answers one question."""
    own = {"from": "orders", "from_queue": 0}
    documents = [{"kind": "queue", **own, "min": 0, "max": len(messages)}]
    documents += [{"kind": "message", **own, **message} for message in messages]
    truth = Truth()
    truth.add([*documents, {"kind": "key", "topic": "orders", "key": "a", "found": found}])
    return truth


@pytest.mark.parametrize(
    ("found", "more", "expected"),
    [
        ([ONE, TWO], False, ""),
        ([ONE], False, "1 messages, not 2"),
        ([ONE, TWO, TWO], False, "3 messages, not 2"),
        ([ONE, TWO, TWO], True, ""),
        ([TWO, ONE], False, "message 0: physical_offset is 90, not 0"),
        ([{**ONE, "properties": {}}, TWO], False, "message 0: properties is {}, not {'KEYS': 'a'}"),
    ],
)
def test_messages_are_compared_in_order_and_field_by_field(
    found: list[dict[str, Any]], more: bool, expected: str
) -> None:
    assert difference([ONE, TWO], found, more=more) == expected


def test_what_differs_is_counted_and_the_first_is_named() -> None:
    assert counted([], 3, "queues") == ""
    assert counted(["a/0: b", "c/0: d"], 3, "queues") == "2 of 3 queues: a/0: b"


def test_a_later_run_tells_everything_anew() -> None:
    truth = told(ONE, TWO, found=[0])
    assert truth.message_count == 2
    assert truth.keys == [("orders", "a")]
    truth.add([{"kind": "queue", "from": "orders", "from_queue": 1, "min": 0, "max": 0}])
    assert truth.queues == {("orders", 1): []}
    assert not truth.keys


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (told(ONE, TWO, TWO, found=[0]), ""),
        (told(ONE, TWO, found=[0, 90]), ""),
        (told(ONE, found=[0]), "1 of 2 queues and keys: orders/0: 1 messages, not 2"),
        (told(ONE, TWO, found=[]), "1 of 2 queues and keys: key 'a' of orders: [], not [0]"),
    ],
)
def test_what_is_taken_back_has_ours_behind_theirs(after: Truth, expected: str) -> None:
    ours = {("orders", 0): [TWO]}
    assert taken_back(told(ONE, found=[0]), ours, after, has_index=True) == expected


@pytest.fixture
def twins(tmp_path: Path) -> tuple[Path, Path]:
    """A store as it was, and as it is."""
    for store in ("was", "is"):
        for name in ("commitlog/0", "index/1", "consumequeue/t/0/0"):
            path = tmp_path / store / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode() + bytes(9))
    return tmp_path / "was", tmp_path / "is"


def test_a_changed_a_new_and_a_removed_file_are_seen(twins: tuple[Path, Path]) -> None:
    before, now = twins
    assert left_as_it_was(before, now) == ""
    (now / "index/1").rename(now / "index/2")
    assert left_as_it_was(before, now) == "2 of 4 files: index/1"
    (now / "commitlog/0").write_text("other")
    assert left_as_it_was(before, now) == "1 of 3 files: commitlog/0"


def test_what_was_due_stands_behind_what_there_was(twins: tuple[Path, Path]) -> None:
    before, now = twins
    for name in ("commitlog/0", "index/1", "consumequeue/t/0/0"):
        (now / name).write_bytes(name.encode() + b"and more")
    (now / "commitlog/1").write_bytes(b"new")
    assert left_as_it_was(before, now) == ""
    (now / "consumequeue/t/0/0").write_bytes(b"consumequeue/t/0/1 and more")
    assert left_as_it_was(before, now) == "1 of 3 files: consumequeue/t/0/0"


def test_joined_shapes_have_the_settings_and_the_runs_of_both() -> None:
    joined = shape_of("restarts+deleted+ipv6")
    assert joined.runs == [("mixed", "deleted"), ("few",), ("few", "retry")]
    assert joined.settings == SHAPES["ipv6"].settings
    with pytest.raises(ValueError, match="no shape 'ipv5'; there are plain"):
        shape_of("crc+ipv5")


def test_a_rebuild_that_differs_and_a_broker_that_fails_itself_are_no_differences() -> None:
    sound = dict.fromkeys(STEPS, "")
    rows: list[dict[str, Any]] = [
        {"steps": sound | {"rebuilt": "index/#0 is more"}, "messages": 7},
        {"steps": sound | {"verify": "exit code 10"}, "messages": 5},
        {"steps": {}, "why": "the real broker itself fails: it said nothing"},
        {"steps": {}, "why": "KeyError: 'min'"},
    ]
    figures = counts(rows)
    assert figures["differences"] == 2
    assert figures["messages compared"] == 12
    assert figures["steps as the real broker said"] == 2 * len(STEPS) - 2
    assert figures["the real broker itself fails"] == 1


def test_the_tables_name_each_difference_once() -> None:
    sound = dict.fromkeys(STEPS, "")
    rows = [
        {"version": "4.7.0", "shape": "plain", "steps": sound},
        {"version": "5.5.0", "shape": "plain", "steps": sound | {"verify": "exit code 10"}},
        {"version": "4.7.0", "shape": "lmq", "steps": {}, "why": "not offered: no enableLmq"},
        {"version": "5.5.0", "shape": "lmq", "steps": sound | {"verify": "exit code 10"}},
    ]
    shown = tables(rows, ["4.7.0", "5.5.0"], ["plain", "lmq"]).splitlines()
    assert shown[2] == f"| 4.7.0 | {' | '.join(['1/1'] * len(STEPS))} |"
    assert shown[3].count("2/2") == len(STEPS) - 1
    assert "| 0/2 |" in shown[3]
    assert shown[-4:] == [
        "| plain | ok | note 1 |",
        "| lmq | – | note 1 |",
        "",
        "1. verify silent: exit code 10",
    ]
