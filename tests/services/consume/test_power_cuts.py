"""Power cuts while messages are received and settled: none is lost, none that was settled returns.

What is promised depends on the flush mode. sync: a message whose ack was answered never comes
again. async: what a cut leaves in the log comes, unless its ack is left too. In both every message
that is left and not acknowledged comes.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import Received
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.services.admin.redrive import Redrive
from pocketmq.store.settings import FLUSH_ASYNC, FLUSH_SYNC
from tests.kit.consuming import GROUP, TOPIC, ConsumeDesk, bodies, consuming
from tests.kit.store_language import STORE_HOST
from tests.sim.disk import SimDisk

STORE = Path("/store")
LEASE_MS = 30_000
OPS = 40


class Story:
    """Random calls, and what they were told."""

    def __init__(self, desk: ConsumeDesk, random: Random) -> None:
        self.desk = desk
        self.random = random
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()
        self.in_hand: list[tuple[str, str]] = []

    async def go_on(self) -> None:
        """Makes one call."""
        desk, random = self.desk, self.random
        kind = random.choices(
            ["send", "receive", "ack", "hide", "step", "late"], [6, 6, 6, 2, 3, 1]
        )[0]
        if kind == "send":
            body = f"m{len(self.sent)}"
            await desk.talking.send(TOPIC, body, queue_id=random.randrange(2))
            self.sent.add(body)
            await desk.talking.settled()
        elif kind == "receive":
            got = await desk.receive(max_messages=random.randint(1, 4), invisible_ms=LEASE_MS)
            self.in_hand += zip(bodies(got), got.handles, strict=True)
        elif kind in ("ack", "hide") and self.in_hand:
            body, handle = self.in_hand.pop(random.randrange(len(self.in_hand)))
            if kind == "ack":
                (settled,) = await desk.consume.ack(GROUP, TOPIC, [handle])
                if settled.status.name == "OK":
                    self.acknowledged.add(body)
            else:
                entries = [(handle, random.choice([0, 5_000, 60_000]))]
                (settled,) = await desk.consume.change_invisible(GROUP, TOPIC, entries)
                self.in_hand.append((body, settled.handle))
        elif kind == "step":
            await desk.step(1_000)
        elif kind == "late":
            await desk.step(LEASE_MS)


async def all_received(desk: ConsumeDesk) -> list[str]:
    """Receives and acknowledge until nothing comes any more."""
    got: list[str] = []
    for _ in range(20):
        await desk.step(61_000)
        received: Received = await desk.receive()
        while received.records:
            got += bodies(received)
            await desk.ack(received)
            received = await desk.receive()
    assert desk.in_flight == 0
    return got


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("flush", [FLUSH_SYNC, FLUSH_ASYNC])
async def test_a_power_cut_loses_no_message(seed: int, flush: str) -> None:
    random, disk = Random(seed), SimDisk()
    async with consuming(STORE, disk=disk, flush=flush) as desk:
        story = Story(desk, random)
        for _ in range(random.randint(5, OPS)):
            await story.go_on()
        if random.random() < 0.5:
            await desk.store.tables.offsets.saved()
        image = disk.image.cut(random)
        clock = desk.clock
    async with consuming(STORE, disk=SimDisk(image), flush=flush, clock=clock) as later:
        left = {body for i in (0, 1) for body in await later.talking.pulled(TOPIC, i)}
        got = await all_received(later)
        assert set(got) >= left - story.acknowledged
        if flush == FLUSH_SYNC:
            assert left == story.sent
            assert not set(got) & story.acknowledged


@pytest.mark.parametrize("seed", range(6))
async def test_a_kill_loses_and_repeats_nothing(seed: int, tmp_path: Path) -> None:
    """Bytes that a process wrote survive its kill, flushed or not."""
    random = Random(seed)
    async with consuming(tmp_path / "store", flush=FLUSH_ASYNC) as desk:
        story = Story(desk, random)
        for _ in range(random.randint(5, OPS)):
            await story.go_on()
        image = desk.talking.killed(tmp_path / "image")
        clock = desk.clock
    async with consuming(image, flush=FLUSH_ASYNC, clock=clock) as later:
        got = await all_received(later)
        assert set(got) == story.sent - story.acknowledged
        assert len(got) == len(set(got))


async def _sent_back(desk: ConsumeDesk, got: Received) -> None:
    await desk.consume.send_back(GROUP, TOPIC, [(handle, 1) for handle in got.handles])


async def _forwarded(desk: ConsumeDesk, got: Received) -> None:
    await desk.consume.forward_to_dead_letters(GROUP, TOPIC, got.handles)


async def _buried(desk: ConsumeDesk, got: Received) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(max_attempts=1))
    await desk.step(LEASE_MS)
    assert bodies(await desk.receive()) == []


async def _out_of_order(desk: ConsumeDesk, got: Received) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=False))
    assert bodies(await desk.receive()) == []


@pytest.mark.parametrize("move", [_sent_back, _forwarded, _buried, _out_of_order])
async def test_what_was_in_order_and_is_moved_is_not_lost_where_no_flush_is_waited_for(
    move: Callable[[ConsumeDesk, Received], Awaitable[None]],
) -> None:
    """The log tells of where it went, another file that it is settled: that comes later."""
    disk = SimDisk()
    async with consuming(STORE, disk=disk, flush=FLUSH_ASYNC) as desk:
        await desk.send("before")
        await desk.ack(await desk.receive())
        await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
        await desk.send("a", "b")
        assert await desk.store.writing.durable()
        await move(desk, await desk.receive(invisible_ms=LEASE_MS))
        await desk.store.tables.orders.folded()
        await desk.store.tables.offsets.saved()
        images = [disk.image.cut(Random(seed)) for seed in range(20)]
        clock = desk.clock
    for image in images:
        async with consuming(STORE, disk=SimDisk(image), flush=FLUSH_ASYNC, clock=clock) as later:
            await later.step(LEASE_MS)
            got = await all_received(later)
            for topic in (f"%DLQ%{GROUP}", SCHEDULE_TOPIC):
                got += await later.talking.pulled(topic)
            assert {"a", "b"} <= {*got}


async def test_dead_letters_sent_again_are_not_lost_where_no_flush_is_waited_for() -> None:
    """The offset that passes them is another file's."""
    disk = SimDisk()
    async with consuming(STORE, disk=disk, flush=FLUSH_ASYNC) as desk:
        await desk.send("a")
        await _forwarded(desk, await desk.receive())
        assert await desk.store.writing.durable()
        await desk.settled()
        sent = await Redrive(desk.store, STORE_HOST).redrive(GROUP)
        assert len(sent) == 1
        await desk.store.tables.offsets.saved()
        images = [disk.image.cut(Random(seed)) for seed in range(20)]
        clock = desk.clock
    for image in images:
        async with consuming(STORE, disk=SimDisk(image), flush=FLUSH_ASYNC, clock=clock) as later:
            at = later.store.tables.offsets.find(GROUP, f"%DLQ%{GROUP}", 0) or 0
            assert at == 0 or await later.talking.pulled(TOPIC) == ["a", "a"]
