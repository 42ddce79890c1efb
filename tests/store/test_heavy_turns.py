"""Heavy work of many users: one piece a turn of the loop, users one after the other."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from pocketmq.model.errors import Draining
from pocketmq.store.heavy_turns import SLACK_MS, HeavyTurns
from tests.kit.store_language import turns
from tests.sim.loop import SeededLoop, run_seeded

PIECE_MS = 10
SEEDS = pytest.mark.parametrize("seed", range(5))


class Desk:
    """Users with pieces of work that take 10 ms each, and when each was done."""

    def __init__(self, loop: SeededLoop) -> None:
        self.loop = loop
        self.clock = loop.clock
        self.turns = HeavyTurns(loop.clock)
        self.done: list[tuple[str, int, int]] = []
        """User, turn of the loop and time of each piece."""

    def piece(self, user: str, took_ms: int = PIECE_MS) -> str:
        self.done.append((user, self.loop.turns, self.clock.monotonic_ms()))
        self.clock.advance(took_ms)
        return user

    async def ask(self, user: str, took_ms: int = PIECE_MS) -> str:
        found = self.turns.run(user, lambda: self.piece(user, took_ms))
        answer: str = found if isinstance(found, str) else await found
        return answer

    async def go_on(self, user: str) -> None:
        await self.turns.turn(user)
        self.piece(user)

    def all_ask(self, user: str, count: int) -> list[asyncio.Task[str]]:
        return [asyncio.ensure_future(self.ask(user)) for _ in range(count)]

    @property
    def users(self) -> list[str]:
        return [user for user, _, _ in self.done]

    def check_shared(self) -> None:
        """Checks that no turn had two pieces, and that others had as much time as each took."""
        iterations = [turn for _, turn, _ in self.done]
        assert len({*iterations}) == len(iterations), "one piece in each turn of the loop"
        times = [at_ms for _, _, at_ms in self.done]
        gaps = [later - at for at, later in pairwise(times)]
        assert min(gaps) >= 2 * PIECE_MS - SLACK_MS


def told(story: Callable[[Desk], Awaitable[Any]], seed: int = 0) -> Desk:
    """Returns what a story did on a loop of its own."""

    async def tell(loop: SeededLoop) -> Desk:
        desk = Desk(loop)
        await story(desk)
        return desk

    return run_seeded(seed, tell)


@SEEDS
def test_waiting_work_is_done_one_piece_a_turn_with_as_much_time_for_others(seed: int) -> None:
    async def story(desk: Desk) -> None:
        await asyncio.gather(*desk.all_ask("greedy", 200))

    desk = told(story, seed)
    assert len(desk.done) == 200
    desk.check_shared()


@SEEDS
def test_coroutines_go_on_one_a_turn_with_as_much_time_for_others(seed: int) -> None:
    async def story(desk: Desk) -> None:
        await asyncio.gather(*[desk.go_on("greedy") for _ in range(50)])

    desk = told(story, seed)
    assert len(desk.done) == 50
    desk.check_shared()


@SEEDS
def test_a_user_waits_for_one_piece_of_each_other_however_much_waits(seed: int) -> None:
    async def story(desk: Desk) -> None:
        asked = desk.all_ask("greedy", 200)
        await desk.loop.pause(0.1)
        before = len(desk.done)
        assert await desk.ask("good") == "good"
        assert desk.users[before:].count("greedy") <= 1
        assert desk.turns.waiting_count > 150
        for one in asked:
            one.cancel()

    told(story, seed)


def test_users_take_turns_and_each_keeps_its_order() -> None:
    done: list[str] = []

    def note(desk: Desk, name: str) -> None:
        done.append(desk.piece(name))

    async def story(desk: Desk) -> None:
        await desk.ask("first")
        for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
            desk.turns.soon(name[0], name, partial(note, desk, name))
        await desk.loop.pause(1.0)

    told(story)
    assert done == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_little_work_is_done_at_once() -> None:
    async def story(desk: Desk) -> None:
        assert desk.turns.run("good", lambda: desk.piece("good", 1)) == "good"
        assert desk.turns.run("good", lambda: desk.piece("good", 1)) == "good"
        late = desk.turns.run("good", lambda: desk.piece("good", PIECE_MS))
        assert late == "good"
        assert await desk.turns.run("good", lambda: desk.piece("good", 1)) == "good"

    desk = told(story)
    at_ms = [at for _, _, at in desk.done]
    assert at_ms[3] - at_ms[2] >= 2 * PIECE_MS - SLACK_MS


@SEEDS
def test_who_gives_up_leaves_the_line(seed: int) -> None:
    async def story(desk: Desk) -> None:
        await desk.ask("first")
        asked = desk.all_ask("greedy", 20)
        going_on = [asyncio.ensure_future(desk.go_on("greedy")) for _ in range(20)]
        desk.turns.soon("greedy", "key", lambda: desk.piece("dropped"))
        await asyncio.sleep(0)
        assert desk.turns.waiting_count == 41
        desk.turns.drop("greedy", "key")
        for one in (*asked, *going_on):
            one.cancel()
        await asyncio.gather(*asked, *going_on, return_exceptions=True)
        assert desk.turns.waiting_count == 0
        await desk.ask("good")

    assert told(story, seed).users == ["first", "good"]


@pytest.mark.parametrize("later", range(6))
def test_one_that_gives_up_as_its_turn_comes_holds_up_nobody(later: int) -> None:
    async def story(desk: Desk) -> None:
        granted = asyncio.ensure_future(desk.go_on("greedy"))
        await turns(later)
        granted.cancel()
        await desk.go_on("good")

    assert told(story).users in (["good"], ["greedy", "good"])


def test_a_key_that_waits_keeps_its_place() -> None:
    async def story(desk: Desk) -> None:
        await desk.ask("first")
        for _ in range(3):
            desk.turns.soon("greedy", "key", lambda: desk.piece("greedy"))
        assert desk.turns.waiting_count == 1
        await desk.loop.pause(1.0)

    assert told(story).users == ["first", "greedy"]


def test_errors_go_to_who_asked_and_awaitables_are_awaited() -> None:
    async def story(desk: Desk) -> None:
        async def much() -> str:
            await asyncio.sleep(0)
            return "much"

        def fail() -> str:
            raise KeyError("nothing")

        await desk.ask("first")
        failing = asyncio.ensure_future(desk.turns.run("greedy", fail))
        found = asyncio.ensure_future(desk.turns.run("greedy", much))
        with pytest.raises(KeyError):
            await failing
        assert await found == "much"
        with pytest.raises(KeyError):
            desk.turns.run("greedy", fail)
        assert await desk.turns.run("good", much) == "much"

    told(story)


def test_what_work_calls_is_part_of_it_and_what_it_leaves_comes_later() -> None:
    async def story(desk: Desk) -> None:
        def whole() -> str:
            for number in range(3):
                desk.turns.soon("greedy", number, partial(desk.piece, "later"))
            desk.piece("greedy")
            inner: str = desk.turns.run("greedy", partial(desk.piece, "inner"))
            return inner

        assert desk.turns.run("greedy", whole) == "inner"
        await desk.loop.pause(1.0)

    desk = told(story)
    assert desk.users == ["greedy", "inner", "later", "later", "later"]
    times = [at_ms for _, _, at_ms in desk.done]
    assert times[2] - times[0] >= 2 * 2 * PIECE_MS
    assert min(later - at for at, later in pairwise(times[2:])) >= 2 * PIECE_MS


def test_a_machine_that_stood_still_during_a_piece_holds_up_the_next_one_briefly() -> None:
    async def story(desk: Desk) -> None:
        await desk.ask("first", 60_000)
        begun_s = desk.loop.time()
        await desk.ask("good")
        assert desk.loop.time() - begun_s < 0.2

    told(story)


def test_a_drain_sends_home_who_waits() -> None:
    async def story(desk: Desk) -> None:
        await desk.ask("first")
        asked = [*desk.all_ask("greedy", 3), asyncio.ensure_future(desk.go_on("greedy"))]
        desk.turns.soon("greedy", "key", lambda: desk.piece("greedy"))
        await asyncio.sleep(0)
        desk.turns.drain()
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(end) for end in ends] == [Draining] * 4
        with pytest.raises(Draining):
            await desk.ask("greedy")
        desk.turns.soon("greedy", "key", lambda: desk.piece("greedy"))
        await desk.loop.pause(1.0)

    assert told(story).users == ["first"]
