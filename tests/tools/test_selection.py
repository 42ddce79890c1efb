"""A search finds by column what a plain condition finds."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.model.message import StoredMessage
from pocketmq.rebuild.log_files import CLOCK_STEP_MS
from pocketmq.tools.selection import LogSearch, Selection
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import TIME_MS, LogBytes, golden_files
from tests.kit.odd_records import TOPICS, records

Records = list[dict[str, Any]]


def offsets(log: LogBytes, selection: Selection) -> list[int]:
    """Where the messages lie that a search finds."""
    return [message.physical_offset for message in LogSearch(log.found(), selection).messages()]


def fits(message: StoredMessage, wanted: Selection) -> bool:
    """The condition a selection stands for, said once more and plainly."""
    keys = [*message.keys, message.unique_key]
    return (
        wanted.wants_queue(message.topic, message.queue_id)
        and wanted.begin_ms <= message.store_timestamp_ms < wanted.end_ms
        and wanted.begin <= message.physical_offset < wanted.upto
        and (wanted.key is None or (wanted.key != "" and wanted.key in keys))
        and (wanted.tag is None or wanted.tag == message.tag)
        and all(message.properties.get(name) == value for name, value in wanted.properties)
    )


SELECTIONS: dict[str, Callable[[Records], Selection]] = {
    "topic": lambda rows: Selection(topics=(rows[0]["topic"],)),
    "topics": lambda rows: Selection(topics=(rows[0]["topic"][:3] + "*", "%RETRY%?*")),
    "queue": lambda rows: Selection(queue_ids=frozenset({rows[0]["queueId"], 3})),
    "time": lambda rows: Selection(
        begin_ms=rows[len(rows) // 3]["storeTimestamp"], end_ms=rows[-2]["storeTimestamp"]
    ),
    "place": lambda rows: Selection(begin=rows[3]["phy"] + 1, upto=rows[-3]["phy"]),
    "key": lambda rows: Selection(key=next(row["keys"] for row in rows if row["keys"]).split()[0]),
    "unique key": lambda rows: Selection(key=rows[5]["uniqKey"]),
    "tag": lambda rows: Selection(tag=next(row["tags"] for row in rows if row["tags"])),
    "property": lambda rows: Selection(properties=(("WAIT", "true"),)),
    "no system": lambda rows: Selection(with_system=False),
}


@pytest.mark.parametrize("what", SELECTIONS)
@pytest.mark.parametrize("name", ["basic", "semantics"])
def test_a_selection_in_a_real_store(golden: GoldenStores, name: str, what: str) -> None:
    selection = SELECTIONS[what](golden.manifest(name)["records"])
    every = LogSearch(golden_files(golden, name)).messages()
    wanted = [message.physical_offset for message in every if fits(message, selection)]
    search = LogSearch(golden_files(golden, name), selection)
    assert [message.physical_offset for message in search.messages()] == wanted
    assert wanted


selections = st.builds(
    Selection,
    topics=st.sampled_from([(), ("T",), ("*[ab]*", "BB"), ("SCHEDULE*",), tuple(TOPICS[3:4])]),
    queue_ids=st.frozensets(st.integers(0, 3), max_size=2),
    begin_ms=st.integers(TIME_MS - 3_000, TIME_MS),
    end_ms=st.integers(TIME_MS, TIME_MS + 6_000),
    key=st.sampled_from([None, None, "a", "x" * 8, "订单", ""]),
    tag=st.sampled_from([None, None, "a", "3", "😀x"]),
    properties=st.sampled_from([(), (), (("k", "a"),), (("k", "a b"), ("WAIT", "18"))]),
    with_system=st.booleans(),
)


@given(records, selections)
@settings(max_examples=100)
def test_a_selection_of_odd_messages(made: Records, selection: Selection) -> None:
    with TemporaryDirectory() as scratch:
        log = LogBytes(Path(scratch))
        for fields in made:
            log.add(**fields)
        log.close()
        every = LogSearch(log.found(), Selection()).messages()
        wanted = [message.physical_offset for message in every if fits(message, selection)]
        assert offsets(log, selection) == wanted


def test_a_system_topic_is_wanted_when_it_is_named() -> None:
    named = Selection(topics=("SELF_TEST_TOPIC",), with_system=False)
    assert named.wants_queue("SELF_TEST_TOPIC", 0)
    assert not Selection(topics=("*",), with_system=False).wants_queue("SELF_TEST_TOPIC", 0)


def test_files_of_other_times_are_not_read(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    for hour in range(8):
        log.add(time_ms=TIME_MS + hour * CLOCK_STEP_MS)
        log.add(time_ms=TIME_MS + hour * CLOCK_STEP_MS + 5)
        log.roll()
    # What is not read is not told of.
    log.damage(log.places[1] + 90, b"?")
    log.damage(log.places[-1] + 90, b"?")
    log.close()
    told: list[int] = []
    chosen = Selection(begin_ms=TIME_MS + 3 * CLOCK_STEP_MS, end_ms=TIME_MS + 4 * CLOCK_STEP_MS)
    search = LogSearch(log.found(), chosen, advance=told.append)
    assert [message.physical_offset for message in search.messages()] == log.places[6:8]
    assert search.holes == []
    assert sum(told) == 9 * log.file_size


@pytest.mark.parametrize("flip_ms", [1 << 40, -(1 << 40)])
def test_a_flipped_time_at_the_begin_of_a_file_hides_that_record_alone(
    tmp_path: Path, flip_ms: int
) -> None:
    """No CRC covers a store time: files are left out only where two records say the same."""
    log = LogBytes(tmp_path)
    for hour in range(0, 24, 3):
        for second in range(3):
            flipped = flip_ms if (hour, second) == (12, 0) else 0
            log.add(time_ms=TIME_MS + hour * CLOCK_STEP_MS + second * 1000 + flipped)
        log.roll()
    log.close()
    begin, end = TIME_MS + 9 * CLOCK_STEP_MS, TIME_MS + 15 * CLOCK_STEP_MS
    assert offsets(log, Selection(begin_ms=begin, end_ms=end)) == [
        place for number, place in enumerate(log.places) if number in {9, 10, 11, 13, 14}
    ]


def test_a_clock_that_was_set_back_hides_nothing(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    for step in (0, 10, -900_000, 20):
        log.add(time_ms=TIME_MS + step)
        log.roll()
    log.close()
    wanted = Selection(begin_ms=TIME_MS - 900_000, end_ms=TIME_MS - 899_000)
    assert offsets(log, wanted) == [log.places[2]]


def test_without_crc_a_flipped_body_is_read(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    places = [log.add(body=bytes(200)) for _ in range(9)]
    log.damage(places[2] + 90, b"?")
    files = log.close().found()
    without_crc = LogSearch(files, check_crc=False)
    assert [message.physical_offset for message in without_crc.messages()] == places
    assert without_crc.holes == []
    assert offsets(log, Selection()) == places[:2] + places[3:]


def test_a_torn_tail_is_told_and_nothing_is_lost_before_it(golden: GoldenStores) -> None:
    search = LogSearch(golden_files(golden, "crash-torn.before"))
    records = golden.manifest("crash-torn.before")["records"]
    assert [m.physical_offset for m in search.messages()] == [r["phy"] for r in records]
    assert search.tail is not None
    assert search.holes == []


def test_damage_outside_the_range_is_not_told(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    places = [log.add(body=bytes(200)) for _ in range(9)]
    log.damage(places[2] + 90, b"?")
    log.close()
    search = LogSearch(log.found(), Selection(begin=places[5], upto=places[7]))
    assert [message.physical_offset for message in search.messages()] == places[5:7]
    assert search.holes == []
    assert offsets(log, Selection(upto=places[2])) == places[:2]


def test_no_log_holds_nothing() -> None:
    search = LogSearch([], Selection())
    assert list(search) == []
    assert (search.end, search.holes, search.tail) == (0, [], None)
