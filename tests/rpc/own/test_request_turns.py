"""Requests of streams are read one in a turn of the loop, those of one user after another's."""

import asyncio

from pocketmq.rpc.own.server_state import ServerState
from pocketmq.rpc.serving import Serving, Turns
from tests.sim.loop import SeededLoop, run_seeded

HANDLED_MS = 10


class Streams:
    """Streams whose requests take 10 ms each to handle."""

    def __init__(self, loop: SeededLoop) -> None:
        serving = Serving([])
        serving.turns = Turns(loop.clock)
        self.edge = ServerState(loop, serving)
        self.loop = loop
        self.handled: list[tuple[str, int, int]] = []

    async def handle(self, user: str, count: int) -> None:
        for _ in range(count):
            await self.edge.request_turn(user)
            clock = self.loop.clock
            self.handled.append((user, self.loop.turns, clock.monotonic_ms()))
            clock.advance(HANDLED_MS)


def test_one_who_sends_requests_without_pause_leaves_the_loop_to_others() -> None:
    async def story(loop: SeededLoop) -> None:
        streams = Streams(loop)
        churning = [asyncio.ensure_future(streams.handle("greedy", 50)) for _ in range(16)]
        await loop.pause(0.3)
        before = len(streams.handled)
        await streams.handle("good", 1)
        assert len(streams.handled) - before <= 2, "one of the other user's at most"
        times = [at_ms for _, _, at_ms in streams.handled]
        assert times[-1] - times[0] >= (len(times) - 1) * 2 * HANDLED_MS
        assert len({turn for _, turn, _ in streams.handled}) == len(times)
        for one in churning:
            one.cancel()

    run_seeded(0, story)


def test_as_a_broker_drains_requests_are_read_one_in_a_turn_of_the_loop() -> None:
    async def story(loop: SeededLoop) -> None:
        streams = Streams(loop)
        waiting = [asyncio.ensure_future(streams.handle("greedy", 2)) for _ in range(16)]
        await loop.pause(0.1)
        streams.edge.serving.turns.drain()
        await asyncio.gather(*waiting)
        assert len({turn for _, turn, _ in streams.handled}) == 32

    run_seeded(0, story)
