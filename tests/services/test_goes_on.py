"""A store that a real RocketMQ left in the middle of everything goes on under ours."""

from collections.abc import AsyncIterator
from inspect import isawaitable
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.filter.tag import EVERYTHING
from pocketmq.format.addresses import parse_offset_message_id
from pocketmq.format.record import decode_record
from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import ReadRange
from pocketmq.model.step import Next, Now
from pocketmq.services.admin.positions import list_offsets
from pocketmq.services.consume.consume import Consume
from pocketmq.services.consume.journal import ConsumeSettings
from pocketmq.services.delay.levels import Schedule
from pocketmq.store.job import Job
from pocketmq.store.read.cold_read import value_of
from tests.golden_stores import GoldenStores
from tests.kit.origins import origin_of
from tests.kit.store_language import STORE_HOST, TalkingStore, store_at
from tests.sim.clock import FakeClock

CLUSTER, BROKER = "GoldCluster", "gold-public"
STOPPED_MS = 1_795_221_493_564
"""When the real broker wrote its last table."""


class Taken:
    """The store of the real broker, open under ours."""

    def __init__(self, talking: TalkingStore) -> None:
        self.talking, self.store, self.clock = talking, talking.store, talking.clock
        settings = ConsumeSettings(CLUSTER, BROKER, STORE_HOST)
        self.consume = Consume(self.store, settings)
        self.schedule = Schedule(self.store, STORE_HOST)

    async def receive(self, group: str, topic: str) -> Received:
        """Receives up to 32 messages without a wait."""
        asked = ReceiveRequest(group, topic, EVERYTHING, 32, 30_000, 0)
        found = self.consume.receive(asked)
        received: Received = await found if isawaitable(found) else found
        return received

    async def pass_time(self, ms: int) -> None:
        """Advances the clock and runs everything that is due."""
        self.clock.advance(ms)
        for step in (self.consume.step, self.schedule.step):
            while True:
                now = Now(self.clock.monotonic, self.clock.wall)
                following: Next = step(now)
                if isinstance(following.mark, Job):
                    await following.mark.reached()
                elif following.at_ms is None or following.at_ms > now.monotonic_ms:
                    break
        await self.store.flush()
        await self.talking.settled()

    async def messages(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        """Returns all messages of a queue."""
        wanted = ReadRange(topic, queue_id, 0, 1024, 1 << 24)
        return list(map(decode_record, (await self.store.reading.pull_cold(wanted)).records))


@pytest.fixture
async def taken(golden: GoldenStores, tmp_path: Path) -> AsyncIterator[Taken]:
    """The golden store with retries, dead letters, leases and delays, just after it was left."""
    shape = {k: v for k, v in golden.shape("semantics").items() if k != "index_style"}
    directory, clock = golden.copy("semantics", tmp_path / "s"), FakeClock(STOPPED_MS)
    async with store_at(directory, clock=clock, disk=Disk(), **shape) as talking:
        opened = Taken(talking)
        await opened.consume.recover()
        yield opened
        opened.consume.drain()
        await opened.consume.close()
        await opened.schedule.close()


async def test_retries_are_received_with_the_right_attempt(taken: Taken) -> None:
    waiting = await taken.messages("%RETRY%retry-group")
    assert len(waiting) == 16
    received = await taken.receive("retry-group", "RetryT")
    found = [decode_record(record) for record in received.records]
    assert {m.unique_key for m in found} == {m.unique_key for m in waiting}
    assert set(received.attempts) == {2}
    settled = await taken.consume.ack("retry-group", "RetryT", received.handles)
    assert {entry.status.name for entry in settled} == {"OK"}
    assert not (await taken.receive("retry-group", "RetryT")).records


async def test_dead_letters_lead_to_the_messages_they_were(taken: Taken) -> None:
    letters = await taken.messages("%DLQ%retry-group")
    assert len(letters) == 4
    for letter in letters:
        origin = origin_of(letter.properties)
        assert origin is not None
        topic, message_id = origin
        place = parse_offset_message_id(message_id)
        assert place is not None
        message = await value_of(taken.store.reading.message_at(place[1]))
        assert message is not None
        assert (message.topic, message.body) == (topic, letter.body)
        assert message.unique_key == letter.unique_key


async def test_leases_end_and_messages_come_again_and_then_never(taken: Taken) -> None:
    assert taken.consume.in_flight() == {("pop-group", "PopT"): 8}
    first = await taken.receive("pop-group", "PopT")
    assert len(first.records) == 22
    await taken.consume.ack("pop-group", "PopT", first.handles)
    await taken.pass_time(10 * 60_000)
    second = await taken.receive("pop-group", "PopT")
    assert len(second.records) == 8
    assert set(first.attempts) | set(second.attempts) == {2}
    bodies = {decode_record(record).unique_key for record in first.records + second.records}
    assert len(bodies) == 30
    await taken.pass_time(31_000)
    third = await taken.receive("pop-group", "PopT")
    assert set(third.attempts) == {3}
    assert len(third.records) == 8
    await taken.pass_time(31_000)
    last = await taken.receive("pop-group", "PopT")
    assert set(last.attempts) == {4}
    await taken.pass_time(31_000)
    assert not (await taken.receive("pop-group", "PopT")).records
    letters = await taken.messages("%DLQ%pop-group")
    assert {m.unique_key for m in letters} == {decode_record(r).unique_key for r in last.records}
    origins = {origin_of(letter.properties) for letter in letters}
    assert {origin[0] for origin in origins if origin} == {"PopT"}


async def test_groups_stand_where_they_stood(taken: Taken) -> None:
    stood = {
        (place.topic, place.queue_id): place.queue_offset
        for group in ("retry-group", "pop-group", "order-group")
        for place in list_offsets(taken.store, group)
    }
    assert stood == {
        ("RetryT", 0): 47, ("RetryT", 1): 13,
        ("PopT", 0): 30, ("PopT", 1): 11, ("PopT", 2): 19,
        ("%RETRY%pop-group_PopT", 0): 0,
        **{("OrderT", queue_id): 12 for queue_id in range(5)},
    }  # fmt: skip
