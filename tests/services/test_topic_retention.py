"""Retention of single topics: what can be read after a round at a time."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.model.topic import RETENTION_BYTES_ATTRIBUTE, RETENTION_MS_ATTRIBUTE
from pocketmq.services.topic_retention import TopicRetention
from tests.kit.store_language import TalkingStore, queue_bodies, store_at
from tests.sim.clock import FakeClock

MINUTE_MS = 60_000


class Desk:
    """Topic `logs` of two queues, and `orders` without a limit."""

    def __init__(self, talking: TalkingStore, clock: FakeClock) -> None:
        self.talking, self.clock = talking, clock
        self.store = talking.store
        self.retention = TopicRetention(talking.store)

    async def limit(self, **attributes: int) -> None:
        """Sets the limits of `logs`: ms, bytes."""
        names = {"ms": RETENTION_MS_ATTRIBUTE, "bytes": RETENTION_BYTES_ATTRIBUTE}
        given = {names[name]: str(value) for name, value in attributes.items()}
        await self.store.tables.topics.update("logs", attributes=given)

    async def send(self, *bodies: str, queue_id: int = 0, topic: str = "logs") -> int:
        """Stores messages, a minute after those before; returns the bytes of each."""
        self.clock.advance(MINUTE_MS)
        before = self.store.appended
        await self.talking.send(topic, *bodies, queue_id=queue_id)
        await self.talking.settled()
        return (self.store.appended - before) // len(bodies)

    async def expire(self) -> list[str]:
        """Runs a round now; returns what can be read of `logs`."""
        await self.retention.expire(self.clock.wall_ms())
        return self.left

    @property
    def left(self) -> list[str]:
        return [*queue_bodies(self.store, "logs"), *queue_bodies(self.store, "logs", 1)]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    clock = FakeClock()
    async with store_at(tmp_path / "s", clock=clock) as talking:
        for topic in ("logs", "orders"):
            await talking.store.tables.topics.create(topic, queue_count=2)
        yield Desk(talking, clock)


async def test_older_messages_cannot_be_read(desk: Desk) -> None:
    await desk.send("a", "b")
    await desk.send("c", queue_id=1)
    await desk.send("d")
    await desk.limit(ms=2 * MINUTE_MS)
    assert await desk.expire() == ["a", "b", "d", "c"]
    desk.clock.advance(1)
    assert await desk.expire() == ["d", "c"]
    desk.clock.advance(MINUTE_MS)
    assert await desk.expire() == ["d"]
    desk.clock.advance(MINUTE_MS)
    assert await desk.expire() == []
    await desk.send("e")
    assert await desk.expire() == ["e"]


async def test_the_newest_bytes_of_a_topic_can_be_read(desk: Desk) -> None:
    size = await desk.send("a")
    await desk.send("b", queue_id=1)
    await desk.send("c", "d")
    await desk.limit(bytes=3 * size)
    assert await desk.expire() == ["c", "d", "b"]
    await desk.send("e", queue_id=1)
    assert await desk.expire() == ["c", "d", "e"]
    await desk.send("f", queue_id=1)
    assert await desk.expire() == ["d", "e", "f"]
    await desk.limit(bytes=size - 1)
    assert await desk.expire() == []


async def test_sizes_are_counted_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    size = await desk.send(*"abcdefgh")
    await desk.limit(bytes=4 * size)
    assert await desk.expire() == list("efgh")
    reads: list[tuple[object, ...]] = []
    real = type(desk.store.reading).unit_places

    def counted(reading: object, *asked: object) -> object:
        reads.append(asked[2:])
        return real(desk.store.reading, *asked)  # type: ignore[arg-type]

    monkeypatch.setattr(type(desk.store.reading), "unit_places", counted)
    assert await desk.expire() == list("efgh")
    await desk.send("i")
    assert await desk.expire() == list("fghi")
    assert reads == [(8, 1)]


async def test_both_limits_and_a_purge_go_together(desk: Desk) -> None:
    size = await desk.send("a", "b", "c", "d")
    await desk.send("e")
    await desk.limit(bytes=4 * size, ms=3 * MINUTE_MS)
    assert await desk.expire() == ["b", "c", "d", "e"]
    await desk.store.purge({("logs", 0): 3})
    await desk.send("f")
    assert await desk.expire() == ["d", "e", "f"]
    desk.clock.advance(2 * MINUTE_MS)
    assert await desk.expire() == ["e", "f"]
    await desk.send("g", "h")
    assert await desk.expire() == ["f", "g", "h"]


async def test_a_topic_without_a_limit_keeps_everything(desk: Desk) -> None:
    await desk.send("a", topic="orders")
    await desk.send("b")
    await desk.limit(ms=1_000, bytes=1)
    desk.clock.advance(99 * MINUTE_MS)
    assert await desk.expire() == []
    assert queue_bodies(desk.store, "orders") == ["a"]


async def test_a_limit_that_is_removed_brings_nothing_back(desk: Desk) -> None:
    await desk.send("a")
    await desk.limit(bytes=1)
    assert await desk.expire() == []
    await desk.limit()
    await desk.send("b")
    assert await desk.expire() == ["b"]


@pytest.mark.parametrize("value", ["0", "-1", "999", "soon", "", "9" * 19])
async def test_a_limit_that_another_program_wrote_wrong_is_none(desk: Desk, value: str) -> None:
    await desk.send("a")
    desk.clock.advance(999 * MINUTE_MS)
    await desk.store.tables.topics.update("logs", attributes={RETENTION_MS_ATTRIBUTE: value})
    assert await desk.expire() == ["a"]


async def test_a_topic_made_again_is_counted_anew(desk: Desk) -> None:
    size = await desk.send("a", "b")
    await desk.limit(bytes=2 * size)
    assert await desk.expire() == ["a", "b"]
    await desk.store.remove_topic("logs")
    await desk.send("c", "d", "e")
    assert await desk.expire() == ["d", "e"]


async def test_what_expired_stays_so_after_a_start(tmp_path: Path) -> None:
    clock = FakeClock()
    async with store_at(tmp_path / "s", clock=clock) as talking:
        await talking.store.tables.topics.create("logs", queue_count=1)
        desk = Desk(talking, clock)
        await desk.send("a")
        await desk.send("b")
        await desk.limit(ms=MINUTE_MS)
        desk.clock.advance(1)
        assert await desk.expire() == ["b"]
    shutil.rmtree(tmp_path / "s" / "consumequeue")
    async with store_at(tmp_path / "s", clock=clock) as talking:
        assert queue_bodies(talking.store, "logs") == ["b"]
