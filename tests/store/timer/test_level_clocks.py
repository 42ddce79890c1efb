"""The clocks of delay levels: none of their messages comes early, starts between or not."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model.due_time import JUMP_MS
from pocketmq.model.message import QueueKey
from pocketmq.model.step import Now
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.store.timer.level_clocks import LevelClocks

HOUR_MS = 3_600_000
DELAY_MS = 5_000


class World:
    """Clocks that people set, and messages of level 2, each put after a look."""

    def __init__(self) -> None:
        self.passed_ms, self.skew_ms = 0, 1_795_000_000_000
        self.ends: dict[QueueKey, int] = {}
        self.puts: list[tuple[int, int]] = []
        """When each is due by the wall clock of then, and when it is by the monotonic one."""
        self.clocks = LevelClocks(3, {}, self.now, self.ends)

    @property
    def now(self) -> Now:
        return Now(self.passed_ms, self.passed_ms + self.skew_ms)

    def put(self) -> None:
        self.clocks.look(self.now)
        self.puts.append((self.now.wall_ms + DELAY_MS, self.passed_ms + DELAY_MS))
        self.ends[SCHEDULE_TOPIC, 1] = len(self.puts)

    def start(self) -> None:
        """Stops in order, and starts in a process whose monotonic clock begins anew."""
        self.clocks.look(self.now)
        written = self.clocks.written
        self.passed_ms += 7_000
        self.skew_ms -= 7_000
        self.puts = [(due_ms, end_ms + 7_000) for due_ms, end_ms in self.puts]
        self.clocks = LevelClocks(3, written, self.now, self.ends)

    def check(self) -> None:
        self.clocks.look(self.now)
        due_time = self.clocks.of(2)
        for place, (due_ms, end_ms) in enumerate(self.puts):
            left_ms = due_ms - due_time.upto_ms(self.now, place)
            assert left_ms == end_ms - self.passed_ms


JUMPS_MS = st.integers(-HOUR_MS, HOUR_MS).filter(lambda jump_ms: abs(jump_ms) > JUMP_MS)


@given(st.lists(st.one_of(JUMPS_MS, st.sampled_from(["put", "time", "start"])), max_size=40))
def test_what_waits_is_measured_by_the_clock_of_its_coming(steps: list[int | str]) -> None:
    world = World()
    for step in steps:
        if step == "put":
            world.put()
        elif step == "time":
            world.passed_ms += 300
        elif step == "start":
            world.start()
        else:
            world.clocks.look(world.now)
            world.skew_ms += int(step)
            world.clocks.look(world.now)
        world.check()


def test_only_levels_with_more_than_one_clock_are_written_down() -> None:
    world = World()
    world.put()
    assert world.clocks.written == {}
    world.skew_ms += HOUR_MS
    world.put()
    for number in (1, 3):
        world.clocks.of(number).forget(0)
    assert world.clocks.written == {2: ((0, HOUR_MS), (1, 0))}
    world.clocks.of(2).forget(1)
    assert world.clocks.written == {}


def test_what_a_power_cut_took_had_no_clock_of_its_own() -> None:
    world = World()
    world.ends[SCHEDULE_TOPIC, 1] = 3
    clocks = LevelClocks(3, {2: [(0, HOUR_MS), (9, 0)], 7: [(0, 0)]}, world.now, world.ends)
    wall_ms = world.now.wall_ms
    assert clocks.of(2).upto_ms(world.now, 2) == wall_ms - HOUR_MS
    assert clocks.of(2).upto_ms(world.now, 3) == wall_ms
