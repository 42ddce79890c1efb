"""How far each delay level is delivered: RocketMQ's file, with a member of our own."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pocketmq.model.errors import TableUnreadable
from pocketmq.store.tables.delay_offsets import DelayOffsets
from tests.sim.clock import START_MS, FakeClock
from tests.sim.quick_disk import QuickDisk

NAME = "config/delayOffset.json"
CLOCKS = {2: ((0, 3_600_000), (7, 0)), 10: ((5, -20),)}


class Levels:
    """The table of a store directory; `again` is what a start finds."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.path = directory, directory / NAME
        self.disk, self.clock, self.pool = QuickDisk(), FakeClock(), ThreadPoolExecutor(1)
        self.table = DelayOffsets(self.disk, directory, self.clock, self.pool)

    def again(self) -> DelayOffsets:
        self.pool.shutdown()
        return read(self.directory)

    def found(self, levels: int = 4) -> list[int]:
        return [self.table.find(level) for level in range(1, levels)]

    @property
    def text(self) -> str:
        return "".join(self.path.read_text().split())

    @property
    def write_count(self) -> int:
        return len(self.disk.calls["write_file"])


@pytest.fixture
def levels(tmp_path: Path) -> Iterator[Levels]:
    made = Levels(tmp_path)
    yield made
    made.pool.shutdown()


def read(directory: Path) -> DelayOffsets:
    table = DelayOffsets(QuickDisk(), directory, FakeClock(), ThreadPoolExecutor(1))
    table.load()
    return table


def read_text(directory: Path, **members: Any) -> DelayOffsets:
    """The table of a store whose file has these members."""
    (directory / "config").mkdir(exist_ok=True)
    (directory / NAME).write_text(json.dumps(members))
    return read(directory)


def test_a_store_without_a_file_has_delivered_nothing(tmp_path: Path) -> None:
    for table in (Levels(tmp_path).table, read(tmp_path)):
        assert (table.find(1), table.delivered_before, table.clocks) == (0, 0, {})


async def test_what_is_put_is_durable_and_levels_not_named_stay(levels: Levels) -> None:
    await levels.table.put({2: 0, 1: 28}, 353_964, CLOCKS)
    await levels.table.put({2: 8, 3: 1}, 353_965, CLOCKS)
    assert levels.found() == [28, 8, 1]
    again = levels.again()
    assert [again.find(level) for level in range(1, 5)] == [28, 8, 1, 0]
    assert (again.delivered_before, again.clocks) == (353_965, CLOCKS)


async def test_the_file_is_one_that_a_real_broker_reads(levels: Levels) -> None:
    await levels.table.put({2: 8, 1: 28}, 7, {})
    version = f'"dataVersion":{{"counter":1,"stateVersion":0,"timestamp":{START_MS}}}'
    rest = '"offsetTable":{1:28,2:8},"pocketmq":{"deliveredBefore":7'
    assert levels.text == "{" + version + "," + rest + "}}"
    levels.clock.advance(5)
    await levels.table.put({}, 7, {10: [(0, 1)], 2: [(0, 3)]})
    version = f'"dataVersion":{{"counter":2,"stateVersion":0,"timestamp":{START_MS + 5}}}'
    rest += ',"clocks":{"2":[[0,3]],"10":[[0,1]]}'
    assert levels.text == "{" + version + "," + rest + "}}"


async def test_what_a_real_broker_keeps_besides_stays(levels: Levels) -> None:
    (levels.directory / "config").mkdir()
    members = {"somethingNew": [1], "offsetTable": {"1": 3}, "dataVersion": {"counter": 4}}
    levels.path.write_text(json.dumps(members))
    levels.table.load()
    await levels.table.put({}, 0, {})
    assert '"somethingNew":[1]' in levels.text
    assert '"counter":5' in levels.text
    assert levels.again().find(1) == 3


@pytest.mark.parametrize(
    ("version", "counter"),
    [
        (5, 1),
        ({}, 1),
        ({"counter": 0}, 1),
        ({"counter": -1}, 1),
        ({"counter": "7"}, 1),
        ({"counter": 1 << 62}, (1 << 62) + 1),
        ({"counter": (1 << 62) + 1}, 1),
    ],
)
async def test_a_version_that_cannot_be_counted_on_begins_anew(
    levels: Levels, version: object, counter: int
) -> None:
    (levels.directory / "config").mkdir()
    levels.path.write_text(json.dumps({"dataVersion": version}))
    levels.table.load()
    await levels.table.put({1: 1}, 0, {})
    assert f'"counter":{counter},' in levels.text


@pytest.mark.parametrize("before", [-1, True, "7", None, 1.5])
def test_a_place_that_is_none_is_not_known(tmp_path: Path, before: object) -> None:
    assert read_text(tmp_path, pocketmq={"deliveredBefore": before}).delivered_before == 0


@pytest.mark.parametrize("own", [5, [], "x", None])
def test_a_member_of_ours_that_is_no_object_says_nothing(tmp_path: Path, own: object) -> None:
    table = read_text(tmp_path, offsetTable={"1": 3}, pocketmq=own)
    assert (table.find(1), table.delivered_before, table.clocks) == (3, 0, {})


@pytest.mark.parametrize(
    "rows",
    [
        {"2": 5},
        {"2": []},
        {"2": [5]},
        {"2": [[1, 2, 3]]},
        {"2": [["a", 1]]},
        {"2": [[None, 1]]},
        {"2": [[7, 1], [0, 2]]},
        {"2": [[-1, 1]]},
        {"x": [[0, 1]]},
        {"-1": [[0, 1]]},
    ],
)
def test_clocks_that_are_none_are_left_out_and_the_others_stay(
    tmp_path: Path, rows: dict[str, Any]
) -> None:
    clocks = {"1": [[0, 9]], **rows, "3": [[0, -5], [4, 0], [4, 1]]}
    found = read_text(tmp_path, pocketmq={"clocks": clocks}).clocks
    assert found == {1: ((0, 9),), 3: ((0, -5), (4, 0), (4, 1))}


@pytest.mark.parametrize("said", [5, [[0, 1]], "x"])
def test_clocks_that_are_no_table_are_none(tmp_path: Path, said: object) -> None:
    assert read_text(tmp_path, pocketmq={"clocks": said}).clocks == {}


def test_offsets_that_are_no_table_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(TableUnreadable, match="offsetTable"):
        read_text(tmp_path, offsetTable=[1])


# -- clamping --------------------------------------------------------------------------------------


async def test_levels_beyond_their_ends_come_down_to_them(levels: Levels) -> None:
    await levels.table.put({1: 5, 2: 6, 3: 9}, 100, CLOCKS)
    assert await levels.table.clamp(lambda level: 4 + level, 100) == 1
    again = levels.again()
    assert [again.find(level) for level in (1, 2, 3)] == [5, 6, 7]
    assert (again.delivered_before, again.clocks) == (100, CLOCKS)


async def test_a_place_beyond_the_log_comes_down_to_its_end(levels: Levels) -> None:
    await levels.table.put({1: 5}, 100, CLOCKS)
    assert await levels.table.clamp(lambda level: 5, 99) == 0
    again = levels.again()
    assert (again.find(1), again.delivered_before, again.clocks) == (5, 99, CLOCKS)


async def test_nothing_beyond_an_end_writes_nothing(levels: Levels) -> None:
    await levels.table.put({1: 5}, 100, {})
    assert await levels.table.clamp(lambda level: 5, 100) == 0
    assert levels.write_count == 1
    assert await levels.table.clamp(lambda level: 4, 200) == 1
    assert levels.again().delivered_before == 100
