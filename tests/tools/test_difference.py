"""Two logs: the same, or where each queue first differs; the model compares lists."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.names import offset_file_name
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import (
    RECORD_HEAD,
)
from pocketmq.format.record_scan import RecordScan
from pocketmq.model.batch import Destination
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.tools.difference import Difference, MessageComparison, Side, excerpts
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import IPV4, IPV6, TIME_MS, LogBytes, golden_files
from tests.kit.rows import Row as PutRow
from tests.kit.rows import encoded
from tests.kit.store_golden import READ_WHOLE

PLACE = RECORD_HEAD.positions["physical_offset"]


class Row(NamedTuple):
    """A message of a queue."""

    queue_id: int
    body: bytes = b"body"


ROWS = [Row(number % 2, b"body %d" % number) for number in range(6)]


def log_of(directory: Path, rows: Sequence[Row | None], *, skip: int = 0) -> LogBytes:
    """A log of rows; the queue offset of a None of queue 0 is left out."""
    log = LogBytes(directory)
    if skip:
        log.add("Other", body=bytes(skip))
    counts: dict[int, int] = {}
    for row in rows:
        queue_id = row.queue_id if row else 0
        if row:
            log.add("T", queue_id, queue_offset=counts.get(queue_id, 0), body=row.body)
        counts[queue_id] = counts.get(queue_id, 0) + 1
    return log


def compared(left: LogBytes, right: LogBytes, *, anywhere: bool = True) -> list[Difference]:
    for log in (left, right):
        if not log.store.exists():
            log.close()
    comparison = MessageComparison(Side(left.found()), Side(right.found()), anywhere=anywhere)
    return list(comparison)


def test_the_same_messages_in_another_order_of_queues(tmp_path: Path) -> None:
    left = log_of(tmp_path / "a", ROWS)
    right = log_of(tmp_path / "b", [*ROWS[1::2], *ROWS[::2]])
    assert compared(left, right) == []
    assert {d.what for d in compared(left, right, anywhere=False)} == {"physical_offset"}


def test_the_first_message_that_differs(tmp_path: Path) -> None:
    rows = [*ROWS[:3], Row(1, b"another"), Row(0, b"later"), ROWS[5]]
    found = compared(log_of(tmp_path / "a", ROWS), log_of(tmp_path / "b", rows))
    assert found == [
        Difference("message", "T:0:2", "body, body_crc", "body 4", "later"),
        Difference("message", "T:1:1", "body, body_crc", "body 3", "another"),
    ]


def test_a_message_that_is_missing_at_the_end_in_the_middle_and_at_the_front(
    tmp_path: Path,
) -> None:
    rows = [Row(0, b"%d" % number) for number in range(4)]
    whole = log_of(tmp_path / "a", rows)
    gaps: dict[str, list[Row | None]] = {
        "end": [*rows[:3]], "middle": [rows[0], None, *rows[2:]], "front": [None, *rows[1:]],
    }  # fmt: skip
    found = {name: compared(whole, log_of(tmp_path / name, left)) for name, left in gaps.items()}
    messages = {name: rows[-1] for name, rows in found.items()}
    assert {name: row.where for name, row in messages.items()} == {
        "end": "T:0:3", "middle": "T:0:1", "front": "T:0:0",
    }  # fmt: skip
    assert {row[2:] for row in messages.values()} == {("message", "there", "missing")}
    assert found["end"][0] == Difference(
        "queue", "T:0", "messages", "4, offsets 0 to 3", "3, offsets 0 to 2"
    )
    back = compared(log_of(tmp_path / "c", gaps["middle"]), whole)[-1]
    assert back[1:] == ("T:0:1", "message", "missing", "there")


def test_a_queue_that_is_missing(tmp_path: Path) -> None:
    rows = [Row(number % 3) for number in range(6)]
    found = compared(log_of(tmp_path / "a", ROWS), log_of(tmp_path / "b", rows))
    two, three = "2, offsets 0 to 1", "3, offsets 0 to 2"
    assert found[0] == Difference("queue", "T:0", "messages", three, two)
    assert found[2] == Difference("queue", "T:2", "messages", "none", two)


FIELDS = {
    "system_flag": {"flags": 0x10 << 8},
    "store_timestamp_ms": {"time_ms": TIME_MS + 1},
    "born_host": {"born": IPV6},
    "store_host": {"host": IPV6},
    "tag": {"block": encode_properties({"TAGS": "b"})},
    "keys": {"keys": "k2"},
    "property colour": {"block": encode_properties({"colour": "red"})},
}


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_told_by_its_name(tmp_path: Path, name: str) -> None:
    logs = [LogBytes(tmp_path / side) for side in "ab"]
    logs[0].add("T")
    logs[1].add("T", **FIELDS[name])  # type: ignore[arg-type]
    (found,) = compared(*logs)
    assert name in found.what.split(", ")


def test_the_order_of_properties_counts(tmp_path: Path) -> None:
    logs = [LogBytes(tmp_path / side) for side in "ab"]
    logs[0].add("T", block=encode_properties({"a": "1", "b": "2"}))
    logs[1].add("T", block=encode_properties({"b": "2", "a": "1"}))
    (found,) = compared(*logs)
    assert found.what == "order of properties"


def test_many_fields_are_not_all_named(tmp_path: Path) -> None:
    logs = [LogBytes(tmp_path / side) for side in "ab"]
    logs[0].add("T")
    logs[1].add("T", block=encode_properties({f"p{n}": "1" for n in range(9)}))
    (found,) = compared(*logs)
    assert found.what == "property p0, property p1, property p2, property p3, …"
    assert (found.left, found.right) == ("missing", "1")


def test_long_values_are_shown_where_they_begin_to_differ() -> None:
    same = b"x" * 500
    assert excerpts(same + b"1" + same, same + b"2" + same) == (
        "…xxxxxxxx1" + "x" * 31 + "…", "…xxxxxxxx2" + "x" * 31 + "…",
    )  # fmt: skip
    assert excerpts(b"\xff\x00", b"\xff") == ("0xff00", "0xff")
    assert excerpts("", "a") == ("", "a")
    assert excerpts(None, 7) == ("missing", "7")


def test_records_behind_the_mark_are_not_looked_at(tmp_path: Path) -> None:
    left, right = log_of(tmp_path / "a", ROWS), log_of(tmp_path / "b", ROWS[:4])
    side = Side(left.close().found(), right.end)
    assert list(MessageComparison(side, Side(right.close().found()), anywhere=False)) == []


def test_damage_is_told_and_counts_as_missing(tmp_path: Path) -> None:
    left = log_of(tmp_path / "a", ROWS).close()
    right = LogBytes(tmp_path / "b")
    for number, row in enumerate(ROWS):
        right.add("T", row.queue_id, queue_offset=number // 2, body=row.body)
    right.damage(right.places[2] + 90, b"??")
    comparison = MessageComparison(
        Side(left.found()), Side(right.close().found()), anywhere=True
    )  # fmt: skip
    assert Difference("message", "T:0:1", "message", "there", "missing") in list(comparison)
    assert [damage.begin for damage in comparison.damages] == [right.places[2]]


# -- against a model -------------------------------------------------------------------------------
ROW = st.builds(Row, st.integers(0, 2), st.sampled_from([b"a", b"b"]))


@given(
    left=st.lists(ROW, max_size=40),
    right=st.lists(ROW, max_size=40),
    prefix=st.lists(ROW, max_size=60),
)
def test_every_queue_is_found_where_it_first_differs(
    tmp_path_factory: pytest.TempPathFactory, left: list[Row], right: list[Row], prefix: list[Row]
) -> None:
    directory = tmp_path_factory.mktemp("logs")
    sides = [prefix + left, prefix + right]
    logs = [log_of(directory / str(number), rows) for number, rows in enumerate(sides)]
    found = compared(*logs)
    expected = {}
    for queue_id in range(3):
        bodies = [[row.body for row in rows if row.queue_id == queue_id] for rows in sides]
        shorter, longer = sorted(map(len, bodies))
        pairs = zip(*bodies, strict=False)
        first = next((n for n, (one, other) in enumerate(pairs) if one != other), shorter)
        if shorter and first < longer:
            expected[f"T:{queue_id}:{first}"] = first < shorter
    messages = {row.where: row.what != "message" for row in found if row.part == "message"}
    assert messages == expected


@pytest.mark.parametrize("name", READ_WHOLE)
def test_a_real_brokers_store_and_itself(golden: GoldenStores, name: str) -> None:
    files = golden_files(golden, name)
    for anywhere in (False, True):
        comparison = MessageComparison(Side(files), Side(files), anywhere=anywhere)
        assert list(comparison) == []
        assert comparison.damages == []


def test_a_real_brokers_log_that_begins_elsewhere(golden: GoldenStores, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    left = golden_files(golden, "semantics")
    for file in left:
        content = bytearray(Path(file.path).read_bytes())
        for position, _ in list(RecordScan(bytes(content), file.base)):
            place = file.base + position + 7 * file.size
            content[position + PLACE : position + PLACE + 8] = place.to_bytes(8)
        path = tmp_path / "commitlog" / offset_file_name(file.base + 7 * file.size)
        path.write_bytes(content)
    sides = Side(left), Side(find_log_files(tmp_path, left[0].size))
    assert list(MessageComparison(*sides, anywhere=True)) == []
    found = list(MessageComparison(*sides, anywhere=False))
    assert {row.what for row in found} == {"physical_offset"}


def test_a_crc_that_covers_the_place_is_part_of_the_place(tmp_path: Path) -> None:
    logs = [log_of(tmp_path / side, [], skip=skip) for side, skip in (("a", 0), ("b", 10))]
    for log in logs:
        log.files[-1] += encoded(
            Destination("T", 0, IPV4),
            PutRow(b"body", born_ms=TIME_MS, born_host=IPV4),
            physical_offset=log.end,
            store_timestamp_ms=TIME_MS,
            crc=True,
        )
    found = compared(*logs)
    assert [row.where for row in found] == ["Other:0"]
