"""Tables of rows: versions, what stands beside the rows, who is told that a change is durable."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pocketmq.model.errors import DiskFull, TableUnreadable
from pocketmq.store.tables.durable_table import RowTable, Saving, Work
from tests.kit.store_language import turns, until
from tests.sim.clock import START_MS, FakeClock
from tests.sim.quick_disk import QuickDisk


class Words:
    """A table whose rows are `{"n": number}` by word."""

    def __init__(self, directory: Path, *, is_counted: bool = False) -> None:
        self.path = directory / "config" / "words.json"
        self.disk, self.clock, self.pool = QuickDisk(), FakeClock(), ThreadPoolExecutor(1)
        self.table = RowTable(
            self.disk, directory, "words.json", "words", self.clock, self.pool,
            is_counted=is_counted,
        )  # fmt: skip
        self.told: list[BaseException | None] = []

    def read(self, **members: Any) -> RowTable:
        """Loads a file with these members."""
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(members))
        self.table.load()
        return self.table

    @property
    def on_disk(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    @property
    def write_count(self) -> int:
        return len(self.disk.calls["write_file"])


@pytest.fixture
def words(tmp_path: Path) -> Iterator[Words]:
    made = Words(tmp_path)
    yield made
    made.pool.shutdown()


async def test_a_table_that_was_not_read_is_an_empty_one(words: Words) -> None:
    assert words.table.rows == {}
    assert words.table.other_rows("beside") == {}
    await words.table.put("a", {"n": 1})
    assert words.on_disk["words"] == {"a": {"n": 1}}


@pytest.mark.parametrize(
    ("version", "counter", "state"),
    [
        (None, 1, 0),
        ({}, 1, 0),
        ({"counter": 7}, 8, 0),
        ({"counter": 7, "stateVersion": 3, "timestamp": 5}, 8, 3),
        ({"counter": "7"}, 1, 0),
    ],
)
async def test_each_change_raises_the_version(
    words: Words, version: object, counter: int, state: int
) -> None:
    words.read(dataVersion=version)
    await words.table.put("a", {})
    expected = {"counter": counter, "stateVersion": state, "timestamp": START_MS}
    assert words.on_disk["dataVersion"] == expected
    words.clock.advance(9)
    await words.table.drop("a")
    expected = {"counter": counter + 1, "stateVersion": state, "timestamp": START_MS + 9}
    assert words.on_disk == {"dataVersion": expected, "words": {}}


async def test_only_what_differs_is_written(words: Words) -> None:
    await words.table.replace({"a": {"n": 1}})
    await words.table.replace({"a": {"n": 1}})
    await words.table.drop("b")
    assert words.write_count == 1
    await words.table.replace({"b": {"n": 2}})
    assert (words.write_count, words.on_disk["words"]) == (2, {"b": {"n": 2}})
    await words.table.drop("b")
    assert (words.write_count, words.on_disk["words"]) == (3, {})


async def test_what_stands_beside_the_rows_is_found_set_and_kept(words: Words) -> None:
    table = words.read(beside={"x": {"y": 1}}, number=5)
    assert table.other_rows("beside") == {"x": {"y": 1}}
    assert table.other_rows("number") == {}
    table.keep("ours", {"z": 2})
    await table.put("a", {})
    assert words.on_disk.keys() == {"beside", "dataVersion", "number", "ours", "words"}
    assert (words.on_disk["beside"], words.on_disk["ours"]) == ({"x": {"y": 1}}, {"z": 2})


async def test_a_row_that_comes_again_is_written_as_it_is_now(words: Words) -> None:
    await words.table.put("a", {"n": 1})
    await words.table.put("b", {"n": 2})
    await words.table.drop("a")
    await words.table.put("a", {"n": 3})
    assert words.on_disk["words"] == {"a": {"n": 3}, "b": {"n": 2}}


def test_rows_that_are_none_are_an_error_but_for_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(TableUnreadable, match=r"words\.json"):
        Words(tmp_path).read(words=[1])
    assert not caplog.records
    assert Words(tmp_path, is_counted=True).read(words=[1]).rows == {}
    (record,) = caplog.records
    assert (record.message, record.path) == (  # type: ignore[attr-defined]
        "table.counted", str(tmp_path / "config" / "words.json")
    )  # fmt: skip
    assert Words(tmp_path, is_counted=True).read(words={"a": {}}).rows == {"a": {}}


# -- who is told -----------------------------------------------------------------------------------


async def test_with_nothing_to_write_one_is_told_at_once(words: Words) -> None:
    words.table.when_saved(words.told.append)
    assert words.told == [None]
    await words.table.put("a", {})
    words.table.when_saved(words.told.append)
    assert words.told == [None, None]
    assert words.write_count == 1


async def test_one_is_told_once_the_change_is_durable(words: Words) -> None:
    with words.disk.held():
        words.table.touch()
        words.table.when_saved(words.told.append)
        await until(lambda: bool(words.disk.synced))
        words.table.touch()
        words.table.when_saved(words.told.append)
        await turns()
        assert words.told == []
    await until(lambda: len(words.told) == 2)
    assert words.told == [None, None]
    assert words.write_count == 2, "what changed during a write is in the next one"


async def test_a_change_nobody_waits_for_is_not_written_behind_another(words: Words) -> None:
    with words.disk.held():
        words.table.touch()
        words.table.when_saved(words.told.append)
        await until(lambda: bool(words.disk.synced))
        words.table.touch()
    await until(lambda: bool(words.told))
    await turns()
    words.pool.shutdown()
    assert words.write_count == 1


async def test_one_is_told_of_an_error_and_the_next_write_has_all(words: Words) -> None:
    words.disk.full_below = words.path.parent
    words.table.rows["a"] = {"n": 1}
    words.table.touch()
    words.table.when_saved(words.told.append)
    await until(lambda: bool(words.told))
    assert isinstance(words.told[0], DiskFull)
    words.disk.full_below = None
    words.table.save_soon()
    await words.table.saved()
    assert words.on_disk["words"] == {"a": {"n": 1}}


async def test_one_write_is_under_way_at_a_time() -> None:
    """And work that has nothing left for a thread is done when it was begun."""
    begun: list[int] = []
    works: list[Work | None] = [None, lambda: None, lambda: None]

    def begin() -> Work | None:
        begun.append(len(begun))
        return works[begun[-1]]

    with ThreadPoolExecutor(1) as pool:
        saving = Saving(pool, begin)
        saving.save_soon()
        assert begun == []
        saving.touch()
        saving.save_soon()
        saving.save_soon()
        assert begun == [0]
        await saving.saved()
        saving.touch()
        saving.save_soon()
        saving.touch()
        saving.save_soon()
        assert begun == [0, 1]
        await asyncio.wait_for(saving.saved(), 5)
        assert begun == [0, 1, 2]
