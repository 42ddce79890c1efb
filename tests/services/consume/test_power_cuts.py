"""Power cuts while messages are received and settled: none is lost, none that was settled returns.

What is promised depends on the flush mode. sync: a message whose ack was answered never comes
again. async: what a cut leaves in the log comes, unless its ack is left too. In both every message
that is left and not acknowledged comes.
"""

from pathlib import Path
from random import Random

import pytest

from broker.model.consuming import Received
from broker.store.settings import FLUSH_ASYNC, FLUSH_SYNC
from tests.fakes.consuming import GROUP, TOPIC, ConsumeDesk, bodies, consuming
from tests.fakes.disk import SimDisk

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
        """Make one call."""
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
    """Receive and acknowledge until nothing comes any more."""
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


@pytest.mark.parametrize("seed", range(12))
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


@pytest.mark.parametrize("seed", range(12))
async def test_a_kill_loses_and_repeats_nothing(seed: int, tmp_path: Path) -> None:
    """What a process wrote stays when it is killed, flushed or not."""
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
