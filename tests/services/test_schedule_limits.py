"""Delay levels at their bounds: one put, one look, one save; what a start counts as delivered."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.properties import encode_properties
from pocketmq.model.batch import Destination
from pocketmq.model.due_time import DueTime
from pocketmq.model.errors import BrokerReadOnly, DiskFull, FsyncFailed
from pocketmq.model.message import DELAY, OFFSET_MAX, PROPERTY_CRC, REAL_QUEUE, REAL_TOPIC
from pocketmq.model.step import Now
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.services.admin.topics import remove_topics
from pocketmq.services.delay.level import SEEN_MAX, Level
from pocketmq.services.delay.level_pending import LevelPending, WaitingMessages
from pocketmq.services.delay.levels import SAVE_INTERVAL_MS, Schedule
from pocketmq.store.read.holding import DELAY as DELAYED
from pocketmq.store.read.holding import RetentionHolder, holder_at
from pocketmq.store.tables.delay_offsets import DelayOffsets
from pocketmq.store.write.writing import Writing
from tests.kit.rows import Row, batch
from tests.kit.spoiled import spoil
from tests.kit.store_broker import store_broker
from tests.kit.store_language import BORN_HOST, STORE_HOST, store_at
from tests.services.test_schedule import SETTINGS, Scheduled
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image

LARGE = SETTINGS | {"commit_log_file_size_bytes": 1 << 22}
COMPRESSED = 1
"""The system flag of a message whose body is compressed."""


@pytest.fixture
async def waiting() -> AsyncIterator[Scheduled]:
    """A store with three levels, and nothing in it; its levels are known."""
    async with store_at(Path("/store"), disk=SimDisk(), **SETTINGS) as talking:
        opened = Scheduled(talking)
        await opened.run()
        yield opened


def next_look_ms(waiting: Scheduled) -> int:
    """Returns in how many ms the service wants to be called next."""
    following = waiting.schedule.step(Now(waiting.clock.monotonic, waiting.clock.wall))
    assert following.at_ms is not None
    return following.at_ms - waiting.clock.monotonic


def image_of(waiting: Scheduled) -> Image:
    """Returns what kill -9 would leave now."""
    assert isinstance(waiting.talking.disk, SimDisk)
    return waiting.talking.disk.image.copy()


async def after_a_kill(waiting: Scheduled, *, pass_ms: int = 20_000) -> list[str]:
    """Returns the bodies of queue 0 when a new process on what a kill leaves has delivered all."""
    options: dict[str, Any] = {"clock": waiting.clock, "disk": SimDisk(image_of(waiting))}
    async with store_at(Path("/store"), **options, **SETTINGS) as talking:
        again = Scheduled(talking)
        await again.run()
        await again.pass_time(pass_ms)
        return again.bodies()


# -- one put -----------------------------------------------------------------------------------


async def puts_of(waiting: Scheduled, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns how many messages each put has from now on."""
    counts: list[int] = []
    put = Writing.put

    async def counted(writing: Writing, runs: Any, **words: Any) -> Any:
        counts.append(len(runs))
        return await put(writing, runs, **words)

    monkeypatch.setattr(Writing, "put", counted)
    return counts


async def test_one_put_has_128_messages_at_most(
    waiting: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        await waiting.wait(str(number), 1)
    counts = await puts_of(waiting, monkeypatch)
    await waiting.pass_time(1_000)
    assert counts == [128, 128, 44]


@pytest.mark.parametrize(("more", "puts"), [(0, [4, 4]), (1, [3, 3, 2])])
async def test_one_put_has_256_kib_at_most(
    more: int, puts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_at(Path("/store"), disk=SimDisk(), **LARGE) as talking:
        waiting = Scheduled(talking)
        await waiting.run()
        begin = talking.store.appended
        await waiting.wait("", 2, UNIQ_KEY="KEY0")
        empty = talking.store.appended - begin
        await waiting.pass_time(5_000)
        for number in range(1, 9):
            await waiting.wait("x" * (64 * 1024 - empty + more), 2, UNIQ_KEY=f"KEY{number}")
        counts = await puts_of(waiting, monkeypatch)
        await waiting.pass_time(5_000)
        assert counts == puts


async def test_a_topic_that_has_no_row_gets_the_queues_it_is_delivered_to(
    waiting: Scheduled,
) -> None:
    await waiting.wait("a", 1, topic="fresh", queue_id=2)
    await waiting.pass_time(1_000)
    found = waiting.store.tables.topics.find("fresh")
    assert found is not None
    assert (found.read_queue_count, waiting.bodies("fresh", 2)) == (3, ["a"])


async def test_what_waits_is_counted(waiting: Scheduled) -> None:
    _, count = waiting.schedule.stats
    for number in range(3):
        await waiting.wait(f"m{number}", 1 + number)
        await waiting.wait(f"n{number}", 1 + number)
    left: list[object] = []
    for ms in (0, 1_000, 4_000, 5_000):
        await waiting.pass_time(ms)
        left.append(count.read())  # type: ignore[union-attr]
    assert left == [6, 4, 2, 0]


# -- when it looks again -----------------------------------------------------------------------


async def test_an_idle_service_looks_each_second_at_the_clock() -> None:
    options: dict[str, Any] = SETTINGS | {"delay_levels": "4s 8s"}
    async with store_at(Path("/store"), disk=SimDisk(), **options) as talking:
        waiting = Scheduled(talking)
        await waiting.run()
        assert next_look_ms(waiting) == 1_000


async def test_after_a_refused_put_a_level_is_tried_a_second_later(waiting: Scheduled) -> None:
    await waiting.wait("a", 1)
    waiting.store.writing.refuse(BrokerReadOnly(why="a test says so"))
    await waiting.pass_time(1_000)
    waiting.store.writing.refuse(None)
    await waiting.pass_time(999)
    assert waiting.bodies() == []
    await waiting.pass_time(1)
    assert waiting.bodies() == ["a"]


def level_of(delay_ms: int) -> Level:
    """Returns a level whose clock was looked at."""
    due_time = DueTime()
    due_time.look(Now(1_000, 1_000), 0)
    return Level(1, delay_ms, 0, due_time)


@pytest.mark.parametrize(
    ("delay_ms", "wait_ms", "look_ms"),
    [(60_000, 60_000, 5_000), (60_000, 5_001, 5_000), (60_000, 4_999, 4_999), (900, 900, 900)],
)
def test_a_level_is_looked_at_when_its_next_message_is_due_and_each_five_seconds(
    delay_ms: int, wait_ms: int, look_ms: int
) -> None:
    level = level_of(delay_ms)
    assert level.due_count([1_000 + wait_ms], 1, Now(1_000, 1_000)) == 0
    assert level.look_at_ms == 1_000 + look_ms


@pytest.mark.parametrize(("delay_ms", "look_ms"), [(60_000, 5_000), (900, 900)])
def test_an_empty_level_is_looked_at_each_five_seconds_or_when_what_comes_now_is_due(
    delay_ms: int, look_ms: int
) -> None:
    level = level_of(delay_ms)
    assert level.due_count([], 0, Now(1_000, 1_000)) == 0
    assert level.look_at_ms == 1_000 + look_ms


def test_behind_what_is_due_a_level_is_looked_at_at_once() -> None:
    level = level_of(900)
    assert level.due_count([1_000, 1_000], 2, Now(1_000, 1_000)) == 2
    assert level.look_at_ms == 1_000


def test_a_level_is_looked_at_at_once_when_the_clock_was_set() -> None:
    level = level_of(60_000)
    level.due_count([], 0, Now(1_000, 1_000))
    level.clock_set(Now(1_500, 9_000), 0)
    assert level.look_at_ms == 1_500
    level.clock_set(Now(1_600, 1_000), 0)
    assert level.look_at_ms == 1_500


def test_of_the_times_at_which_messages_were_seen_each_second_one_is_left_where_they_are_many() -> (
    None
):
    level = level_of(60_000)
    for number in range(1_024):
        for _ in range(2):
            level.see(Now(2_000 + number, 1_000), number + 1)
    assert level.seen == [(number + 1, 2_000 + number) for number in range(1_024)]
    assert len(level.seen) == SEEN_MAX
    level.see(Now(4_000, 1_000), 1_025)
    assert level.seen == [*[(n + 1, 2_000 + n) for n in range(1, 1_024, 2)], (1_025, 4_000)]


def test_a_level_forgets_when_it_saw_what_is_delivered() -> None:
    level = level_of(60_000)
    for number in range(4):
        level.see(Now(2_000 + number, 1_000), 2 * number + 2)
    level.advance(4)
    assert level.seen == [(6, 2_002), (8, 2_003)]


async def test_while_store_times_are_ahead_of_the_clock_each_message_waits_from_when_it_came(
    waiting: Scheduled,
) -> None:
    await waiting.wait("before", 3)
    waiting.clock.wall -= 3_600_000
    await waiting.run()
    for name in ("a", "b"):
        await waiting.wait(name, 2)
        await waiting.run()
        await waiting.pass_time(2_000)
    await waiting.pass_time(999)
    assert waiting.bodies() == []
    await waiting.pass_time(1)
    assert waiting.bodies() == ["a"]
    await waiting.pass_time(1_999)
    assert waiting.bodies() == ["a"]
    await waiting.pass_time(1)
    assert waiting.bodies() == ["a", "b"]


@pytest.mark.parametrize(("steps_ms", "is_seen"), [((25, 25), False), ((25, 26), True)])
async def test_store_times_more_than_50_ms_ahead_are_not_those_of_messages(
    waiting: Scheduled, steps_ms: tuple[int, int], *, is_seen: bool
) -> None:
    """The clock slows down, a little at a time, as no one sets it."""
    await waiting.wait("a", 2)
    for step_ms in steps_ms:
        waiting.clock.wall -= step_ms
        await waiting.run()
    assert bool(waiting.schedule._levels[1].seen) == is_seen


# -- writing down ------------------------------------------------------------------------------


async def written_after(waiting: Scheduled, ms: int) -> int:
    """Returns how far level 1 is as it is written down when some time has passed."""
    await waiting.pass_time(ms)
    saving = waiting.schedule._saving
    if saving is not None:
        await saving.reached()
    return waiting.store.tables.delay_offsets.find(1)


async def test_how_far_levels_are_is_written_down_each_ten_seconds(waiting: Scheduled) -> None:
    written: list[int] = []
    for _ in range(2):
        await waiting.wait("a", 1)
        for ms in (1_000, 8_999, 1):
            written.append(await written_after(waiting, ms))
    assert written == [0, 0, 1, 1, 1, 2]


async def test_how_far_levels_are_is_not_written_down_before_the_log_is_durable(
    waiting: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(_: Writing) -> bool:
        return False

    await waiting.wait("a", 1)
    await waiting.pass_time(1_000)
    with monkeypatch.context() as patch:
        patch.setattr(Writing, "durable", late)
        assert await written_after(waiting, SAVE_INTERVAL_MS) == 0
    assert await written_after(waiting, SAVE_INTERVAL_MS) == 1


async def test_nothing_is_written_down_where_nothing_was_delivered(waiting: Scheduled) -> None:
    await waiting.wait("a", 1)
    await waiting.pass_time(1_000)
    await waiting.pass_time(SAVE_INTERVAL_MS)
    before = waiting.saved()
    await waiting.wait("b", 3)
    await waiting.pass_time(9_999)
    await waiting.schedule.close()
    assert waiting.saved() == before


async def test_a_stop_waits_for_the_put_that_is_under_way(waiting: Scheduled) -> None:
    await waiting.wait("a", 1)
    waiting.clock.advance(1_000)
    waiting.schedule.step(Now(waiting.clock.monotonic, waiting.clock.wall))
    await waiting.schedule.close()
    await waiting.talking.settled()
    assert waiting.bodies() == ["a"]
    assert waiting.saved()["offsetTable"] == {1: 1, 2: 0, 3: 0}


@pytest.mark.parametrize("jump_ms", [0, 3_600_000])
async def test_a_full_disk_as_levels_are_written_down_is_told_and_tried_again(
    waiting: Scheduled, monkeypatch: pytest.MonkeyPatch, jump_ms: int
) -> None:
    async def refused(*_: object) -> None:
        raise DiskFull(path="delayOffset.json")

    await waiting.wait("a", 1)
    await waiting.wait("b", 3)
    await waiting.pass_time(1_000)
    with monkeypatch.context() as patch:
        patch.setattr(DelayOffsets, "put", refused)
        waiting.clock.wall += jump_ms
        with pytest.raises(DiskFull):
            await written_after(waiting, 9_000)
            await waiting.pass_time(1)
    assert waiting.store.tables.delay_offsets.find(1) == 0
    for _ in range(2):
        assert await written_after(waiting, SAVE_INTERVAL_MS) == 1
    assert waiting.bodies() == ["a", "b"]
    assert waiting.saved()["offsetTable"] == {1: 1, 2: 0, 3: 1}


# -- starts ------------------------------------------------------------------------------------


async def test_a_start_reads_in_one_go_what_was_due_before_it(
    waiting: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        await waiting.wait(f"m{number}", 2)
    await waiting.pass_time(5_000)
    await waiting.wait("b", 2)
    reads: list[tuple[int, int]] = []
    read = WaitingMessages.read

    async def told(messages: WaitingMessages, level: int, queue_offset: int, count: int) -> Any:
        if level == 2:
            reads.append((queue_offset, count))
        return await read(messages, level, queue_offset, count)

    with monkeypatch.context() as patch:
        patch.setattr(WaitingMessages, "read", told)
        assert (await after_a_kill(waiting, pass_ms=0)) == [f"m{number}" for number in range(5)]
    assert reads == [(0, 5), (5, 1)]


async def test_a_start_goes_on_behind_what_was_delivered_of_what_was_due(
    waiting: Scheduled,
) -> None:
    await waiting.wait("a", 1)
    waiting.clock.advance(500)
    await waiting.wait("b", 1)
    await waiting.pass_time(500)
    assert waiting.bodies() == ["a"]
    waiting.clock.advance(5_000)
    assert await after_a_kill(waiting) == ["a", "b"]


async def test_of_two_with_one_key_the_one_that_was_not_delivered_comes_after_a_kill(
    waiting: Scheduled,
) -> None:
    await waiting.wait("same", 2, UNIQ_KEY="KEY", mine="1")
    waiting.clock.advance(4_500)
    await waiting.wait("same", 1, UNIQ_KEY="KEY", mine="2")
    await waiting.pass_time(500)
    assert len(waiting.bodies()) == 1
    assert len(await after_a_kill(waiting)) == 2


async def test_a_body_that_is_not_what_it_says_is_delivered_once_over_a_kill(
    waiting: Scheduled,
) -> None:
    block = encode_properties(
        {"UNIQ_KEY": "KEY", DELAY: "1", REAL_TOPIC: "orders", REAL_QUEUE: "0"}
    )
    row = Row(b"no zlib", block, 0, waiting.clock.wall, BORN_HOST, "KEY")
    destination = Destination(SCHEDULE_TOPIC, 0, STORE_HOST, COMPRESSED)
    await waiting.store.writing.put([(destination, batch(row))])
    await waiting.talking.settled()
    await waiting.pass_time(1_000)
    options: dict[str, Any] = {"clock": waiting.clock, "disk": SimDisk(image_of(waiting))}
    async with store_at(Path("/store"), **options, **SETTINGS) as talking:
        again = Scheduled(talking)
        await again.run()
        await again.pass_time(2_000)
        assert again.store.reading.queue_range("orders", 0) == (0, 1)


async def test_a_message_that_is_damaged_is_passed_over(
    waiting: Scheduled, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b", "c"):
        await waiting.wait(name, 1)
    spoil(waiting.store, waiting.messages(SCHEDULE_TOPIC)[1].physical_offset)
    await waiting.pass_time(1_000)
    assert waiting.bodies() == ["a", "c"]
    assert [r.message for r in caplog.records].count("schedule.discarded") == 1


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_a_start_passes_over_a_damaged_message_among_those_that_were_delivered(
    waiting: Scheduled, number: int
) -> None:
    for name in ("a", "b", "c"):
        await waiting.wait(name, 1)
    place = waiting.messages(SCHEDULE_TOPIC)[number].physical_offset
    await waiting.pass_time(1_000)
    options: dict[str, Any] = {"clock": waiting.clock, "disk": SimDisk(image_of(waiting))}
    async with store_at(Path("/store"), **options, **SETTINGS) as talking:
        spoil(talking.store, place)
        again = Scheduled(talking)
        await again.wait("d", 1)
        await again.run()
        await again.pass_time(2_000)
        assert again.bodies() == ["a", "b", "c", "d"]


# -- what cannot be delivered ------------------------------------------------------------------


async def test_a_store_that_failed_ends_the_service_and_what_waits_stays(
    waiting: Scheduled,
) -> None:
    await waiting.wait("a", 1)
    waiting.store.writing.refuse(FsyncFailed(why="EIO"))
    with pytest.raises(FsyncFailed):
        await waiting.pass_time(1_000)
    waiting.store.writing.refuse(None)
    assert waiting.schedule.delivered.value == 0
    assert await after_a_kill(waiting) == ["a"]


async def test_what_expired_before_it_was_due_holds_nothing_up() -> None:
    """A file of its level's queue is gone."""
    options: dict[str, Any] = {"delay_levels": "1s 5s 10s", "consume_queue_file_size_bytes": 200}
    async with store_broker(**options) as broker:
        waiting = Scheduled(broker.talking)
        await waiting.run()
        for number in range(12):
            await waiting.wait(f"{number}", 3)
        await broker.expire()
        await waiting.pass_time(1)
        await waiting.wait("c", 3)
        await waiting.pass_time(10_000)
        assert waiting.bodies() == ["c"]
        assert waiting.schedule.stats[1].read() == 0  # type: ignore[union-attr]


async def test_what_waits_tells_where_it_lies(waiting: Scheduled) -> None:
    block = encode_properties({DELAY: "1", REAL_TOPIC: "orders", REAL_QUEUE: "0"})
    rows = [Row(b"a", block, flag, 0, BORN_HOST) for flag in (-1, 1, 255)]
    await waiting.store.writing.put([(Destination(SCHEDULE_TOPIC, 0, STORE_HOST), batch(*rows))])
    await waiting.talking.settled()
    found, following = await WaitingMessages(waiting.store, STORE_HOST).read(1, 0, 9)
    lie_at = [(one.queue_offset, one.physical_offset) for one in waiting.messages(SCHEDULE_TOPIC)]
    assert [(one.queue_offset, one.physical_offset) for one in found] == lie_at
    assert (len(found), following) == (3, 3)
    far = LevelPending(
        b"\xff" * 20 + (1 << 62).to_bytes(8) + (1 << 61).to_bytes(8) + b"\xff" * 8, None
    )
    assert (far.queue_offset, far.physical_offset) == (1 << 62, 1 << 61)


async def test_of_what_is_put_one_by_one_nothing_comes_twice_though_a_later_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = SETTINGS | {"commit_log_file_size_bytes": 1 << 14}
    async with store_at(Path("/store"), disk=SimDisk(), **small) as talking:
        waiting = Scheduled(talking)
        for number in range(4):
            await waiting.wait(f"{number}" * 5_000, 1, UNIQ_KEY=f"KEY{number}")
        put, tries = Writing.put, list[int]()

        async def third_refused(writing: Writing, runs: Any, **words: Any) -> Any:
            tries.append(len(runs))
            if len(tries) == 4:
                raise BrokerReadOnly(why="a test says so")
            return await put(writing, runs, **words)

        monkeypatch.setattr(Writing, "put", third_refused)
        await waiting.pass_time(1_000)
        assert tries == [4, 1, 1, 1]
        await waiting.pass_time(1_000)
        assert [body[0] for body in waiting.bodies()] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("reason", ["no place", "a topic that was removed"])
async def test_what_is_discarded_is_told_with_where_it_lies(
    waiting: Scheduled, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    await waiting.wait("before", 1)
    if reason == "no place":
        await waiting.wait("a", 1, topic="")
    else:
        await waiting.store.tables.topics.create("gone", queue_count=1)
        await waiting.wait("a", 1, topic="gone")
        await remove_topics(waiting.store, ["gone"])
    await waiting.pass_time(1_000)
    (told,) = [vars(one) for one in caplog.records if one.message == "schedule.discarded"]
    assert told["physical_offset"] == waiting.messages(SCHEDULE_TOPIC)[1].physical_offset


# -- starts under other conditions -------------------------------------------------------------


@asynccontextmanager
async def after_a_stop(waiting: Scheduled, **settings: Any) -> AsyncIterator[Scheduled]:
    """Stops the service, and opens what it leaves with the same clock; its levels are known."""
    await waiting.schedule.close()
    options: dict[str, Any] = {"clock": waiting.clock, "disk": SimDisk(image_of(waiting))}
    options |= SETTINGS | settings
    async with store_at(Path("/store"), **options) as talking:
        again = Scheduled(talking)
        await again.run()
        yield again


def test_what_is_due_later_than_its_level_allows_waits_from_when_it_is_seen() -> None:
    level = level_of(2_000)
    assert level.due_count([9_000], 1, Now(1_500, 1_500)) == 0
    assert level.look_at_ms == 3_500
    assert level.due_count([9_000, 9_000], 2, Now(3_499, 3_499)) == 0
    assert level.look_at_ms == 3_500
    assert level.due_count([9_000, 9_000], 2, Now(3_500, 3_500)) == 1
    assert level.look_at_ms == 3_500 + 1_999


async def test_where_a_level_became_shorter_what_waits_comes_when_the_new_one_is_over(
    waiting: Scheduled,
) -> None:
    await waiting.wait("a", 3)
    async with after_a_stop(waiting, delay_levels="1s 2s 3s") as again:
        await again.pass_time(2_999)
        assert again.bodies() == []
        await again.pass_time(1)
        assert again.bodies() == ["a"]


async def test_a_start_tells_how_many_it_found_delivered_where_it_found_some(
    waiting: Scheduled, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for name, level in (("a", 1), ("b", 1), ("c", 2)):
        await waiting.wait(name, level)
    await waiting.pass_time(1_000)
    assert await after_a_kill(waiting) == ["a", "b", "c"]
    told = [vars(one) for one in caplog.records if one.message == "schedule.resumed"]
    assert [(one["level"], one["count"]) for one in told] == [(1, 2)]


async def test_a_stop_writes_down_that_the_clock_was_set_just_before_it(
    waiting: Scheduled,
) -> None:
    await waiting.wait("a", 2)
    await waiting.pass_time(1_000)
    waiting.clock.wall += 3_600_000
    async with after_a_stop(waiting) as again:
        await again.pass_time(3_999)
        assert again.bodies() == []
        await again.pass_time(1)
        assert again.bodies() == ["a"]


async def test_a_start_tells_two_of_one_key_apart_by_a_property(waiting: Scheduled) -> None:
    """The copy of the first lies behind the second, which was not delivered."""
    born_ms = waiting.clock.wall
    await waiting.wait("same", 2, UNIQ_KEY="KEY", born_ms=born_ms, mine="1")
    waiting.clock.advance(4_500)
    twin: dict[str, Any] = {"UNIQ_KEY": "KEY", DELAY: "2", "mine": "2"}
    await waiting.wait("same", 1, born_ms=born_ms, **twin)
    await waiting.pass_time(500)
    waiting.clock.advance(1_000)
    assert len(waiting.bodies()) == 1
    assert await after_a_kill(waiting) == ["same", "same"]


async def test_a_copy_is_known_by_a_start_though_its_checksum_is_another(tmp_path: Path) -> None:
    options: dict[str, Any] = {"clock": FakeClock(), "disk": SimDisk(), "property_crc": True}
    options |= SETTINGS
    async with store_at(tmp_path / "s", **options) as talking:
        before = Scheduled(talking)
        await before.run()
        await before.wait("a", 1)
        await before.pass_time(1_000)
        sums = [
            message.properties[PROPERTY_CRC]
            for topic in (SCHEDULE_TOPIC, "orders")
            for message in before.messages(topic)
        ]
        assert len(set(sums)) == 2
        options["disk"] = SimDisk(image_of(before))
    async with store_at(tmp_path / "s", **options) as talking:
        again = Scheduled(talking)
        await again.run()
        await again.pass_time(20_000)
        assert again.bodies() == ["a"]


async def test_the_log_is_kept_for_what_waits_for_a_level(waiting: Scheduled) -> None:
    assert Schedule(waiting.store, STORE_HOST).floor() == 0, "nothing is known before a start"
    assert waiting.schedule.floor() == OFFSET_MAX
    for name, level in (("a", 2), ("b", 1), ("c", 3)):
        await waiting.wait(name, level)
    places = [waiting.messages(SCHEDULE_TOPIC, at)[0].physical_offset for at in (1, 0, 2)]
    assert waiting.schedule.floor() == places[0]
    holder = await holder_at(waiting.store.reading, places[0])
    assert holder == RetentionHolder(DELAYED, "orders", "", places[0])
    await waiting.pass_time(5_000)
    assert waiting.bodies() == ["b", "a"]
    assert waiting.schedule.floor() == places[0], "their copies may not be durable yet"
    await waiting.pass_time(4_999)
    await waiting.schedule.close()
    assert waiting.schedule.floor() == places[2]
