"""The loops of an open store: what fails in one ends it, and time makes them do their work."""

from pathlib import Path

import pytest

from broker.format.names import RESERVE_FILE
from broker.model.errors import FsyncFailed
from broker.store.writing.allocation import Allocation
from tests.fakes.store_language import store_at, until


async def test_the_reserve_stands_soon_after_a_start(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        reserve = store.directory / "pocketmq" / RESERVE_FILE
        assert reserve.stat().st_size == store.store.log.file_size_bytes


async def test_a_loop_that_ends_with_an_error_ends_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(allocation: Allocation, now_ms: int) -> int:
        raise ValueError(now_ms)

    monkeypatch.setattr(Allocation, "step", fail)
    async with store_at(tmp_path / "s") as store:
        await until(store.store.failure.done)
        assert store.store.state == "failed"


async def test_a_loss_anywhere_on_the_disk_ends_the_store(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        store.disk.lose(FsyncFailed(why="a table"))
        await until(store.store.failure.done)
        with pytest.raises(FsyncFailed, match="a table"):
            await store.store.failure
