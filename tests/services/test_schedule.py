"""Delay levels: delivered when they are over, in order, once, by us as by a real broker."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.files.disk import Disk
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.format.table_json import decode_table, encode_table
from pocketmq.model.batch import Destination
from pocketmq.model.errors import BrokerReadOnly
from pocketmq.model.message import DELAY, REAL_QUEUE, REAL_TOPIC, StoredMessage
from pocketmq.model.reading import ReadRange
from pocketmq.model.step import Now
from pocketmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC
from pocketmq.services.admin.groups import delete_group
from pocketmq.services.admin.purge import purge_topic
from pocketmq.services.admin.topics import remove_topics
from pocketmq.services.delay.levels import SAVE_INTERVAL_MS, Schedule
from pocketmq.store.settings import FLUSH_ASYNC
from pocketmq.store.tables.delay_offsets import DelayOffsets
from tests.golden_stores import GoldenStores
from tests.kit.rows import Row, batch
from tests.kit.store_language import (
    BORN_HOST,
    STORE_HOST,
    TalkingStore,
    at_once,
    store_at,
    turns,
)
from tests.sim.clock import FakeClock
from tests.sim.crash_points import CrashPoints
from tests.sim.disk import SimDisk

SETTINGS: dict[str, Any] = {
    "delay_levels": "1s 5s 10s",
    "commit_log_file_size_bytes": 1 << 18,
    "consume_queue_file_size_bytes": 2000,
}


class Scheduled:
    """A store with the service that delivers; time is the store's clock."""

    def __init__(self, talking: TalkingStore) -> None:
        self.talking = talking
        self.store = talking.store
        self.clock = talking.clock
        self.schedule = Schedule(talking.store, STORE_HOST)
        if self.store.tables.topics.find("orders") is None:
            self.store.tables.topics.adopt("orders", 4)

    async def wait(
        self, name: str, level: int, *, topic: str = "orders", queue_id: int = 0,
        born_ms: int | None = None, **more: str,
    ) -> None:  # fmt: skip
        """Puts a message that waits for a level."""
        properties = {
            "UNIQ_KEY": f"KEY{name}", DELAY: str(level), REAL_TOPIC: topic,
            REAL_QUEUE: str(queue_id), **more,
        }  # fmt: skip
        key = properties["UNIQ_KEY"]
        born_ms = self.clock.wall if born_ms is None else born_ms
        row = Row(name.encode(), encode_properties(properties), 0, born_ms, BORN_HOST, key)
        destination = Destination(SCHEDULE_TOPIC, level - 1, STORE_HOST)
        await self.store.writing.put([(destination, batch(row))])
        await self.talking.settled()

    async def run(self) -> None:
        """Runs the service until it waits for time to pass."""
        while True:
            now = Now(self.clock.monotonic, self.clock.wall)
            following = self.schedule.step(now)
            if following.mark is not None:
                await following.mark.reached(following.value)
            elif following.at_ms is not None and following.at_ms > now.monotonic_ms:
                break
        await self.talking.settled()

    async def pass_time(self, ms: int) -> None:
        """Advances the clock, then runs the service."""
        self.clock.advance(ms)
        await self.run()

    def messages(self, topic: str = "orders", queue_id: int = 0) -> list[StoredMessage]:
        """Returns what was delivered to a queue."""
        wanted = ReadRange(topic, queue_id, 0, 1024, 1 << 24)
        return [
            decode_record(record) for record in at_once(self.store.reading.pull(wanted)).records
        ]

    def bodies(self, topic: str = "orders", queue_id: int = 0) -> list[str]:
        """Returns the bodies of what was delivered to a queue."""
        return [message.body.decode() for message in self.messages(topic, queue_id)]

    def saved(self) -> Mapping[str, object]:
        """Returns the table as it is on disk."""
        path = self.talking.directory / "config" / "delayOffset.json"
        return decode_table(self.talking.disk.read_file(path))


@pytest.fixture
async def waiting() -> AsyncIterator[Scheduled]:
    """A store with three levels, and nothing in it."""
    async with store_at(Path("/store"), disk=SimDisk(), **SETTINGS) as talking:
        yield Scheduled(talking)


async def test_a_message_comes_when_its_level_is_over_and_not_a_millisecond_before(
    waiting: Scheduled,
) -> None:
    await waiting.run()
    await waiting.wait("a", 1)
    await waiting.wait("b", 2, queue_id=3)
    await waiting.run()
    await waiting.pass_time(999)
    assert waiting.bodies() == []
    await waiting.pass_time(1)
    assert waiting.bodies() == ["a"]
    await waiting.pass_time(3_999)
    assert waiting.bodies(queue_id=3) == []
    await waiting.pass_time(1)
    assert waiting.bodies(queue_id=3) == ["b"]


async def test_a_delivered_message_is_the_one_that_waited(waiting: Scheduled) -> None:
    await waiting.wait("a", 1, KEYS="k", mine="1")
    before = waiting.messages(SCHEDULE_TOPIC)[0]
    await waiting.run()
    await waiting.pass_time(1_000)
    (after,) = waiting.messages()
    assert after.properties == before.properties
    assert (after.born_timestamp_ms, after.born_host) == (before.born_timestamp_ms, BORN_HOST)
    assert await waiting.talking.found("orders", "k") == ["a"]


async def test_messages_of_a_level_stay_in_order_over_many_batches(waiting: Scheduled) -> None:
    for number in range(300):
        await waiting.wait(str(number), 1)
    await waiting.run()
    await waiting.pass_time(1_000)
    assert waiting.bodies() == [str(number) for number in range(300)]
    assert waiting.schedule.delivered.value == 300


async def test_a_clock_that_was_set_back_lets_nothing_come_early_or_wait_for_ever(
    waiting: Scheduled,
) -> None:
    await waiting.run()
    await waiting.wait("a", 2)
    waiting.clock.wall -= 3_600_000
    await waiting.wait("b", 2)
    await waiting.run()
    await waiting.pass_time(4_999)
    assert waiting.bodies() == []
    await waiting.pass_time(1)
    assert waiting.bodies() == ["a", "b"]


async def test_a_clock_that_is_set_forward_lets_nothing_come_early(waiting: Scheduled) -> None:
    await waiting.run()
    await waiting.wait("a", 2)
    await waiting.run()
    waiting.clock.wall += 3_600_000
    await waiting.pass_time(1_000)
    await waiting.wait("b", 2)
    await waiting.run()
    await waiting.pass_time(3_999)
    assert waiting.bodies() == []
    await waiting.pass_time(1)
    assert waiting.bodies() == ["a"]
    await waiting.pass_time(999)
    assert waiting.bodies() == ["a"]
    await waiting.pass_time(1)
    assert waiting.bodies() == ["a", "b"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(1, 4_000),
            st.sampled_from(["put", "forward", "back", "run"]),
        ),
        max_size=30,
    )
)
def test_whatever_is_done_to_the_clock_a_message_waits_its_level_out(
    steps: list[int | str],
) -> None:
    asyncio.run(_jumping(steps))


async def _jumping(steps: list[int | str]) -> None:
    """Puts, let time pass, set the wall clock: by monotonic time nothing comes early, all comes."""
    async with store_at(Path("/store"), disk=SimDisk(), **SETTINGS) as talking:
        waiting, put_ms, came_ms = Scheduled(talking), dict[str, int](), dict[str, int]()
        await waiting.run()

        async def run(by_ms: int = 0) -> None:
            await waiting.pass_time(by_ms)
            for body in waiting.bodies():
                came_ms.setdefault(body, waiting.clock.monotonic)

        for number, step in enumerate([*steps, "run", *([1_000] * 12)]):
            if step == "put":
                put_ms[str(number)] = waiting.clock.monotonic
                await waiting.wait(str(number), 2)
            elif step in ("forward", "back"):
                waiting.clock.wall += 3_600_000 if step == "forward" else -3_600_000
            else:
                await run(step if isinstance(step, int) else 0)
        assert came_ms.keys() == put_ms.keys()
        waits = [came_ms[name] - put_ms[name] for name in put_ms]
        assert all(wait >= 5_000 for wait in waits)


async def test_a_clock_set_twice_between_two_looks_lets_nothing_come_early(
    waiting: Scheduled,
) -> None:
    await waiting.run()
    await waiting.wait("first", 1)
    waiting.clock.advance(900)
    waiting.clock.wall -= 3_600_000
    await waiting.wait("a", 1)
    waiting.clock.wall += 3_600_000
    await waiting.run()
    await waiting.pass_time(999)
    assert waiting.bodies() == ["first"]
    await waiting.pass_time(1)
    assert waiting.bodies() == ["first", "a"]


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000, 700])
@pytest.mark.parametrize("is_seen", [False, True])
async def test_a_clock_set_before_a_start_lets_nothing_come_early(
    jump_ms: int, is_seen: bool
) -> None:
    clock, disk = FakeClock(), SimDisk()
    async with store_at(Path("/store"), clock=clock, disk=disk, **SETTINGS) as talking:
        first = Scheduled(talking)
        await first.run()
        await first.wait("a", 2)
        clock.wall += jump_ms
        if is_seen:
            await first.run()
        await first.wait("b", 2)
        await first.schedule.close()
    async with store_at(Path("/store"), clock=clock, disk=disk, **SETTINGS) as talking:
        clock.wall += jump_ms
        again = Scheduled(talking)
        await again.run()
        await again.pass_time(4_999)
        assert again.bodies() == []
        await again.pass_time(1)
        assert again.bodies() == ["a", "b"]
        await again.schedule.close()
        assert again.saved()["pocketmq"] == {"deliveredBefore": again.store.appended}


async def test_that_a_clock_was_set_is_written_down_at_once_and_read_again(
    waiting: Scheduled, tmp_path: Path
) -> None:
    await waiting.run()
    await waiting.wait("a", 2)
    waiting.clock.wall += 3_600_000
    await waiting.run()
    await waiting.pass_time(1)
    saved = waiting.saved()
    assert saved["pocketmq"] == {"deliveredBefore": waiting.store.appended, "clocks": {
        "2": [[0, 3_600_000], [1, 0]]
    }}  # fmt: skip
    odd: list[object] = [[], 7, {"2": 7}, {"2": [[0]]}, {"2": [[9, 1], [0, 0]]}, {"x": [[0, 1]]}]
    for said in odd:
        assert _clocks_in(tmp_path, {"pocketmq": {"clocks": said}}) == {}
    assert _clocks_in(tmp_path, dict(saved)) == {2: ((0, 3_600_000), (1, 0))}


def _clocks_in(directory: Path, table: dict[str, object]) -> Mapping[int, object]:
    """Returns the clocks that are read from a table."""
    path = directory / "config" / "delayOffset.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(encode_table(table))
    with ThreadPoolExecutor(1) as pool:
        offsets = DelayOffsets(Disk(), directory, FakeClock(), pool)
        offsets.load()
    return offsets.clocks


async def test_a_level_with_much_to_deliver_keeps_no_other_waiting(waiting: Scheduled) -> None:
    for number in range(400):
        await waiting.wait(f"a{number}", 1)
    await waiting.wait("b", 2, queue_id=1)
    waiting.clock.advance(60_000)
    now, delivered = Now(waiting.clock.monotonic, waiting.clock.wall), 0.0
    while not waiting.bodies(queue_id=1):
        delivered = waiting.schedule.delivered.value
        following = waiting.schedule.step(now)
        if following.mark is not None:
            await following.mark.reached(following.value)
        await waiting.talking.settled()
    assert delivered <= 128


async def test_how_far_levels_are_is_written_down_as_a_real_broker_does(
    waiting: Scheduled,
) -> None:
    await waiting.run()
    await waiting.wait("a", 1)
    await waiting.wait("b", 1)
    await waiting.pass_time(1_000)
    end = waiting.store.appended
    await waiting.pass_time(SAVE_INTERVAL_MS)
    await waiting.schedule.close()
    saved = waiting.saved()
    assert saved["offsetTable"] == {1: 2, 2: 0, 3: 0}
    assert saved["pocketmq"] == {"deliveredBefore": end}
    assert set(saved) == {"dataVersion", "offsetTable", "pocketmq"}


async def test_what_is_written_down_of_levels_is_never_ahead_of_what_the_log_keeps() -> None:
    """A real broker that takes the store over goes by these offsets alone."""
    options: dict[str, Any] = {**SETTINGS, "flush": FLUSH_ASYNC}
    disk = SimDisk()
    async with store_at(Path("/store"), disk=disk, **options) as talking:
        waiting = Scheduled(talking)
        await waiting.run()
        await waiting.wait("a", 1)
        await talking.store.flush()
        points = CrashPoints(disk, waiting.clock, Random(1), cuts=0, is_log_behind=True)
        with points.taken():
            await waiting.pass_time(1_000)
            await waiting.schedule.close()
    seen: set[tuple[int, int]] = set()
    for point in points.found:
        async with store_at(Path("/store"), disk=SimDisk(point.image), **options) as talking:
            waiting = Scheduled(talking)
            offsets: Any = {}
            with suppress(FileNotFoundError):
                offsets = waiting.saved()["offsetTable"]
            seen.add((offsets.get(1, 0), len(waiting.messages())))
            await waiting.run()
            await waiting.pass_time(10_000)
            assert [message.body for message in waiting.messages()] == [b"a"]
    assert (1, 1) in seen
    assert (1, 0) not in seen


@pytest.mark.parametrize("topic", ["", HALF_TOPIC, SCHEDULE_TOPIC])
async def test_what_has_no_place_to_go_to_is_passed_over(waiting: Scheduled, topic: str) -> None:
    await waiting.wait("lost", 1, topic=topic)
    await waiting.wait("kept", 1)
    await waiting.run()
    await waiting.pass_time(1_000)
    assert waiting.bodies() == ["kept"]
    assert waiting.store.reading.queue_range(HALF_TOPIC, 0) == (0, 0)


@pytest.mark.parametrize("had_queues", [False, True])
async def test_nothing_comes_to_a_topic_that_was_removed(
    waiting: Scheduled, *, had_queues: bool
) -> None:
    await waiting.store.tables.topics.create("gone", queue_count=1)
    if had_queues:
        await waiting.talking.send("gone", "x")
    await waiting.wait("a", 1, topic="gone")
    await remove_topics(waiting.store, ["gone"])
    await waiting.run()
    await waiting.pass_time(1_000)
    assert waiting.store.reading.queue_range("gone", 0) == (0, 0)
    assert waiting.schedule.delivered.value == 0
    assert waiting.store.tables.topics.find("gone") is None


async def test_what_waited_for_a_queue_that_is_no_more_comes_where_consumers_read(
    waiting: Scheduled,
) -> None:
    await waiting.wait("a", 1, queue_id=3)
    await waiting.store.tables.topics.keep("orders")
    await waiting.store.tables.topics.update("orders", read_queue_count=2, write_queue_count=2)
    await waiting.run()
    await waiting.pass_time(1_000)
    assert waiting.bodies(queue_id=1) == ["a"]
    assert waiting.bodies(queue_id=3) == []


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_what_was_sent_back_comes_to_no_group_that_was_removed(
    waiting: Scheduled, *, is_made_again: bool
) -> None:
    await waiting.store.tables.groups.ensure("g")
    await waiting.store.tables.topics.ensure("%RETRY%g", 1)
    await waiting.wait("a", 1, topic="%RETRY%g")
    await delete_group(waiting.store, "g", with_topics=True)
    if is_made_again:
        await waiting.store.tables.groups.ensure("g")
    await waiting.run()
    await waiting.pass_time(1_000)
    assert (waiting.store.tables.topics.find("%RETRY%g") is not None) is is_made_again
    assert waiting.schedule.delivered.value == is_made_again


async def test_while_puts_are_refused_nothing_is_lost(waiting: Scheduled) -> None:
    await waiting.run()
    await waiting.wait("a", 1)
    waiting.store.writing.refuse(BrokerReadOnly(why="a test says so"))
    await waiting.pass_time(1_000)
    assert waiting.bodies() == []
    waiting.store.writing.refuse(None)
    await waiting.pass_time(1_000)
    assert waiting.bodies() == ["a"]


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.sampled_from(["put", "twin", "time", "save"]), min_size=3, max_size=25),
    loses_power=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_after_a_crash_every_message_comes_and_none_twice(
    steps: list[str], loses_power: bool, seed: int
) -> None:
    asyncio.run(_crash(steps, loses_power, seed))


async def _crash(steps: list[str], loses_power: bool, seed: int) -> None:
    """Work, crash, go on from what is on disk: each message that is there comes once."""
    clock, disk = FakeClock(), SimDisk()
    async with store_at(Path("/store"), clock=clock, disk=disk, **SETTINGS) as talking:
        first = Scheduled(talking)
        await first.run()
        for number, step in enumerate(steps):
            if step == "time":
                await first.pass_time(700)
            elif step == "save":
                await first.pass_time(SAVE_INTERVAL_MS)
            else:
                await first.wait(f"{0 if step == 'twin' else number}", 1 + number % 3)
        image = disk.image.cut(Random(seed)) if loses_power else disk.image.copy()
    # Two messages that are alike in everything are told apart by what was written down.
    async with store_at(Path("/store"), clock=clock, disk=SimDisk(image), **SETTINGS) as talking:
        again = Scheduled(talking)
        waited = sorted(
            body for queue_id in range(3) for body in again.bodies(SCHEDULE_TOPIC, queue_id)
        )
        await again.run()
        for _ in range(4):
            await again.pass_time(10_000)
        assert sorted(again.bodies()) == waited


async def test_of_two_alike_one_copy_counts_for_one_of_them_after_a_crash() -> None:
    """A client sends a message again: the first is delivered, the other is due by the start."""
    clock, disk = FakeClock(), SimDisk()
    async with store_at(Path("/store"), clock=clock, disk=disk, **SETTINGS) as talking:
        first = Scheduled(talking)
        await first.run()
        born_ms = clock.wall
        await first.wait("a", 1, born_ms=born_ms)
        await first.pass_time(500)
        await first.wait("a", 1, born_ms=born_ms)
        await first.pass_time(500)
        assert first.bodies() == ["a"]
        image = disk.image.copy()
    clock.advance(1_000)
    for _ in range(2):
        disk = SimDisk(image)
        async with store_at(Path("/store"), clock=clock, disk=disk, **SETTINGS) as talking:
            again = Scheduled(talking)
            await again.run()
            await again.pass_time(5_000)
            assert again.bodies() == ["a", "a"]
            image = disk.image.copy()


@pytest.mark.parametrize(
    ("before_ms", "after_ms"), [(0, -3_000), (-3_600_000, 0), (-60_000, 60_000)]
)
async def test_what_came_does_not_come_again_after_a_crash_whenever_the_clock_was_set(
    before_ms: int, after_ms: int
) -> None:
    """The clock is set while a message waits, and again when it was delivered."""
    clock, disk = FakeClock(), SimDisk()
    async with store_at(Path("/store"), clock=clock, disk=disk, **SETTINGS) as talking:
        first = Scheduled(talking)
        await first.run()
        await first.wait("a", 2)
        await first.run()
        clock.wall += before_ms
        await first.run()
        await first.pass_time(5_000)
        assert first.bodies() == ["a"]
        clock.wall += after_ms
        image = disk.image.copy()
    async with store_at(Path("/store"), clock=clock, disk=SimDisk(image), **SETTINGS) as talking:
        again = Scheduled(talking)
        await again.run()
        await again.pass_time(120_000)
        assert again.bodies() == ["a"]


async def test_what_came_and_was_purged_does_not_come_again_after_a_crash() -> None:
    clock, disk = FakeClock(), SimDisk()
    async with store_at(Path("/store"), clock=clock, disk=disk, **SETTINGS) as talking:
        first = Scheduled(talking)
        await first.run()
        await first.wait("a", 2)
        await first.pass_time(5_000)
        assert first.bodies() == ["a"]
        await purge_topic(talking.store, "orders")
        image = disk.image.copy()
    async with store_at(Path("/store"), clock=clock, disk=SimDisk(image), **SETTINGS) as talking:
        again = Scheduled(talking)
        await again.run()
        await again.pass_time(120_000)
        assert talking.store.reading.queue_range("orders", 0) == (1, 1)


async def test_a_real_brokers_store_goes_on_where_it_stopped(
    golden: GoldenStores, tmp_path: Path
) -> None:
    directory = golden.copy("semantics", tmp_path / "s")
    shape = {k: v for k, v in golden.shape("semantics").items() if k != "index_style"}
    stopped_ms = 1_795_221_493_564
    async with store_at(directory, clock=FakeClock(stopped_ms), disk=Disk(), **shape) as talking:
        after = Scheduled(talking)
        before = {level: after.bodies(SCHEDULE_TOPIC, level - 1) for level in (9, 18)}
        counts = [len(after.bodies("DelayT", queue_id)) for queue_id in range(4)]
        assert sum(counts) == 28
        assert [len(bodies) for bodies in before.values()] == [4, 8]
        await after.run()
        assert [len(after.bodies("DelayT", queue_id)) for queue_id in range(4)] == counts
        await after.pass_time(5 * 60_000)
        new = [body for q in range(4) for body in after.bodies("DelayT", q)[counts[q] :]]
        assert sorted(new) == sorted(before[9])
        await after.pass_time(2 * 3_600_000)
        new = [body for q in range(4) for body in after.bodies("DelayT", q)[counts[q] :]]
        assert sorted(new) == sorted(before[9] + before[18])
        await after.schedule.close()
        assert after.saved()["offsetTable"] == {
            **dict.fromkeys(range(1, 19), 0), 1: 28, 2: 8, 3: 4, 5: 4, 9: 4, 18: 8
        }  # fmt: skip


SMALL = SETTINGS | {"commit_log_file_size_bytes": 1 << 14}


async def test_a_message_that_fits_no_file_where_it_goes_holds_nothing_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with store_at(Path("/store"), disk=SimDisk(), **SMALL) as talking:
        desk, long = Scheduled(talking), "a" * 120
        desk.store.tables.topics.adopt(long, 1)
        await desk.wait("first", 1)
        await desk.wait("x" * 16_020, 1, topic=long, UNIQ_KEY="KEYx")
        await desk.wait("last", 1)
        await desk.pass_time(1_000)
        assert desk.bodies() == ["first", "last"]
        assert [r.message for r in caplog.records].count("schedule.discarded") == 1


async def test_what_fits_a_file_alone_and_not_together_comes() -> None:
    async with store_at(Path("/store"), disk=SimDisk(), **SMALL) as talking:
        desk, bodies = Scheduled(talking), [f"{number}" * 5_000 for number in range(9)]
        for number, body in enumerate(bodies):
            await desk.wait(body, 2, UNIQ_KEY=f"KEY{number}")
        await desk.pass_time(5_000)
        assert desk.bodies() == bodies


async def test_what_was_put_before_a_clock_was_set_forward_is_not_early_though_it_is_seen_later(
    tmp_path: Path,
) -> None:
    async with store_at(tmp_path / "s", flush="sync", **SETTINGS) as talking:
        waiting, clock = Scheduled(talking), talking.clock
        await waiting.wait("a", 1)
        await waiting.pass_time(1_000)
        with talking.quick_disk.held():
            putting = asyncio.ensure_future(waiting.wait("b", 3))
            await turns()
            waiting.schedule.step(Now(clock.monotonic, clock.wall))
            clock.wall += 3_600_000
            clock.advance(10)
            waiting.schedule.step(Now(clock.monotonic, clock.wall))
        await putting
        for _ in range(2):
            await waiting.pass_time(4_990)
        assert waiting.bodies() == ["a"]
        await waiting.pass_time(10)
        assert waiting.bodies() == ["a", "b"]
