"""The timer at its bounds: one read, one put, one name more; and what it counts."""

from typing import Any

import numpy as np
import pytest

from pocketmq.format.java_hash import java_hash
from pocketmq.format.properties import encode_properties
from pocketmq.model.errors import DiskFull, StoreDamaged
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.stats import Counter, Gauge
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import HALF_TOPIC
from pocketmq.services.delay import deliver, dequeue, timer_counts
from pocketmq.services.delay.deliver import TimerDelivery
from pocketmq.services.delay.enqueue import slot_times
from pocketmq.services.delay.levels import Schedule
from pocketmq.services.delay.timer import Timer
from pocketmq.services.delay.timer_counts import WaitingCounts
from pocketmq.store.message_store import MessageStore
from pocketmq.store.write.writing import Writing
from tests.kit.rows import Row
from tests.kit.spoiled import spoil
from tests.kit.store_language import BORN_HOST, STORE_HOST
from tests.kit.timing import TimingDesk, no_lease, row_of, timing

KIB = 1_024
LARGE: dict[str, Any] = {"commit_log_file_size_bytes": 4 << 20}


def puts_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns how many messages each put has from now on."""
    sizes: list[int] = []
    put = Writing.put

    async def counted(writing: Writing, runs: Any, **words: Any) -> Any:
        sizes.append(sum(len(batch) for _, batch in runs))
        return await put(writing, runs, **words)

    monkeypatch.setattr(Writing, "put", counted)
    return sizes


def counted(desk: TimingDesk, name: str) -> dict[str, float]:
    """Returns what a counter or a gauge of the timer says, by its only label."""
    found = {stat.name: stat for stat in desk.timer.stats}[name]
    said = found.read() if isinstance(found, Gauge) else _counts_of(found)
    assert isinstance(said, dict)
    return {label: count for (label,), count in said.items()}


def _counts_of(stat: object) -> dict[tuple[str, ...], float]:
    assert isinstance(stat, Counter)
    return dict(stat.values)


async def put_sized(desk: TimingDesk, count: int, in_ms: int, size: int) -> None:
    """Puts messages whose records have so many bytes."""
    begin = desk.store.appended
    await desk.put_waiting(row_of(desk, "", in_ms, key="k00"))
    empty = desk.store.appended - begin
    await desk.run()
    await desk.pass_time(max(in_ms, 0) + 1_000)
    body = "x" * (size - empty)
    rows = [row_of(desk, body, in_ms, key=f"k{number:02d}") for number in range(1, count + 1)]
    await desk.put_waiting(*rows)


# -- one read, one put -------------------------------------------------------------------------


async def test_one_read_takes_512_messages_in() -> None:
    async with timing() as desk:
        await desk.put_waiting(*[row_of(desk, f"m{number}", 60_000) for number in range(600)])
        lags = {desk.timer.lag}
        while desk.timer.lag:
            desk.clock.advance(60)
            await desk.part(1)
            lags.add(desk.timer.lag)
        assert lags == {600, 88, 0}


async def test_one_put_of_a_slot_has_256_messages_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    async with timing() as desk:
        await desk.put_waiting(*[row_of(desk, f"m{number}", 3_000) for number in range(600)])
        await desk.pass_time(1_000)
        sizes = puts_of(monkeypatch)
        await desk.pass_time(4_000)
        assert sizes == [256, 256, 88]


async def test_one_put_of_what_is_due_has_128_messages_at_most_each_of_them_put_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with timing() as desk:
        names = [f"m{number}" for number in range(300)]
        await desk.put_waiting(*[row_of(desk, name, -3_000) for name in names])
        sizes = puts_of(monkeypatch)
        await desk.run()
        assert sizes == [128, 128, 44]
        assert desk.bodies() == names


async def test_what_was_put_before_a_put_was_refused_is_not_put_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put, tries = Writing.put, [0]

    async def third_refused(writing: Writing, runs: Any, **words: Any) -> Any:
        tries[0] += 1
        if tries[0] == 3:
            raise DiskFull(path="commitlog")
        return await put(writing, runs, **words)

    async with timing() as desk:
        names = [f"m{number}" for number in range(300)]
        await desk.put_waiting(*[row_of(desk, name, -3_000) for name in names])
        with monkeypatch.context() as patch:
            patch.setattr(Writing, "put", third_refused)
            await desk.pass_time(3_000)
        assert tries[0] == 4
        assert desk.bodies() == names
        while desk.timer.floor() != OFFSET_MAX:
            await desk.pass_time(1_000)


@pytest.mark.parametrize(
    ("in_ms", "size", "puts"),
    [
        (3_000, 64 * KIB, [4, 4]), (3_000, 64 * KIB + 1, [3, 3, 2]),
        (-3_000, 64 * KIB, [4, 4]), (-3_000, 64 * KIB - 1, [5, 3]),
    ],
)  # fmt: skip
async def test_one_put_has_256_kib_of_records(
    in_ms: int, size: int, puts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with timing(**LARGE) as desk:
        await put_sized(desk, 8, in_ms, size)
        sizes = puts_of(monkeypatch)
        await desk.pass_time(6_000)
        assert sizes == puts


@pytest.mark.parametrize(("more", "puts"), [(0, [2, 2, 2]), (1, [3, 3])])
async def test_a_put_of_what_is_due_ends_where_it_has_so_many_bytes(
    more: int, puts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "PUT_BYTES_MAX", 2 * KIB + more)
    async with timing() as desk:
        await put_sized(desk, 6, -3_000, KIB)
        sizes = puts_of(monkeypatch)
        await desk.run()
        assert sizes == puts


async def test_a_slot_with_more_units_than_one_look_follows_is_delivered_whole(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dequeue, "CHAIN_MAX", 8)
    async with timing() as desk:
        names = [f"m{number}" for number in range(30)]
        await desk.put_waiting(*[row_of(desk, name, 3_000) for name in names])
        await desk.pass_time(5_000)
        assert desk.bodies() == names
        assert "timer.damaged" not in [r.message for r in caplog.records]


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("left_ms", "ahead_ms"),
    [(-1_000, None), (0, DAY_MS), (56_999_000, DAY_MS), (57_600_000, 2 * DAY_MS)],
)
def test_what_waits_for_longer_than_the_window_waits_in_it(
    left_ms: int, ahead_ms: int | None
) -> None:
    write_ms, window_ms = 1_795_000_000_000, 2 * DAY_MS
    due_ms = write_ms + window_ms + left_ms
    times_ms, is_later = slot_times(np.array([due_ms]), write_ms)
    assert times_ms.tolist() == [due_ms if ahead_ms is None else write_ms + ahead_ms]
    assert is_later.tolist() == [ahead_ms is not None]


# -- starts and stops --------------------------------------------------------------------------


async def test_before_it_begins_nothing_may_go() -> None:
    async with timing() as desk:
        timer = Timer(desk.store, STORE_HOST, no_lease)
        assert (timer.floor(), timer.lag, timer.waiting_count) == (0, 0, 0)


async def test_what_is_unread_may_not_go_and_what_was_read_before_it_may() -> None:
    async with timing() as desk:
        for name in ("a", "b"):
            await desk.wait(name, -3_000)
            await desk.run()
        while desk.timer.floor() != OFFSET_MAX:
            await desk.pass_time(1_000)
        last = desk.messages(TIMER_TOPIC)[-1].physical_offset
        await desk.wait("c", 3_000)
        assert desk.timer.floor() == last
        await desk.pass_time(5_000)
        await desk.restarted()
        end = desk.store.appended
        await desk.wait("d", 3_000)
        assert desk.timer.floor() == end


async def test_what_was_read_of_many_late_messages_may_go_before_the_others_are_read() -> None:
    async with timing() as desk:
        await desk.put_waiting(*[row_of(desk, f"m{number}", -3_000) for number in range(600)])
        while desk.timer.lag == 600:
            await desk.part(1)
        assert desk.timer.lag == 88
        assert desk.timer._arriving is not None
        last = desk.messages(TIMER_TOPIC)[511].physical_offset
        assert desk.timer._arriving.unread_from == last


async def test_a_late_message_that_came_while_the_wheel_was_lost_is_delivered() -> None:
    async with timing() as desk:
        await desk.wait("a", 3_000)
        await desk.pass_time(5_000)
        await desk.timer.close()
        await desk.wait("late", -5_000)
        await desk.store.close()
        desk.disk.unlink(desk.directory / "timerwheel")
        for name in desk.disk.names(desk.directory / "timerlog"):
            desk.disk.unlink(desk.directory / "timerlog" / name)
        desk.disk.remove_directory(desk.directory / "timerlog")
        await desk.open()
        await desk.pass_time(2_000)
        assert desk.bodies() == ["a", "late"]


async def test_a_recall_behind_a_damaged_message_counts_as_the_time_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with timing() as desk:
        for name in ("a", "b"):
            await desk.wait(name, 5_000)
        await desk.pass_time(1_000)
        await desk.wait("damaged", 60_000)
        await desk.wait("marker", 4_000, key="KEYb", TIMER_DEL_UNIQKEY="KEYb")
        spoil(desk.store, desk.messages(TIMER_TOPIC)[2].physical_offset)
        desk.clock.advance(10_000)
        await desk.run()
        assert desk.bodies() == ["a"]
        assert [r.message for r in caplog.records].count("timer.discarded") == 1


# -- what is counted ---------------------------------------------------------------------------


def test_of_topics_so_many_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_counts, "NAMES_MAX", 2)
    known = WaitingCounts(["a", "b"])
    assert [known.name(java_hash(topic)) for topic in "abc"] == ["a", "b", ""]
    known.know(java_hash("c"), "c")
    assert [known.knows(java_hash(topic)) for topic in "abc"] == [False, False, True]


def test_65536_names_of_topics_are_known() -> None:
    known = WaitingCounts([])
    for number in range(65_536):
        known.know(number, "t")
    assert known.knows(0)
    known.know(65_536, "t")
    assert not known.knows(0)


async def test_what_left_the_timer_is_counted_by_topic_and_by_why_it_went_nowhere() -> None:
    async with timing() as desk:
        for in_ms in (3_000, -3_000):
            await desk.wait("a", in_ms)
            await desk.wait("b", in_ms, topic="bills")
            await desk.wait("odd", in_ms, empty="")
            await desk.wait("nowhere", in_ms, topic="", empty="")
            await desk.wait("nowhere", in_ms, topic="")
        await desk.wait("gone", 3_000, key="KEYgone")
        await desk.wait("gone", 3_000, key="KEYgone", empty="")
        await desk.wait("marker", 3_000, key="KEYgone", TIMER_DEL_UNIQKEY="KEYgone")
        await desk.pass_time(5_000)
        assert sorted(desk.bodies()) == ["a", "a", "odd", "odd"]
        assert counted(desk, "rocketmq_timer_dequeue_total") == {"orders": 4, "bills": 2}
        assert counted(desk, "pocketmq_timer_dropped_total") == {"discarded": 4, "recalled": 2}
        assert counted(desk, "rocketmq_timing_messages") == {}


@pytest.mark.parametrize("lost", [["a"], ["a", "c"], ["marker"], ["a", "marker"]])
async def test_each_record_that_is_lost_as_its_time_comes_is_counted_once(
    lost: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with timing() as desk:
        for name in ("a", "b", "c"):
            await desk.wait(name, 5_000)
        await desk.wait("marker", 5_000, key="KEYx", TIMER_DEL_UNIQKEY="KEYx")
        await desk.pass_time(1_000)
        for message in desk.messages(TIMER_TOPIC):
            if message.body.decode() in lost:
                spoil(desk.store, message.physical_offset)
        await desk.pass_time(6_000)
        assert desk.bodies() == [name for name in "abc" if name not in lost]
        assert counted(desk, "pocketmq_timer_dropped_total") == {"discarded": len(lost)}
        told = [vars(one)["count"] for one in caplog.records if one.message == "timer.discarded"]
        assert sum(told) == len(lost)


async def test_a_record_that_is_lost_is_counted_once_though_its_slot_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put, tries = Writing.put, [0]

    async def first_refused(writing: Writing, runs: Any, **words: Any) -> Any:
        tries[0] += 1
        if tries[0] == 1:
            raise DiskFull(path="commitlog")
        return await put(writing, runs, **words)

    async with timing() as desk:
        for name in ("a", "b"):
            await desk.wait(name, 5_000)
        await desk.pass_time(1_000)
        spoil(desk.store, desk.messages(TIMER_TOPIC)[0].physical_offset)
        monkeypatch.setattr(Writing, "put", first_refused)
        await desk.pass_time(8_000)
        assert (desk.bodies(), tries) == (["b"], [2])
        assert counted(desk, "pocketmq_timer_dropped_total") == {"discarded": 1}
        assert [one.message for one in caplog.records].count("timer.discarded") == 1


async def test_what_is_left_of_a_slot_is_shown() -> None:
    async with timing() as desk:
        await desk.put_waiting(*[row_of(desk, f"m{number}", 3_000) for number in range(600)])
        await desk.pass_time(1_000)
        (gauge,) = [one for one in desk.timer.stats if one.name == "rocketmq_timer_dequeue_lag"]
        assert isinstance(gauge, Gauge)
        assert gauge.read() == 0
        desk.clock.advance(4_000)
        shown: set[Any] = set()
        while len(desk.bodies()) < 600:
            await desk.part(1)
            shown.add(gauge.read())
        assert {344, 88} <= shown <= {600, 344, 88, 0}
        await desk.run()
        assert gauge.read() == 0


async def test_what_waits_is_counted_up_to_these_bounds() -> None:
    async with timing() as desk:
        await desk.wait("a", 59_500)
        await desk.pass_time(1_000)
        within = counted(desk, "rocketmq_timer_message_snapshot")
        assert within == {
            "5": 0, "60": 1, "300": 1, "900": 1, "3600": 1, "14400": 1, "28800": 1, "86400": 1
        }  # fmt: skip


# -- places ------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_ms", [3_000, -3_000])
@pytest.mark.parametrize("topic", ["", HALF_TOPIC, TIMER_TOPIC])
async def test_what_says_no_topic_of_a_users_goes_nowhere(topic: str, in_ms: int) -> None:
    async with timing() as desk:
        await desk.wait("lost", in_ms, topic=topic)
        await desk.wait("kept", in_ms)
        await desk.pass_time(5_000)
        assert desk.bodies() == ["kept"]
        assert counted(desk, "pocketmq_timer_dropped_total") == {"discarded": 1}


@pytest.mark.parametrize(
    ("queue", "is_one"),
    [("0000000003", True), ("0" * 20 + "3", True), ("2147483648", False), ("x", False)],
)
async def test_a_queue_is_a_number_of_31_bits(queue: str, *, is_one: bool) -> None:
    async with timing() as desk:
        said = {
            "REAL_TOPIC": "fresh", "REAL_QID": queue, "TIMER_OUT_MS": str(desk.clock.wall + 3_000)
        }  # fmt: skip
        await desk.put_waiting(Row(b"a", encode_properties(said), 0, 5, BORN_HOST))
        await desk.pass_time(5_000)
        found = desk.store.tables.topics.find("fresh")
        assert (found.read_queue_count if found else 0) == (4 if is_one else 0)
        assert len(desk.bodies("fresh", 3)) == is_one


async def test_the_last_number_of_a_queue_stands_for_one_that_is_read() -> None:
    last = 2**31 - 1
    async with timing() as desk:
        await desk.wait("a", 3_000, queue_id=last)
        await desk.pass_time(5_000)
        assert desk.bodies("orders", last % 4) == ["a"]
        assert counted(desk, "pocketmq_timer_dropped_total") == {}


# -- the journal of leases ---------------------------------------------------------------------

REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


@pytest.mark.parametrize(("days", "keeps_time"), [(13, True), (24, True), (26, False)])
async def test_an_entry_that_moves_says_when_it_was_written_as_long_as_its_delay_has_room(
    days: int, *, keeps_time: bool
) -> None:
    async with timing(is_open={0}.__contains__) as desk:
        await desk.wait("open", 3_000, topic=REVIVE, TAGS="ck")
        await desk.pass_time(1_000)
        ((before,),) = [found for found in desk.store.timer.waiting(0) if len(found)]
        await desk.close()
        desk.clock.advance(days * DAY_MS)
        await desk.open()
        *_, after = [unit for found in desk.store.timer.waiting(0) for unit in found]
        assert int(after["write_time"] + after["delay"]) > desk.clock.wall
        assert bool(after["write_time"] == before["write_time"]) is keeps_time


async def test_settled_entries_are_put_nowhere_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with timing() as desk:
        for name in ("a", "b"):
            await desk.wait(name, 3_000, topic=REVIVE, TAGS="ck")
        await desk.pass_time(1_000)
        asked: list[int] = []
        put = TimerDelivery.put

        async def told(putting: TimerDelivery, messages: Any, *more: Any) -> None:
            asked.append(len(messages))
            await put(putting, messages, *more)

        monkeypatch.setattr(TimerDelivery, "put", told)
        await desk.pass_time(4_000)
        assert sum(asked) == 0
        assert counted(desk, "pocketmq_timer_dropped_total") == {"settled": 2}


# -- a damaged store ---------------------------------------------------------------------------


async def test_in_a_damaged_store_nothing_is_delivered_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with timing() as desk:
        services = (desk.timer, Schedule(desk.store, STORE_HOST))
        assert [service.is_on for service in services] == [True, True]
        found = StoreDamaged(path="log", file_position=0, begin=0, end=1, why="a test says so")
        with monkeypatch.context() as patch:
            patch.setattr(MessageStore, "damage", found)
            assert [service.is_on for service in services] == [False, False]
            assert desk.timer.floor() == OFFSET_MAX
