"""The rules of a walk through consuming: hypothesis chooses them, and shortens what fails.

    run_state_machine_as_test(ConsumeMachine, settings=settings(max_examples=300, …))

Every rule is one awaited call, or a kill while it is under way.
"""

from collections import Counter
from contextlib import ExitStack
from typing import Any, Final
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.fakes.consume_walk import DELAYS_MS, GROUPS, QUEUES, ConsumeWalk, Handle
from tests.fakes.loop import SeededLoop, end_loop
from tests.fakes.seeded_store import TIMED

CONSUMERS: Final = st.sampled_from(sorted(GROUPS))
TURNS: Final = st.one_of(st.none(), st.none(), st.none(), st.integers(0, 12))
"""How long after a call begins the broker is killed; mostly it is not."""
SECONDS: Final = st.sampled_from((0, 1, 5, 10, 30, 60))
PLACES: Final = st.lists(st.integers(0, 63), min_size=1, max_size=6, unique=True)
WORDS: Final = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), min_size=1, max_size=4
)
COUNTED: Counter[str] = Counter()
"""What was done in all walks of this process."""


class ConsumeMachine(RuleBasedStateMachine):
    """Walks of one process; see the module."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = SeededLoop(0)
        self.patches = ExitStack()
        for module in TIMED:
            self.patches.enter_context(patch.object(module, "perf_counter", self.loop.time))
        self.walk: ConsumeWalk
        self.has_failed = False

    def _run(self, call: Any) -> Any:
        self.has_failed = True
        result = self.loop.run_until_complete(call)
        self.has_failed = False
        return result

    @initialize(seed=st.integers(0, 2**32), flush=st.sampled_from(("sync", "async")))
    def begin(self, seed: int, flush: str) -> None:
        self.loop.random.seed(seed)
        self.walk = ConsumeWalk(self.loop, seed, flush=flush)
        self._run(self.walk.begin())
        COUNTED["walks"] += 1

    def teardown(self) -> None:
        try:
            if not self.has_failed and hasattr(self, "walk"):
                self._run(self.walk.end())
                assert not self.loop.errors, f"nobody was told: {self.loop.errors}"
                COUNTED.update(self.walk.counts)
        finally:
            end_loop(self.loop)
            self.patches.close()

    # -- producing, receiving ------------------------------------------------------------------
    @rule(topic=st.sampled_from(sorted(set(GROUPS.values()))), queue=st.integers(0, QUEUES - 1),
          words=WORDS)  # fmt: skip
    def send(self, topic: str, queue: int, words: list[tuple[str, str]]) -> None:
        self._run(self.walk.send(topic, queue, *words))

    def _receive(
        self, group: str, most: int, seconds: int, tag: str = "", turns: int | None = None
    ) -> None:
        self._run(self.walk.receive(group, most, max(seconds, 1) * 1_000, tag, turns))

    @rule(
        group=st.sampled_from(sorted(GROUPS)), most=st.integers(1, 9), seconds=SECONDS, turns=TURNS
    )
    def receive(self, group: str, most: int, seconds: int, turns: int | None) -> None:
        self._receive(group, most, seconds, turns=turns)

    @rule(most=st.integers(1, 9), seconds=SECONDS, turns=TURNS)
    def receive_in_order(self, most: int, seconds: int, turns: int | None) -> None:
        self._receive("readers", most, seconds, turns=turns)

    @rule(group=st.sampled_from(sorted(GROUPS)), most=st.integers(1, 9), tag=st.sampled_from("xy"))
    def receive_some_tag(self, group: str, most: int, tag: str) -> None:
        self._receive(group, most, 30, tag)

    # -- settling ------------------------------------------------------------------------------
    def _chosen(self, places: list[int]) -> list[Handle]:
        """Return handles of one group, old ones too, each message once."""
        handles = self.walk.handles
        picked = [handles[place % len(handles)] for place in places]
        return [*{h.body: h for h in picked if h.group == picked[0].group}.values()]

    @precondition(lambda self: self.walk.handles)
    @rule(places=PLACES, turns=TURNS)
    def ack(self, places: list[int], turns: int | None) -> None:
        handles = self._chosen(places)
        self._run(self.walk.ack(handles[0].group, handles, turns))

    @precondition(lambda self: self.walk.handles)
    @rule(places=PLACES, seconds=SECONDS, turns=TURNS)
    def change(self, places: list[int], seconds: int, turns: int | None) -> None:
        handles = self._chosen(places)
        self._run(self.walk.change(handles[0].group, handles, seconds * 1_000, turns))

    @precondition(lambda self: self.walk.handles)
    @rule(places=PLACES, level=st.integers(1, len(DELAYS_MS)), turns=TURNS)
    def send_back(self, places: list[int], level: int, turns: int | None) -> None:
        handles = self._chosen(places)
        if GROUPS[handles[0].group] == "orders":  # What is sent back leaves its order.
            self._run(self.walk.back(handles[0].group, handles, level, turns))

    @precondition(lambda self: self.walk.handles)
    @rule(places=PLACES, turns=TURNS)
    def give_up(self, places: list[int], turns: int | None) -> None:
        handles = self._chosen(places[:2])
        self._run(self.walk.give_up(handles[0].group, handles, turns))

    # -- time and lives ------------------------------------------------------------------------
    @rule(seconds=SECONDS)
    def time_passes(self, seconds: int) -> None:
        self.loop.clock.advance(seconds * 1_000)
        self._run(self.walk.steps())

    @rule(seconds=SECONDS)
    def time_passes_unseen(self, seconds: int) -> None:
        self.loop.clock.advance(seconds * 1_000)

    @rule()
    def restart(self) -> None:
        self._run(self.walk.restart())

    @rule()
    def kill(self) -> None:
        self._run(self.walk.kill())

    @precondition(lambda self: self.walk.is_sync)
    @rule()
    def cut(self) -> None:
        self._run(self.walk.cut())

    @rule()
    def pull(self) -> None:
        self._run(self.walk.check_topics())
