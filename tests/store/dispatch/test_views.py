"""Steps of dispatch: their pauses, and what they leave to more urgent work."""

from pathlib import Path

import pytest

from pocketmq.model.step import Now
from pocketmq.store.dispatch import views
from pocketmq.store.dispatch.column_dispatch import BYTES_MAX
from pocketmq.store.runner import Pause
from tests.kit.two_stores import TwoStores, two_stores

NOW = Now(1, 1)


async def copied(pair: TwoStores) -> None:
    """Copies a log of three chunks, of which nothing is visible yet."""
    while pair.leader.store.appended < 2.5 * BYTES_MAX:
        await pair.leader.send("orders", *["x" * 60_000] * 8)
    await pair.copy()
    await pair.follower.store.writing.durability.drain()
    pair.follower.store.views.dispatch(NOW)


@pytest.mark.parametrize("limit", [1 << 30, 2 * BYTES_MAX])
async def test_deferred_dispatch_goes_on_in_small_steps_until_much_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(views, "DEFERRED_BYTES_MAX", limit)
    monkeypatch.setattr(views, "TURN_SECONDS", 60)
    async with two_stores(tmp_path, commit_log_file_size_bytes=1 << 22) as pair:
        await copied(pair)
        store = pair.follower.store
        store.views.is_deferred = lambda: True
        store.marks.replicate(pair.leader.store.appended, 1)
        following = store.views.dispatch(NOW)
        if limit == 1 << 30:
            assert 0 < store.dispatched < 2 * BYTES_MAX
            assert isinstance(following.mark, Pause)
            assert store.views.dispatch(NOW).mark is not None
            assert store.dispatched < 2 * BYTES_MAX, "the pause was not kept"
        else:
            assert store.dispatched == store.appended
        await pair.show()


async def test_a_copied_log_is_dispatched_in_long_strides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "COPY_SECONDS", 3_600)
    monkeypatch.setattr(views, "PAUSE_SECONDS", 0)
    async with two_stores(tmp_path) as pair:
        store = pair.follower.store
        store.views.is_copy = True
        await pair.leader.send("orders", "first")
        await pair.copy()
        await pair.show()
        await pair.leader.send("orders", "second")
        await pair.copy()
        store.marks.replicate(pair.leader.store.appended, 1)
        await store.writing.durability.drain()
        assert isinstance(store.views.dispatch(NOW).mark, Pause)
        assert store.dispatched < store.appended


async def test_a_copied_log_is_dispatched_in_turn_with_its_syncs_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "TURN_SECONDS", 60)
    async with two_stores(tmp_path, commit_log_file_size_bytes=1 << 22) as pair:
        await copied(pair)
        store = pair.follower.store
        store.views.is_copy = True
        store.marks.replicate(pair.leader.store.appended, 1)
        following = store.views.dispatch(NOW)
        assert isinstance(following.mark, Pause)
        assert 0 < store.dispatched < 2 * BYTES_MAX, "more than a chunk delays a report"
        await pair.show()


@pytest.mark.parametrize("most_seconds", [1e9, -1.0])
async def test_dispatch_of_a_copied_log_leaves_a_sync_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_seconds: float
) -> None:
    async with two_stores(tmp_path) as pair:
        store = pair.follower.store
        store.views.is_copy = True
        await pair.leader.send("orders", "first")
        await pair.copy()
        assert store.flushed < store.appended
        store.marks.replicate(pair.leader.store.appended, 1)
        with monkeypatch.context() as changed:
            changed.setattr(store.marks, "_visible", store.marks.committed)
            changed.setattr(views, "COPY_BULK_SECONDS", most_seconds)
            store.views.dispatch(NOW)
        assert (store.dispatched == store.appended) == (most_seconds < 0)
        await store.writing.durability.drain()
        await pair.show()
