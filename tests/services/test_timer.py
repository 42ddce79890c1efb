"""Messages at a time: not a millisecond early, once, as a real broker delivers them."""

from pathlib import Path
from struct import unpack
from threading import get_ident
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.java_hash import java_hash
from pocketmq.format.properties import encode_properties
from pocketmq.format.table_json import decode_table
from pocketmq.format.timer_layout import SLOT_COUNT
from pocketmq.log import commit_log
from pocketmq.model.errors import BrokerReadOnly, DiskSlow
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.reading import KeyRange
from pocketmq.model.stats import Gauge
from pocketmq.model.system_topics import revive_topic
from pocketmq.services.admin.purge import purge_topic
from pocketmq.services.admin.topics import remove_topics
from pocketmq.services.delay import dequeue
from pocketmq.store.read.cold_read import NowOrLater
from pocketmq.store.read.reading import Reading
from tests.golden_stores import GoldenStores
from tests.kit.rows import Row
from tests.kit.store_language import BORN_HOST
from tests.kit.timing import row_of, timing
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk
from tests.sim.quick_disk import QuickDisk


async def test_a_message_comes_when_its_second_is_over_and_not_a_millisecond_before() -> None:
    async with timing() as desk:
        await desk.wait("a", 5_000)
        await desk.wait("b", 7_500, queue_id=3)
        await desk.pass_time(4_000)
        assert desk.bodies() == []
        desk.clock.advance(1_000 - 1 - desk.clock.wall % 1_000)
        await desk.run()
        assert desk.bodies() == []
        desk.clock.advance(1)
        await desk.run()
        assert desk.bodies() == ["a"]
        await desk.pass_time(2_999)
        assert desk.bodies(queue_id=3) == []
        await desk.pass_time(1_000)
        assert desk.bodies(queue_id=3) == ["b"]


async def test_a_delivered_message_is_the_one_that_waited() -> None:
    async with timing() as desk:
        await desk.wait("a", 2_000, queue_id=1, mine="1", TAGS="t", KEYS="k l")
        (sent,) = desk.messages("rmq_sys_wheel_timer")
        await desk.pass_time(3_000)
        (got,) = desk.messages(queue_id=1)
        second = sent.store_timestamp_ms // 1_000 * 1_000
        assert got.properties == sent.properties | {
            "TIMER_ENQUEUE_MS": str(second), "TIMER_DEQUEUE_MS": str(got.store_timestamp_ms),
        }  # fmt: skip
        assert (got.born_timestamp_ms, got.born_host) == (sent.born_timestamp_ms, BORN_HOST)
        wanted = KeyRange("orders", "k", 9)
        assert [m.body for m in (await desk.store.reading.query(wanted)).messages] == [b"a"]


async def test_what_is_due_when_it_comes_comes_at_once() -> None:
    async with timing() as desk:
        await desk.wait("late", -5_000)
        properties = {"REAL_TOPIC": "orders", "REAL_QID": "0"}
        await desk.put_waiting(Row(b"timeless", encode_properties(properties), 0, 5, BORN_HOST))
        await desk.run()
        assert desk.bodies() == ["late", "timeless"]
        assert desk.messages()[0].properties["TIMER_ENQUEUE_MS"] == str(2**63 - 1)


async def test_messages_of_a_second_come_in_the_order_of_their_coming() -> None:
    async with timing() as desk:
        names = [f"m{number}" for number in range(700)]
        for begin in range(0, 700, 70):
            in_ms = 20_000 - 1_000 * (begin // 70)
            await desk.put_waiting(*[row_of(desk, n, in_ms) for n in names[begin : begin + 70]])
            await desk.pass_time(1_000)
        await desk.pass_time(9_000)
        assert desk.bodies() == []
        await desk.pass_time(1_000)
        assert desk.bodies() == names
        assert desk.timer.waiting_count == 0


async def test_what_waits_longer_than_the_window_comes_again(tmp_path: Path) -> None:
    days_ms = 86_400_000
    async with timing(tmp_path / "s", disk=QuickDisk(), timer_slot_count=SLOT_COUNT) as desk:
        await desk.wait("a", 2 * days_ms + days_ms // 2 - 500)
        await desk.wait("b", 2 * days_ms)
        await desk.wait("c", 5 * days_ms)
        begin = desk.clock.wall // 1_000 * 1_000
        await desk.pass_time(1_000)
        waiting = desk.store.timer.wheel
        assert waiting is not None
        assert waiting.used_from(0).tolist() == [
            begin + days_ms, begin + 2 * days_ms - 1_000, begin + 2 * days_ms
        ]  # fmt: skip
        for day in (1, 2, 3, 4, 5):
            await desk.pass_time(days_ms - 1_000, step_ms=days_ms // 4)
            assert desk.bodies() == {1: [], 2: ["b"], 3: ["b", "a"], 4: ["b", "a"]}.get(
                day, ["b", "a", "c"]
            )
            await desk.pass_time(1_000)
        assert desk.bodies() == ["b", "a", "c"]
        rolled = [m for m in desk.messages("rmq_sys_wheel_timer") if m.body == b"c"]
        assert [m.properties.get("TIMER_ROLL_TIMES") for m in rolled] == [None, "1", "2"]


@pytest.mark.parametrize("with_topic", [False, True])
async def test_a_message_that_is_taken_back_does_not_come(with_topic: bool) -> None:
    async with timing() as desk:
        for name in ("a", "b", "c"):
            await desk.wait(name, 5_000)
        await desk.wait("b", 5_000, topic="bills")
        said = "orders+KEYb" if with_topic else "KEYb"
        await desk.wait("marker", 5_000, key="KEYb", TIMER_DEL_UNIQKEY=said)
        await desk.pass_time(6_000)
        assert desk.bodies() == ["a", "c"]
        assert desk.bodies("bills") == (["b"] if with_topic else [])
        assert desk.timer.waiting_count == 0


async def test_a_marker_that_comes_too_late_changes_nothing() -> None:
    async with timing() as desk:
        await desk.wait("a", 1_000)
        await desk.pass_time(2_000)
        await desk.wait("marker", -1_000, TIMER_DEL_UNIQKEY="KEYa")
        await desk.pass_time(2_000)
        assert desk.bodies() == ["a"]


async def test_what_was_taken_back_stays_away_after_a_stop_beyond_its_time() -> None:
    async with timing() as desk:
        await desk.timer.close()
        for name in ("a", "b", "c"):
            await desk.wait(name, 5_000)
        await desk.wait("marker", 5_000, key="KEYb", TIMER_DEL_UNIQKEY="KEYb")
        await desk.store.close()
        desk.clock.advance(60_000)
        await desk.open()
        assert desk.bodies() == ["a", "c"]


async def test_what_comes_again_and_was_taken_back_stays_away_after_a_stop() -> None:
    async with timing() as desk:
        await desk.wait("a", 190_000_000)
        await desk.wait("b", 190_000_000)
        await desk.wait("marker", 190_000_000, key="KEYb", TIMER_DEL_UNIQKEY="KEYb")
        await desk.pass_time(2_000)
        await desk.timer.close()
        await desk.store.close()
        desk.clock.advance(200_000_000)
        await desk.open()
        await desk.pass_time(2_000)
        assert desk.bodies() == ["a"]


# -- starts ------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_waits_waits_on_after_a_start(is_killed: bool) -> None:
    async with timing() as desk:
        for number in range(60):
            await desk.wait(f"m{number}", 1_000 + 500 * number)
            if number % 7 == 0:
                await desk.pass_time(100, step_ms=100)
        for _ in range(8):
            await (desk.killed() if is_killed else desk.restarted())
            await desk.pass_time(4_500)
        assert desk.bodies() == [f"m{number}" for number in range(60)]


async def test_what_was_delivered_before_a_kill_does_not_come_again() -> None:
    async with timing() as desk:
        for number in range(10):
            await desk.wait(f"m{number}", 2_000)
            await desk.wait(f"n{number}", -1_000)
        for _ in range(5):
            await desk.killed()
            await desk.pass_time(1_000)
        assert sorted(desk.bodies()) == sorted(f"{c}{n}" for c in "mn" for n in range(10))


async def test_what_waited_for_a_queue_that_is_no_more_comes_once_where_consumers_read() -> None:
    async with timing() as desk:
        topics = desk.store.tables.topics
        await topics.create("bills", queue_count=4)
        await desk.wait("a", 2_000, topic="bills", queue_id=3)
        await topics.update("bills", read_queue_count=2, write_queue_count=2)
        for _ in range(5):
            await desk.killed()
            await desk.pass_time(1_000)
        assert desk.bodies("bills", 1) == ["a"]
        assert desk.bodies("bills", 3) == []


async def test_what_was_delivered_and_purged_before_a_kill_does_not_come_again() -> None:
    async with timing() as desk:
        for number in range(10):
            await desk.wait(f"m{number}", 2_000)
            await desk.wait(f"n{number}", -1_000)
        purged = 0
        for _ in range(5):
            purged += sum(one.message_count for one in await purge_topic(desk.store, "orders"))
            await desk.killed()
            await desk.pass_time(1_000)
        assert purged + len(desk.bodies()) == 20


async def test_a_timer_that_slept_delivers_all_that_is_due() -> None:
    async with timing() as desk:
        for number in range(50):
            await desk.wait(f"m{number}", 1_000 * number)
        await desk.pass_time(5_000)
        await desk.close()
        desk.clock.advance(20_000_000)
        await desk.open()
        assert desk.bodies() == [f"m{number}" for number in range(50)]


@pytest.mark.parametrize("slept_ms", [0, 5_000])
async def test_the_slot_that_was_next_comes_though_its_files_are_lost(slept_ms: int) -> None:
    async with timing() as desk:
        await desk.wait("a", 5_500)
        await desk.pass_time(5_000)
        assert desk.bodies() == []
        await desk.close()
        for name in ("timerwheel", "timerlog"):
            remove(desk.disk, desk.directory / name)
        desk.clock.advance(slept_ms)
        await desk.open()
        await desk.pass_time(2_000)
        assert desk.bodies() == ["a"]


@pytest.mark.parametrize("slept_ms", [0, 5_000])
@pytest.mark.parametrize("lost", ["timerwheel", "timerlog", "config/timercheck", "checks", "all"])
async def test_files_that_are_gone_are_made_anew(lost: str, slept_ms: int) -> None:
    """Without any check the wheel says from which slot on it goes on."""
    checks = ["config/timercheck", "config/timercheck.bak"]
    names = {"all": ["timerwheel", "timerlog", checks[0]], "checks": checks}.get(lost, [lost])
    async with timing() as desk:
        for number in range(40):
            await desk.wait(f"m{number}", 1_000 * number)
        await desk.pass_time(20_000)
        await desk.close()
        for name in names:
            remove(desk.disk, desk.directory / name)
        desk.clock.advance(slept_ms)
        await desk.open()
        await desk.pass_time(21_000)
        assert desk.bodies() == [f"m{number}" for number in range(40)]


async def test_a_wheel_of_another_length_is_made_anew_and_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with timing() as desk:
        await desk.wait("a", 9_000)
        await desk.pass_time(2_000)
        await desk.close()
        desk.disk.unlink(desk.directory / "timerwheel")
        desk.disk.write_file(desk.directory / "timerwheel", bytes(100))
        await desk.open()
        (said,) = [r for r in caplog.records if r.message == "timer.rebuilt"]
        assert "100 bytes, not 131072" in said.reason  # type: ignore[attr-defined]
        await desk.pass_time(9_000)
        assert desk.bodies() == ["a"]


def remove(disk: Disk, path: Path) -> None:
    """Removes a file, or a directory of files."""
    if not disk.is_directory(path):
        disk.unlink(path)
        return
    for name in disk.names(path):
        disk.unlink(path / name)
    disk.remove_directory(path)


# -- clocks ------------------------------------------------------------------------------------
HOUR_MS = 3_600_000


async def test_a_clock_set_forward_makes_nothing_early_and_nothing_stuck() -> None:
    async with timing() as desk:
        await desk.wait("before", 10_000)
        await desk.pass_time(2_000)
        desk.clock.wall += HOUR_MS
        await desk.run()
        await desk.wait("after", 5_000)
        await desk.pass_time(4_000)
        assert desk.bodies() == []
        await desk.pass_time(2_000)
        assert desk.bodies() == ["after"]
        await desk.pass_time(1_000)
        assert desk.bodies() == ["after"]
        await desk.pass_time(2_000)
        assert desk.bodies() == ["after", "before"]


async def test_a_clock_set_back_makes_nothing_late_and_nothing_early() -> None:
    async with timing() as desk:
        await desk.wait("over", 1_000)
        await desk.wait("before", 10_000)
        await desk.pass_time(2_000)
        desk.clock.wall -= HOUR_MS
        await desk.run()
        await desk.wait("after", 5_000)
        await desk.pass_time(4_000)
        assert desk.bodies() == ["over"]
        await desk.pass_time(2_000)
        assert desk.bodies() == ["over", "after"]
        await desk.pass_time(4_000)
        assert desk.bodies() == ["over", "after", "before"]
        await desk.pass_time(2 * HOUR_MS, step_ms=60_000)
        assert desk.bodies() == ["over", "after", "before"]


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS, -2_500])
async def test_after_a_jump_and_a_start_everything_comes_once(
    jump_ms: int, is_killed: bool
) -> None:
    async with timing() as desk:
        for number in range(12):
            await desk.wait(f"m{number}", 1_000 * number)
        await desk.pass_time(4_000)
        desk.clock.wall += jump_ms
        await desk.run()
        await (desk.killed() if is_killed else desk.restarted())
        await desk.pass_time(14_000)
        assert sorted(desk.bodies()) == sorted(f"m{number}" for number in range(12))
        await desk.pass_time(2 * HOUR_MS, step_ms=60_000)
        assert len(desk.bodies()) == 12


async def test_a_clock_set_back_before_the_start_loses_nothing() -> None:
    async with timing() as desk:
        await desk.wait("over", 2_000)
        await desk.wait("a", 30_000)
        await desk.pass_time(10_000)
        await desk.close()
        desk.clock.wall -= 60_000
        await desk.open()
        await desk.wait("b", 5_000)
        await desk.pass_time(6_000)
        assert desk.bodies() == ["over", "b"]
        await desk.killed()
        await desk.pass_time(80_000, step_ms=5_000)
        assert desk.bodies() == ["over", "b", "a"]


# -- a full disk, topics, leases ---------------------------------------------------------------
async def test_what_the_disk_or_the_store_refuse_comes_later() -> None:
    async with timing() as desk:
        for number in range(30):
            await desk.wait(f"m{number}", 3_000 + 200 * number)
        assert isinstance(desk.disk, SimDisk)
        desk.disk.capacity_bytes = 0
        await desk.pass_time(5_000)
        assert desk.bodies() == []
        desk.disk.capacity_bytes = None
        await desk.pass_time(4_000)
        desk.store.writing.refuse(BrokerReadOnly(why="a test says so"))
        await desk.pass_time(5_000)
        desk.store.writing.refuse(None)
        await desk.pass_time(4_000)
        assert desk.bodies() == [f"m{number}" for number in range(30)]


@pytest.mark.parametrize("had_queues", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_message_of_a_removed_topic_is_passed_over(
    caplog: pytest.LogCaptureFixture, *, had_queues: bool, is_killed: bool
) -> None:
    async with timing() as desk:
        await desk.store.tables.topics.create("bills", queue_count=1)
        if had_queues:
            await desk.wait("before", -1, topic="bills")
            await desk.run()
        await desk.wait("gone", 3_000, topic="bills")
        await desk.wait("there", 3_000)
        await remove_topics(desk.store, ["bills"])
        if is_killed:
            await desk.killed()
        await desk.pass_time(5_000)
        assert desk.bodies() == ["there"]
        assert desk.bodies("bills") == []
        assert desk.store.tables.topics.find("bills") is None
        assert [one.message for one in caplog.records].count("timer.discarded") == 1


@pytest.mark.parametrize("in_ms", [5_000, -5_000])
async def test_the_journal_of_leases_waits_while_they_are_open(in_ms: int) -> None:
    open_leases = {1}
    async with timing(is_open=open_leases.__contains__) as desk:
        topic = "rmq_sys_REVIVE_LOG_DefaultCluster"
        for name in ("settled", "open", "ack"):
            await desk.wait(name, in_ms, topic=topic, TAGS="ck")
        await desk.pass_time(8_000)
        assert desk.timer.waiting_count == 1
        await desk.killed()
        await desk.pass_time(3_000)
        assert desk.timer.waiting_count >= 1
        open_leases.clear()
        await desk.pass_time(4_000)
        assert desk.timer.waiting_count == 0
        assert desk.bodies(topic) == []


async def test_a_message_that_looks_like_the_journal_of_leases_is_delivered() -> None:
    """Tag, body and the topic's hash are those of a lease, but the topic is a user's."""
    async with timing() as desk:
        topic = "sNq_sys_REVIVE_LOG_DefaultCluster"
        assert java_hash(topic) == java_hash(revive_topic("DefaultCluster"))
        body = "REAL_TOPIC\x01rmq_sys_REVIVE_LOG_DefaultCluster\x02"
        for in_ms in (3_000, -3_000):
            await desk.wait(body, in_ms, topic=topic, TAGS="ck")
        await desk.pass_time(5_000)
        assert desk.bodies(topic) == [body] * 2


async def test_a_user_puts_no_message_off_by_a_property_of_the_brokers_own() -> None:
    async with timing() as desk:
        await desk.wait("a", 3_000, PMQ_TIMER_OUT_MS="9" * 18)
        await desk.pass_time(5_000)
        (got,) = desk.messages()
        assert got.properties["PMQ_TIMER_OUT_MS"] == "9" * 18


class ColdDisk(QuickDisk):
    """Notes which threads read the log from the disk."""

    __slots__ = ("threads",)

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def read_file(self, path: Path, position: int = 0, size_bytes: int | None = None) -> bytes:
        if "commitlog" in path.parts:
            self.threads.add(get_ident())
        return super().read_file(path, position, size_bytes)


async def test_a_journal_that_is_not_in_memory_is_read_apart_from_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log, "HOT_SIZE", 0)
    monkeypatch.setattr(dequeue, "LOOK_MAX", 4)  # It is looked at in parts.
    open_leases, topic = set(range(3, 7)), "rmq_sys_REVIVE_LOG_DefaultCluster"
    disk = ColdDisk()
    async with timing(tmp_path / "s", disk=disk, is_open=open_leases.__contains__) as desk:
        for number in range(10):
            await desk.wait(f"m{number}", 5_000, topic=topic, TAGS="ck")
        await desk.pass_time(1_000)
        disk.threads.clear()
        disk.drop_resident()
        await desk.pass_time(7_000)
        assert disk.threads
        assert get_ident() not in disk.threads
        assert desk.timer.waiting_count == len(open_leases)
        open_leases.clear()
        await desk.pass_time(4_000)
        assert desk.timer.waiting_count == 0
        assert desk.bodies(topic) == []


# -- what others rely on -----------------------------------------------------------------------
async def test_nothing_that_waits_may_be_let_go() -> None:
    async with timing() as desk:
        assert desk.timer.floor() == OFFSET_MAX
        await desk.wait("a", 100_000)
        first, _ = (desk.messages("rmq_sys_wheel_timer")[0].physical_offset, None)
        await desk.wait("b", 5_000)
        assert desk.timer.floor() <= first
        await desk.pass_time(10_000)
        assert desk.timer.floor() == first
        await desk.pass_time(100_000, step_ms=10_000)
        assert desk.bodies() == ["b", "a"]
        while desk.timer.floor() != OFFSET_MAX:  # Until that is written down.
            await desk.pass_time(1_000)


@pytest.mark.knob("store.timer_log_file_size_bytes")
async def test_files_of_the_log_go_when_all_of_theirs_was_delivered() -> None:
    async with timing() as desk:
        for number in range(100):
            await desk.wait(f"m{number}", 1_000 + 100 * number)
        await desk.pass_time(15_000)
        log = desk.store.timer.log
        assert log is not None
        assert len(log.files.files) == 6
        while desk.timer.floor() != OFFSET_MAX:
            await desk.pass_time(1_000)
        await desk.wait("last", 5_000)
        await desk.pass_time(12_000)
        for _ in range(100):  # Another thread writes how far it is, in its own time.
            if len(log.files.files) == 1:
                break
            await desk.pass_time(1_000)
        assert len(log.files.files) == 1


async def test_a_real_broker_finds_how_far_it_is() -> None:
    async with timing() as desk:
        await desk.wait("a", 4_000)
        await desk.wait("b", 40_000)
        await desk.pass_time(10_000)
        second = desk.clock.wall // 1_000 * 1_000
        await desk.close()
        content = desk.disk.read_file(desk.directory / "config" / "timercheck")
        assert unpack(">qqqq", content[:32]) == (second, 104, 2, 2)
        await desk.open()


async def test_what_waits_is_counted_by_topic_and_by_time() -> None:
    async with timing() as desk:
        for number in range(4):
            await desk.wait(f"m{number}", 3_000 + 30_000 * number)
            await desk.wait(f"n{number}", 100_000, topic="bills")
        await desk.wait("marker", 100_000, topic="bills", key="KEYn1", TIMER_DEL_UNIQKEY="KEYn1")
        for restarts in (0, 1, 2):
            await desk.pass_time(2_000)
            waiting = {"bills": 3, "orders": 4 if not restarts else 3}
            stats = {stat.name: stat for stat in desk.timer.stats}
            by_topic = stats["rocketmq_timing_messages"]
            within = stats["rocketmq_timer_message_snapshot"]
            assert isinstance(by_topic, Gauge)
            assert isinstance(within, Gauge)
            assert by_topic.read() == {(topic,): count for topic, count in waiting.items()}
            bounds = within.read()
            assert isinstance(bounds, dict)
            assert bounds["60",] == waiting["orders"] - (2 if not restarts else 1)
            assert bounds["86400",] == 3 + waiting["orders"]
            await desk.restarted()
            content = desk.disk.read_file(desk.directory / "config" / "timermetrics")
            rows = decode_table(content)["timingCount"]
            assert {topic: row["count"] for topic, row in rows.items()} == waiting


async def test_what_waits_is_counted_once_though_its_slot_was_read_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    placed, tries = Reading.placed, [0]

    def slow_once(reading: Reading, *wanted: Any) -> NowOrLater[list[bytes]]:
        tries[0] += 1
        if tries[0] == 1:
            raise DiskSlow(tries=1)
        return placed(reading, *wanted)

    async with timing() as desk:
        for number in range(4):
            await desk.wait(f"m{number}", 3_000 if number % 2 else 60_000)
        monkeypatch.setattr(Reading, "placed", slow_once)
        await desk.pass_time(8_000)
        assert tries[0] > 1
        assert desk.bodies() == ["m1", "m3"]
        by_topic = {stat.name: stat for stat in desk.timer.stats}["rocketmq_timing_messages"]
        assert isinstance(by_topic, Gauge)
        assert by_topic.read() == {("orders",): 2}


# -- a real broker's store ---------------------------------------------------------------------
async def test_it_goes_on_where_a_real_broker_stopped(golden: GoldenStores, tmp_path: Path) -> None:
    directory = golden.copy("semantics", tmp_path / "s")
    shape = {k: v for k, v in golden.shape("semantics").items() if k != "index_style"}
    manifest = golden.manifest("semantics")["records"]
    waited = [r for r in manifest if r["topic"] == "rmq_sys_wheel_timer"]
    read_ms = 1_795_221_494_000
    left = [r for r in waited if int(r["properties"]["TIMER_OUT_MS"]) >= read_ms]
    wanted = {
        r["uniqKey"] for r in left
        if r["properties"]["REAL_TOPIC"] == "TimerT" and "TIMER_DEL_UNIQKEY" not in r["properties"]
    }  # fmt: skip
    clock = FakeClock(read_ms + 400)
    settings = {**shape, "timer_slot_count": SLOT_COUNT, "timer_log_file_size_bytes": 1 << 20}
    async with timing(directory, disk=QuickDisk(), clock=clock, **settings) as desk:
        before = {m.unique_key for q in (0, 1) for m in desk.messages("TimerT", q)}
        assert len(wanted) == 31
        assert desk.timer.waiting_count >= len(wanted)
        last_ms = read_ms
        for due_ms in sorted({int(r["properties"]["TIMER_OUT_MS"]) for r in left}):
            await desk.pass_time(max(due_ms - last_ms - 2_000, 1), step_ms=40_000_000)
            await desk.pass_time(5_000)
            last_ms = clock.wall
        after = [m for q in (0, 1) for m in desk.messages("TimerT", q)]
        assert {m.unique_key for m in after} - before == wanted
        assert len(after) == len(before) + len(wanted)
        for message in after[len(before) :]:
            deliver_ms = int(message.properties["TIMER_OUT_MS"])
            assert deliver_ms < message.store_timestamp_ms
