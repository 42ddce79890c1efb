"""Consumer lag of a group, in messages and in time."""

import asyncio
from functools import partial

import pytest

from pocketmq.metrics.lag import COLD_READS_MAX, REFRESH_INTERVAL_MS, Lag, Position, Queues
from pocketmq.model.consuming import Held
from pocketmq.model.errors import Corruption
from pocketmq.model.stats import Gauge
from pocketmq.store.read.cold_read import Later, NowOrLater
from tests.sim.clock import START_MS, FakeClock


class Desk:
    """Queues whose message n was stored at second n, groups, and the lag of all."""

    def __init__(self, *, detailed: bool = False) -> None:
        self.clock = FakeClock()
        self.ranges: dict[tuple[str, int], tuple[int, int]] = {("T", 0): (0, 10), ("T", 1): (5, 8)}
        self.positions: list[Position] = []
        self.asked: list[tuple[str, int, int]] = []
        self.cold: set[int] = set()
        self.damaged: set[int] = set()
        self.broken: set[int] = set()
        self.leased: dict[tuple[str, str], dict[int, Held]] = {}
        self.receiving: list[tuple[str, str]] = []
        self.known: dict[tuple[str, str], Queues] = {}
        self.lag = Lag(
            lambda topic, queue_id: self.ranges.get((topic, queue_id), (0, 0)),
            self.store_time_at,
            lambda: self.positions,
            self.clock.wall_ms,
            read_leased=lambda: self.leased,
            read_receiving=lambda: self.receiving,
            known=lambda group, topic: self.known.get((group, topic), Queues()),
            is_detailed=detailed,
        )

    def store_time_at(self, topic: str, queue_id: int, queue_offset: int) -> NowOrLater[int | None]:
        self.asked.append((topic, queue_id, queue_offset))
        if queue_offset in self.damaged:
            raise Corruption(path="p", file_position=0, physical_offset=0, why="bad")
        if queue_offset in self.cold:
            return Later(partial(self._fetched, queue_offset))
        return START_MS - 60_000 + queue_offset * 1000

    async def _fetched(self, queue_offset: int) -> int:
        if queue_offset in self.broken:
            raise OSError("disk")
        self.cold.discard(queue_offset)
        return START_MS - 60_000 + queue_offset * 1000

    def stands(self, group: str, topic: str, **queues: int) -> None:
        offsets = {int(name[1:]): queue_offset for name, queue_offset in queues.items()}
        self.positions.append((group, topic, offsets))

    async def read(self, name: str) -> dict[tuple[str, ...], float]:
        """Returns a gauge a second after it was read last."""
        self.clock.advance(REFRESH_INTERVAL_MS)
        await self.lag.refresh()
        return self.shown(name)

    def shown(self, name: str) -> dict[tuple[str, ...], float]:
        (gauge,) = [gauge for gauge in self.lag.gauges if gauge.name == name]
        assert isinstance(gauge, Gauge)
        read = gauge.read()
        assert isinstance(read, dict)
        return dict(read)


MESSAGES = "rocketmq_consumer_lag_messages"
IN_FLIGHT = "rocketmq_consumer_inflight_messages"
LATENCY = "rocketmq_consumer_lag_latency_milliseconds"
G_T = ("G", "T", "false", "false")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize(
    ("stands", "count"),
    [
        ({"q0": 4, "q1": 7}, 7),
        ({"q0": 10, "q1": 8}, 0),
        pytest.param({"q1": 0}, 3, id="expired messages do not wait"),
        pytest.param({"q0": 99, "q7": 3}, 0, id="behind the end"),
    ],
)
async def test_the_lag_is_what_is_left_in_all_queues(
    desk: Desk, stands: dict[str, int], count: int
) -> None:
    desk.stands("G", "T", **stands)
    assert await desk.read(MESSAGES) == {G_T: count}
    assert bool(desk.shown(LATENCY)[G_T]) == bool(count)


@pytest.mark.parametrize(("begins_at_min", "count"), [(True, 13), (False, 0)])
async def test_who_receives_and_never_got_anything_has_what_it_would_get(
    desk: Desk, begins_at_min: bool, count: int
) -> None:
    desk.receiving.append(("G", "T"))
    desk.known["G", "T"] = Queues(2, begins_at_min)
    assert await desk.read(MESSAGES) == {G_T: count}
    assert bool(desk.shown(LATENCY)[G_T]) == bool(count)


@pytest.mark.parametrize(("begins_at_min", "count"), [(True, 6 + 3), (False, 6)])
async def test_queues_that_a_group_has_not_come_to_count_as_it_begins(
    desk: Desk, begins_at_min: bool, count: int
) -> None:
    desk.stands("G", "T", q0=4)
    desk.known["G", "T"] = Queues(2, begins_at_min)
    assert await desk.read(MESSAGES) == {G_T: count}


async def test_what_is_leased_is_in_flight_and_0_once_it_is_settled(desk: Desk) -> None:
    desk.stands("G", "T", q0=4)
    desk.leased["G", "T"] = {0: Held(3, 1, 1)}
    desk.leased["H", "T"] = {0: Held(2)}
    h_t = ("H", "T", "false", "false")
    assert await desk.read(IN_FLIGHT) == {G_T: 4, h_t: 2}
    desk.leased.clear()
    desk.stands("H", "T", q0=2)
    assert await desk.read(IN_FLIGHT) == {G_T: 0, h_t: 0}


async def test_the_age_is_that_of_the_oldest_message_left(desk: Desk) -> None:
    desk.stands("G", "T", q0=4, q1=7)
    assert await desk.read(LATENCY) == {G_T: 56_000 + REFRESH_INTERVAL_MS}


async def test_the_age_grows_between_refreshes(desk: Desk) -> None:
    desk.stands("G", "T", q0=4)
    before = (await desk.read(LATENCY))[G_T]
    desk.clock.advance(500)
    assert desk.shown(LATENCY)[G_T] == before + 500


async def test_labels_tell_retries_and_the_brokers_own(desk: Desk) -> None:
    desk.stands("G", "%RETRY%G", q0=0)
    desk.stands("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", q0=0)
    assert list(await desk.read(MESSAGES)) == [
        ("G", "%RETRY%G", "true", "false"),
        ("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", "false", "true"),
    ]


async def test_within_a_second_nothing_is_looked_at_again(desk: Desk) -> None:
    desk.stands("G", "T", q0=4)
    await desk.read(MESSAGES)
    desk.positions.clear()
    desk.clock.advance(REFRESH_INTERVAL_MS - 1)
    await desk.lag.refresh()
    assert desk.shown(MESSAGES) == {G_T: 6}
    desk.clock.advance(1)
    await desk.lag.refresh()
    assert desk.shown(MESSAGES) == {}


async def test_a_clock_that_went_back_stops_nothing(desk: Desk) -> None:
    desk.stands("G", "T", q0=4)
    await desk.read(MESSAGES)
    desk.clock.advance(-3_600_000)
    desk.positions.clear()
    await desk.lag.refresh()
    assert desk.shown(MESSAGES) == {}


async def test_a_group_that_stands_still_is_read_once(desk: Desk) -> None:
    desk.stands("G", "T", q0=4)
    for _ in range(3):
        await desk.read(LATENCY)
    assert desk.asked == [("T", 0, 4)]


async def test_an_age_that_the_disk_has_to_tell_is_known_a_refresh_later(desk: Desk) -> None:
    desk.stands("G", "T", q0=4)
    desk.cold = {4}
    assert await desk.read(MESSAGES) == {G_T: 6}
    assert desk.shown(LATENCY) == {}
    assert await desk.read(LATENCY) == {G_T: 56_000 + 2 * REFRESH_INTERVAL_MS}


async def test_few_ages_are_asked_of_the_disk_at_once(desk: Desk) -> None:
    desk.ranges = {("T", 0): (0, 100)}
    for number in range(COLD_READS_MAX + 5):
        desk.stands(f"G{number}", "T", q0=number)
    desk.cold = set(range(100))
    await desk.read(LATENCY)
    assert len(desk.cold) == 100 - COLD_READS_MAX
    assert len(await desk.read(LATENCY)) == COLD_READS_MAX
    assert len(await desk.read(LATENCY)) == COLD_READS_MAX + 5


async def test_damage_leaves_the_age_unknown(desk: Desk) -> None:
    desk.stands("G", "T", q0=4)
    desk.damaged = {4}
    assert await desk.read(MESSAGES) == {G_T: 6}
    assert desk.shown(LATENCY) == {}


async def test_a_disk_that_fails_does_not_fail_the_scrape(desk: Desk) -> None:
    desk.stands("G", "T", q0=4)
    desk.cold = desk.broken = {4}
    assert await desk.read(MESSAGES) == {G_T: 6}


async def test_details_show_every_queues_offset() -> None:
    desk = Desk(detailed=True)
    desk.stands("G", "T", q0=4, q1=7)
    shown = await desk.read("pocketmq_consumer_offset")
    assert shown == {("G", "T", "0"): 4, ("G", "T", "1"): 7}
    assert len(Desk().lag.gauges) == len(desk.lag.gauges) - 1


async def test_the_loop_gets_turns_while_many_groups_are_looked_at(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.metrics.lag.TURN_SECONDS", -1.0)
    for number in range(5):
        desk.stands(f"G{number}", "T", q0=4)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count())
        await desk.read(MESSAGES)
        counting.cancel()
    assert turns >= 5


async def test_what_is_leased_is_not_consumed_but_not_ready_either(desk: Desk) -> None:
    desk.stands("G", "T", q0=6)
    desk.leased = {("G", "T"): {0: Held(3, 0, 2), 1: Held(1, 0, 7)}}
    assert await desk.read(MESSAGES) == {G_T: 4 + 3 + 1}
    assert desk.shown("rocketmq_consumer_ready_messages") == {G_T: 4}
    now_ms = 60_000 + REFRESH_INTERVAL_MS
    assert desk.shown(LATENCY) == {G_T: now_ms - 2_000}
    assert desk.shown("rocketmq_consumer_queueing_latency_milliseconds") == {G_T: now_ms - 6_000}


async def test_what_is_leased_ahead_of_its_group_is_left_once_and_not_ready(desk: Desk) -> None:
    desk.stands("G", "T", q0=6)
    desk.leased = {("G", "T"): {0: Held(0, 3, 6)}}
    assert await desk.read(MESSAGES) == {G_T: 4}
    assert desk.shown("rocketmq_consumer_ready_messages") == {G_T: 1}
    assert desk.shown(LATENCY) == {G_T: 60_000 + REFRESH_INTERVAL_MS - 6_000}


async def test_nothing_waits_for_a_group_that_has_all_that_is_left_in_hand(desk: Desk) -> None:
    desk.stands("G", "T", q0=6)
    desk.leased = {("G", "T"): {0: Held(0, 4, 6)}}
    assert await desk.read("rocketmq_consumer_ready_messages") == {G_T: 0}
    assert desk.shown("rocketmq_consumer_queueing_latency_milliseconds") == {G_T: 0}
    assert desk.shown(LATENCY) == {G_T: 60_000 + REFRESH_INTERVAL_MS - 6_000}


async def test_retries_of_leases_count_for_the_topic_they_are_of(desk: Desk) -> None:
    desk.ranges |= {("%RETRY%G_T", 0): (0, 3), ("%RETRY%G+T", 0): (0, 2), ("%RETRY%G", 0): (0, 1)}
    desk.stands("G", "T", q0=10)
    desk.stands("G", "%RETRY%G_T", q0=1)
    desk.stands("G", "%RETRY%G+T", q0=0)
    desk.stands("G", "%RETRY%G", q0=0)
    assert await desk.read(MESSAGES) == {
        G_T: 0,
        ("G", "T", "true", "false"): 4,
        ("G", "%RETRY%G", "true", "false"): 1,
    }
