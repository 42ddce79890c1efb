"""A search finds by column what a dump and a plain condition find."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.files.disk import Disk
from broker.model.message import StoredMessage
from broker.rebuild.log_files import LogFile, find_log_files
from broker.tools.dump import LogDump
from broker.tools.selection import CLOCK_STEP_MS, LogSearch, Selection, records_end
from tests.fakes.log_bytes import TIME_MS, LogBytes, golden_files
from tests.fakes.odd_records import TOPICS, records
from tests.fakes.tool_sizes import golden_tool_sizes
from tests.golden_stores import NAMES, GoldenStores
from tests.tools.offline import record_positions

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


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_what_a_dump_shows(golden: GoldenStores, name: str) -> None:
    walk = LogDump(Disk(), golden.store(name), golden_tool_sizes(golden, name))
    search = LogSearch(golden_files(golden, name), Selection())
    shown = [(m.physical_offset, m.topic, m.body) for m in walk]
    assert [(m.physical_offset, m.topic, m.body) for m in search.messages()] == shown
    assert (search.end, search.holes, search.tail) == (walk.end, walk.holes, walk.tail)


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
    walk = LogDump(Disk(), golden.store(name), golden_tool_sizes(golden, name))
    wanted = [message.physical_offset for message in walk if fits(message, selection)]
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
@settings(max_examples=100, deadline=None)
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
    search = LogSearch(log.found(), chosen, tell=told.append)
    assert [message.physical_offset for message in search.messages()] == log.places[6:8]
    assert search.holes == []
    assert sum(told) == 9 * log.file_size


def test_a_clock_that_was_set_back_hides_nothing(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    for step in (0, 10, -900_000, 20):
        log.add(time_ms=TIME_MS + step)
        log.roll()
    log.close()
    wanted = Selection(begin_ms=TIME_MS - 900_000, end_ms=TIME_MS - 899_000)
    assert offsets(log, wanted) == [log.places[2]]


class Damaged:
    """A golden store's copy with three files, to be damaged, as a dump and as a search see it."""

    def __init__(self, golden: GoldenStores, to: Path) -> None:
        self.directory = golden.copy("rebuild-base", to / "store")
        self.sizes = golden_tool_sizes(golden, "rebuild-base")
        self.files = sorted((self.directory / "commitlog").iterdir())

    def position(self, file: Path, number: int) -> int:
        return record_positions(file)[number][0]

    def flip(self, file: Path, position: int) -> None:
        content = bytearray(file.read_bytes())
        content[position] ^= 0xFF
        file.write_bytes(content)

    def found(self) -> list[LogFile]:
        return find_log_files(self.directory, self.sizes.commit_log_file_bytes)

    def agree(self) -> LogSearch:
        """A search of all of it, made sure to see what a dump sees."""
        search = LogSearch(self.found(), Selection())
        walk = LogDump(Disk(), self.directory, self.sizes)
        shown = [message.physical_offset for message in walk]
        assert [message.physical_offset for message in search.messages()] == shown
        assert (search.end, search.holes, search.tail) == (walk.end, walk.holes, walk.tail)
        return search


@pytest.fixture
def damaged(golden: GoldenStores, tmp_path: Path) -> Damaged:
    return Damaged(golden, tmp_path)


@pytest.mark.parametrize("byte", [0, 2, 5, 30, 90])
@pytest.mark.parametrize("number", [0, 3, -1])
def test_damage_is_passed_over_as_a_dump_does(damaged: Damaged, byte: int, number: int) -> None:
    file = damaged.files[1]
    damaged.flip(file, damaged.position(file, number) + byte)
    assert len(damaged.agree().holes) == 1


def test_damage_in_the_last_record_is_the_tail(damaged: Damaged) -> None:
    damaged.flip(damaged.files[-1], damaged.position(damaged.files[-1], -1) + 5)
    search = damaged.agree()
    assert search.holes == []
    assert search.tail is not None


def test_a_file_that_ends_early_is_a_hole_when_records_follow(damaged: Damaged) -> None:
    file = damaged.files[1]
    content = file.read_bytes()
    begin = damaged.position(file, 4)
    file.write_bytes(content[:begin] + bytes(len(content) - begin))
    (hole,) = damaged.agree().holes
    assert hole.reason == "no record up to the file's end"


def test_without_crc_a_flipped_body_is_read(damaged: Damaged) -> None:
    damaged.flip(damaged.files[1], damaged.position(damaged.files[1], 3) + 90)
    search = LogSearch(damaged.found(), Selection(), check_crc=False)
    count = sum(len(picked.heads) for picked in search)
    assert count == len(list(LogSearch(damaged.found(), Selection()).messages())) + 1
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
    assert records_end([]) == 0


def test_where_the_records_end(golden: GoldenStores) -> None:
    end = golden.manifest("basic")["lastRecordEnd"]
    assert records_end(golden_files(golden, "basic")) == end
