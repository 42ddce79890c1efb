"""Durable tables: a change is on disk when `saved` returns, and many changes share a write."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pocketmq.files.table_file import TableFile
from pocketmq.model.errors import DiskFull, NotReplicated
from pocketmq.store.tables.durable_table import DurableTable, Saving
from tests.kit.store_language import until
from tests.sim.quick_disk import QuickDisk


class Table:
    """A table whose content is its words."""

    def __init__(self, path: Path) -> None:
        self.path, self.disk = path, QuickDisk()
        self.words: list[str] = []
        self.pool = ThreadPoolExecutor(1)
        self.durable = DurableTable(TableFile(self.disk, path), self.pool, self.content)

    def content(self) -> Callable[[], bytes]:
        words = [*self.words]
        return lambda: " ".join(words).encode()

    async def add(self, word: str) -> None:
        """Changes the table; returns when that is durable."""
        self.words.append(word)
        self.durable.touch()
        await self.durable.saved()

    @property
    def on_disk(self) -> list[str]:
        return self.path.read_text().split()

    @property
    def write_count(self) -> int:
        return len(self.disk.calls["write_file"])


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    made = Table(tmp_path / "table.json")
    yield made
    made.pool.shutdown()


async def test_a_change_is_durable_when_saved_returns(table: Table) -> None:
    await table.add("a")
    assert table.on_disk == ["a"]
    await table.add("b")
    assert table.on_disk == ["a", "b"]
    assert table.path.with_name("table.json.bak").read_text() == "a"


async def test_nothing_changed_writes_nothing(table: Table) -> None:
    await table.durable.saved()
    await table.add("a")
    await table.durable.saved()
    assert table.write_count == 1


async def test_changes_during_a_write_share_the_next_one(table: Table) -> None:
    async with asyncio.TaskGroup() as tasks:
        with table.disk.held():
            tasks.create_task(table.add("first"))
            await until(lambda: bool(table.disk.synced))
            for number in range(50):
                tasks.create_task(table.add(str(number)))
            await asyncio.sleep(0)
            assert table.write_count == 1
    assert table.write_count == 2
    assert table.on_disk == ["first", *map(str, range(50))]


async def test_a_full_disk_is_told_and_the_next_save_writes_all(table: Table) -> None:
    await table.add("a")
    table.disk.full_below = table.path.parent
    with pytest.raises(DiskFull):
        await table.add("b")
    assert table.on_disk == ["a"]
    table.disk.full_below = None
    await table.durable.saved()
    assert table.on_disk == ["a", "b"]


async def test_a_caller_may_give_up_and_the_change_is_written(table: Table) -> None:
    with table.disk.held():
        saving = asyncio.create_task(table.add("a"))
        await until(lambda: bool(table.disk.synced))
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
    await table.durable.saved()
    assert table.on_disk == ["a"]


async def test_a_change_is_stored_although_an_earlier_one_was_not_replicated() -> None:
    words, written, may_write = ["first"], list[list[str]](), threading.Event()

    def begin() -> Callable[[], None]:
        taken = [*words]

        def work() -> None:
            assert may_write.wait(10)
            written.append(taken)

        return work

    lacking = NotReplicated(path="table.json", count=0, limit=1)
    with ThreadPoolExecutor(1) as pool:
        saving = Saving(pool, begin, lambda then: then(lacking))
        saves = []
        for word in ("second", "third"):
            saving.touch()
            saves.append(asyncio.create_task(saving.saved()))
            await asyncio.sleep(0)
            words.append(word)
        may_write.set()
        for save in saves:
            with pytest.raises(NotReplicated, match="is stored here"):
                await save
        await until(lambda: len(written) == len(saves))
    assert written[0] == ["first"]
    assert "second" in written[1]
