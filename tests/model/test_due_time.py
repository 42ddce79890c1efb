"""Nothing is due early by the monotonic clock, and nothing waits for a jump."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model.due_time import EPOCHS_MAX, JUMP_MS, DueTime
from pocketmq.model.step import Now

HOUR_MS = 3_600_000
WALL_MS = 1_795_000_000_000


def test_a_clock_that_nobody_sets_is_what_things_are_due_by() -> None:
    due = DueTime()
    assert due.look(Now(1_000, WALL_MS), 0) == 0
    assert due.look(Now(6_000, WALL_MS + 5_000), 7) == 0
    assert due.upto_ms(Now(6_000, WALL_MS + 5_000), 3) == WALL_MS + 5_000


def test_a_jump_forward_makes_nothing_due_that_came_before() -> None:
    due = DueTime()
    due.look(Now(0, WALL_MS), 0)
    assert due.look(Now(10, WALL_MS + HOUR_MS + 10), 5) == HOUR_MS
    later = Now(1_010, WALL_MS + HOUR_MS + 1_010)
    due.look(later, 8)
    assert due.upto_ms(later, 4) == WALL_MS + 1_010
    assert due.upto_ms(later, 5) == WALL_MS + HOUR_MS + 1_010


def test_a_jump_back_holds_nothing_up() -> None:
    due = DueTime()
    due.look(Now(0, WALL_MS), 0)
    assert due.look(Now(10, WALL_MS - HOUR_MS), 5) == -HOUR_MS - 10
    later = Now(60_000, WALL_MS - HOUR_MS + 59_990)
    assert due.upto_ms(later, 4) == WALL_MS + 60_000
    assert due.upto_ms(later, 5) == WALL_MS - HOUR_MS + 59_990


def test_a_slow_drift_is_no_jump_and_is_followed() -> None:
    due = DueTime()
    for second in range(200):
        assert due.look(Now(second * 1_000, WALL_MS + second * 1_010), second) == 0
    assert due.upto_ms(Now(200_000, 0), 0) == WALL_MS + 199 * 10 + 200_000


class _World:
    """A wall clock that is set by hand, and things that come and have a time to wait."""

    def __init__(self) -> None:
        self.monotonic = 0
        self.skew = WALL_MS
        self.due = DueTime()
        self.things: list[tuple[int, int]] = []
        """(monotonic time at which it is due, due time by the wall clock of its coming)."""

    def now(self) -> Now:
        return Now(self.monotonic, self.monotonic + self.skew)

    def look(self) -> None:
        self.due.look(self.now(), len(self.things))

    def come(self, wait_ms: int) -> None:
        self.things.append((self.monotonic + wait_ms, self.now().wall_ms + wait_ms))


Steps = st.lists(
    st.tuples(
        st.integers(0, 60_000),
        st.one_of(st.just(0), st.integers(-400 * 24 * HOUR_MS, 400 * 24 * HOUR_MS)),
        st.integers(0, 3 * 24 * HOUR_MS),
    ),
    max_size=EPOCHS_MAX - 2,
)


@given(Steps)
def test_everything_is_due_by_the_clock_of_its_coming(steps: list[tuple[int, int, int]]) -> None:
    world = _World()
    world.look()
    for pause_ms, jump_ms, wait_ms in steps:
        world.monotonic += pause_ms
        world.look()
        if abs(jump_ms) > JUMP_MS:
            world.skew += jump_ms
            world.look()
        world.come(wait_ms)
        for place, (due_ms, says_ms) in enumerate(world.things):
            is_due = says_ms <= world.due.upto_ms(world.now(), place)
            assert is_due == (due_ms <= world.monotonic)


@given(st.lists(st.integers(-HOUR_MS, HOUR_MS), min_size=EPOCHS_MAX, max_size=4 * EPOCHS_MAX))
def test_however_many_jumps_nothing_is_early(jumps: list[int]) -> None:
    world = _World()
    world.look()
    for jump_ms in jumps:
        world.skew += jump_ms if abs(jump_ms) > JUMP_MS else HOUR_MS
        world.look()
        world.come(1_000)
    for place, (due_ms, says_ms) in enumerate(world.things):
        assert says_ms - world.due.upto_ms(world.now(), place) >= due_ms - world.monotonic
