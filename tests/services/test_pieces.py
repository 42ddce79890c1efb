"""Work that grows with topics and groups pauses after each piece of it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pocketmq.services.admin.lag import all_lags, committed_offsets, lag_sums
from pocketmq.services.admin.status import Process, store_status
from pocketmq.services.topic_retention import TopicRetention
from pocketmq.store.message_store import MessageStore
from pocketmq.store.pieces import PIECE, in_pieces
from tests.kit.store_language import store_at

COUNT = 2 * PIECE + 1
NAMES = [f"t{number:05}" for number in range(COUNT)]


def pauses(work: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
    """Runs work that waits for nothing; returns the number of its pauses, and its result."""
    count = 0
    while True:
        try:
            assert work.send(None) is None, "it waits"
        except StopIteration as end:
            return count, end.value
        count += 1


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MessageStore]:
    async with store_at(tmp_path) as talking:
        for name in NAMES:
            talking.store.tables.topics.adopt(name, 2)
        yield talking.store


async def test_a_list_is_cut_into_pieces() -> None:
    assert [[*piece] async for piece in in_pieces([1, 2, 3, 4, 5], 2)] == [[1, 2], [3, 4], [5]]
    assert [piece async for piece in in_pieces(list[int]())] == []


async def test_the_status_of_a_store_pauses_between_topics(store: MessageStore) -> None:
    count, status = pauses(store_status(store, Process()))
    assert (status.topic_count, status.queue_count) == (COUNT, 2 * COUNT)
    assert count == COUNT // PIECE


async def test_a_status_counts_no_topic_that_is_deleted_meanwhile(store: MessageStore) -> None:
    work = store_status(store, Process())
    assert work.send(None) is None
    await store.tables.topics.remove(NAMES[-1])
    assert pauses(work)[1].queue_count == 2 * COUNT - 2


async def test_retention_of_topics_pauses_between_topics(store: MessageStore) -> None:
    assert pauses(TopicRetention(store).expire(0))[0] == COUNT // PIECE


async def test_lags_pause_between_rows_and_are_of_one_moment(store: MessageStore) -> None:
    await store.tables.groups.ensure("readers")
    offsets = store.tables.offsets
    await asyncio.gather(*(offsets.commit("readers", name, 0, 7) for name in NAMES))
    work = committed_offsets(store)
    assert work.send(None) is None
    await offsets.commit("readers", NAMES[-1], 0, 8)
    count, found = pauses(work)
    assert count == COUNT // PIECE - 1
    assert found["readers"] == {name: {0: 7} for name in NAMES}
    assert pauses(committed_offsets(store, ["others"])) == (COUNT // PIECE, {"others": {}})
    sums = await lag_sums(store, ["readers", "others"])
    assert sums["readers"].committed_sum == 7 * COUNT + 1
    assert sums["others"].committed_sum == 0
    page = await all_lags(store, page_size=2)
    assert [one.topic for one in page.items] == NAMES[:2]
