"""Garbage collections visit few queues and topics, as new ones are excluded soon."""

import asyncio
from pathlib import Path

from pocketmq.app.long_lived import GROWTH, LongLived, long_lived_of
from pocketmq.services.admin.topics import create_topic
from tests.kit.store_language import store_at
from tests.sim.clock import at


class Counted:
    """A store of a given size, and its exclusions."""

    def __init__(self) -> None:
        self.count = 0
        self.excluded: list[int] = []
        self.long_lived = LongLived(lambda: self.count, lambda: self.excluded.append(self.count))

    def grow(self, count: int) -> None:
        self.count += count
        self.long_lived.step(at(0))


def test_growth_is_excluded_in_steps() -> None:
    store = Counted()
    store.grow(GROWTH - 1)
    assert store.excluded == []
    store.grow(1)
    store.grow(0)
    store.grow(GROWTH - 1)
    assert store.excluded == [GROWTH]
    store.grow(1)
    assert store.excluded == [GROWTH, 2 * GROWTH]


def test_new_ones_count_after_others_were_deleted() -> None:
    store = Counted()
    store.grow(2 * GROWTH)
    store.grow(-2 * GROWTH)
    assert store.excluded == [2 * GROWTH]
    store.grow(GROWTH)
    assert store.excluded == [2 * GROWTH, GROWTH]


async def test_topics_groups_and_queues_of_a_store_count(tmp_path: Path) -> None:
    excluded: list[str] = []
    async with store_at(tmp_path) as talking:
        store = talking.store
        long_lived = long_lived_of(store, lambda: excluded.append("all"))
        names = [f"t{number}" for number in range(GROWTH - 2)]
        await asyncio.gather(*(create_topic(store, name, queue_count=1) for name in names))
        await store.tables.groups.ensure("readers")
        long_lived.step(at(0))
        assert not excluded
        await talking.send("t0", "a")
        await talking.settled()
        long_lived.step(at(0))
        assert excluded
