"""Questions that are served piece by piece, each piece in its user's turn."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.model.errors import Draining, TopicNotFound
from pocketmq.rpc.in_turns import in_turns
from pocketmq.rpc.service import Handler
from pocketmq.store.heavy_turns import SLACK_MS, HeavyTurns
from tests.kit.store_language import turns
from tests.sim.loop import SeededLoop, run_seeded

PIECE_MS = 10
SEEDS = pytest.mark.parametrize("seed", range(5))


class Desk:
    """A handler whose questions have three pieces of 10 ms, and who worked when."""

    def __init__(self, loop: SeededLoop) -> None:
        self.loop = loop
        self.turns = HeavyTurns(loop.clock)
        self.pieces: list[tuple[str, int]] = []
        """User and time of each piece."""
        self.begun: list[str] = []
        self.undone: list[str] = []

    def work(self, user: str) -> None:
        self.pieces.append((user, self.loop.clock.monotonic_ms()))
        self.loop.clock.advance(PIECE_MS)

    async def question(self, text: str, call: Any) -> str:
        self.begun.append(text)
        try:
            for _ in range(2):
                self.work(call.user)
                await turns(1)
            self.work(call.user)
        except asyncio.CancelledError:
            self.undone.append(text)
            raise
        return f"{text} answered"

    def ask(self, user: str, handler: Handler | None = None) -> asyncio.Task[Any]:
        call = SimpleNamespace(user=user, peer="ipv4:127.0.0.1:9")
        served = in_turns(self.turns, handler or self.question)
        return asyncio.ensure_future(served(f"{user}'s question", call))

    @property
    def users(self) -> list[str]:
        return [user for user, _ in self.pieces]


def told(story: Callable[[Desk], Awaitable[Any]], seed: int = 0) -> Desk:
    """Returns what a story did on a loop of its own."""

    async def tell(loop: SeededLoop) -> Desk:
        desk = Desk(loop)
        await story(desk)
        return desk

    return run_seeded(seed, tell)


@SEEDS
def test_pieces_of_many_questions_leave_as_much_time_to_others(seed: int) -> None:
    async def story(desk: Desk) -> None:
        answers = await asyncio.gather(*[desk.ask("greedy") for _ in range(40)])
        assert answers == ["greedy's question answered"] * 40

    times = [at_ms for _, at_ms in told(story, seed).pieces]
    assert len(times) == 120
    assert min(later - at for at, later in pairwise(times)) >= 2 * PIECE_MS - SLACK_MS


@SEEDS
def test_a_question_of_another_user_waits_for_one_piece_at_a_time(seed: int) -> None:
    async def story(desk: Desk) -> None:
        many = [desk.ask("greedy") for _ in range(40)]
        await turns(8)
        await desk.ask("other")
        for one in many:
            one.cancel()

    users = told(story, seed).users
    first = users.index("other")
    assert users[first : first + 5].count("other") == 3


def test_an_answer_without_a_wait_comes_in_turn_too() -> None:
    async def story(desk: Desk) -> None:
        def handler(text: str, call: Any) -> str:
            desk.work(call.user)
            return text

        assert await asyncio.gather(*[desk.ask("greedy", handler) for _ in range(5)])

    times = [at_ms for _, at_ms in told(story).pieces]
    assert min(later - at for at, later in pairwise(times)) >= 2 * PIECE_MS - SLACK_MS


def test_a_question_runs_in_the_task_that_asks() -> None:
    async def story(desk: Desk) -> None:
        async def handler(text: str, call: Any) -> list[asyncio.Task[Any] | None]:
            before = asyncio.current_task()
            await turns(8)
            return [before, asyncio.current_task()]

        asked = [desk.ask("one", handler) for _ in range(3)]
        assert await asyncio.gather(*asked) == [[task, task] for task in asked]

    told(story)


def test_an_error_of_a_question_reaches_who_asks() -> None:
    async def story(desk: Desk) -> None:
        async def handler(text: str, call: Any) -> None:
            await turns(1)
            raise TopicNotFound(topic="mine")

        with pytest.raises(TopicNotFound):
            await desk.ask("one", handler)
        assert await desk.ask("one") == "one's question answered"

    told(story)


def test_a_cancelled_question_ends_at_once_though_others_are_in_line() -> None:
    async def story(desk: Desk) -> None:
        asked = [desk.ask("greedy") for _ in range(20)]
        await turns(8)
        begun = len(desk.pieces)
        assert 0 < begun < 60
        for one in asked:
            one.cancel()
        ends = await asyncio.gather(*asked, return_exceptions=True)
        cut = [end for end in ends if isinstance(end, asyncio.CancelledError)]
        assert cut
        assert len(desk.pieces) == begun
        assert len(desk.undone) == len(desk.begun) - (20 - len(cut)), "each that had begun knows"
        assert desk.undone
        assert not desk.turns.waiting_count

    told(story)


def test_while_the_broker_drains_begun_questions_go_on_and_no_other_begins() -> None:
    async def story(desk: Desk) -> None:
        asked = [desk.ask(f"user {number}") for number in range(20)]
        await turns(8)
        begun = {*desk.users}
        assert 0 < len(begun) < 20
        desk.turns.drain()
        ends = await asyncio.gather(*asked, return_exceptions=True)
        answered = [end for end in ends if isinstance(end, str)]
        assert len(answered) == len(begun)
        assert sum(isinstance(end, Draining) for end in ends) == 20 - len(begun)

    told(story)
