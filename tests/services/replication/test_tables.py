"""Tables of a leader on a follower: in order, durable, and complete after any cut or crash."""

import asyncio
from collections.abc import Awaitable, Callable
from errno import EIO
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.format.names import BACKUP_SUFFIX
from pocketmq.format.order_changes import OrderChange
from pocketmq.format.order_row import OrderedDelivery, QueueOrder
from pocketmq.format.timer_layout import TimerProgress
from pocketmq.model.errors import FsyncFailed, NotReplicated
from pocketmq.model.step import Now
from pocketmq.services.replication.table_copy import PAUSE_MS, TableCopy
from pocketmq.services.replication.table_feed import Quorum, TableCursor, TableFeed
from pocketmq.services.replication.table_record import (
    APPEND,
    DROP,
    FILE,
    RecordRefused,
    TableRecord,
    decode_record,
)
from pocketmq.store.tables.copied_files import (
    COPIED,
    EARLY,
    JOURNAL,
    ORDERS,
    TIMER_CHECK,
    TIMER_LOG,
    timer_file,
)
from pocketmq.store.tables.order_info import FOLD_INTERVAL_MS
from pocketmq.store.tables.tables import Tables
from pocketmq.store.tables.users import UserTable
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk

PLACE = Path("/store")
TOPICS, OFFSETS = "config/topics.json", "config/consumerOffset.json"
REMOVED = "pocketmq/removed.json"


class Leading:
    """The tables of a leader, and what was sent to its follower; the log grows by `log`."""

    def __init__(self, needed: int = 0) -> None:
        self.disk, self.clock, self.log, self.needed = SimDisk(), FakeClock(), 0, needed
        self.order = QueueOrder()
        self.promised = 0
        self.begin()

    def begin(self) -> None:
        self.tables = Tables(self.disk, PLACE, self.clock, order_journal_bytes=4_096)
        self.tables.read()
        self.users = UserTable(self.disk, PLACE)
        self.feed = TableFeed(
            self.tables.files, self.clock, lambda: self.log, lambda: Quorum(self.needed, 3_000)
        )
        self.feed.begin()
        self.cursor = self.feed.connect()

    def close(self) -> None:
        self.feed.close()
        self.tables.close()
        self.users.close()

    def restart(self) -> None:
        self.close()
        self.begin()

    def reconnect(self) -> None:
        self.feed.disconnect(self.cursor)
        self.cursor = self.feed.connect()

    async def reconnect_with(self, follower: "Following") -> None:
        self.feed.disconnect(self.cursor)
        follower.copy.begin()
        self.cursor = self.feed.connect(await follower.copy.timer_proof())

    def look(self) -> None:
        self.feed.step(Now(self.clock.monotonic_ms(), self.clock.wall_ms()))

    async def deliver(self) -> None:
        """Leases the next message of a FIFO queue, and settles the one before."""
        begin = self.order.next_offset
        given_out = OrderedDelivery(1, 1_000 + begin, 61_000, "c 1")
        self.order = order = QueueOrder(begin + 1, frozenset(), {begin + 1: given_out})
        change = OrderChange(False, begin + 1, [], [(begin + 1, given_out)])
        self.tables.orders.change("g", "fifo", 0, lambda: order, lambda: change)
        await self.tables.orders.saved()

    async def fold(self) -> None:
        self.clock.advance(FOLD_INTERVAL_MS)
        self.tables.orders.save_soon()
        await self.tables.orders.saved()

    async def commit(self) -> None:
        self.log += 100
        await self.tables.commit("g", "orders", 0, self.log)

    async def add_user(self) -> None:
        await self.users.save()


class Following:
    """A follower's disk, which loses power at `crash`."""

    def __init__(self) -> None:
        self.disk, self.clock, self.log = SimDisk(), FakeClock(), 0
        self.begin()

    def begin(self) -> None:
        self.tables = Tables(self.disk, PLACE, self.clock)
        self.reloaded: list[str] = []
        self.dropped_count = 0
        self.copy = TableCopy(self.tables.files, self.reloaded.append, self._drop_removed)

    async def _drop_removed(self) -> None:
        assert self.reloaded[-1] == REMOVED
        self.dropped_count += 1

    def crash(self, seed: int) -> None:
        self.tables.close()
        self.disk = SimDisk(self.disk.image.cut(Random(seed)))
        self.begin()

    def content(self, name: str) -> bytes | None:
        return self.tables.files.read(name)


async def send(
    cursor: TableCursor, leader: Leading, follower: Following, limit: int = 1_000
) -> list[TableRecord]:
    """Sends up to `limit` due records, and the log below them first; returns the records."""
    sent: list[TableRecord] = []
    while len(sent) < limit and (record := await cursor.next_record()) is not None:
        follower.log = max(follower.log, record.at)
        await follower.copy.take(decode_record(record.encode()), follower.log)
        leader.feed.acknowledge(cursor, follower.copy.seq)
        sent.append(record)
    return sent


def run(story: Callable[[Leading, Following], Awaitable[None]], needed: int = 0) -> None:
    async def both() -> None:
        leader, follower = Leading(needed), Following()
        try:
            await asyncio.wait_for(story(leader, follower), 20)
        finally:
            leader.close()
            follower.tables.close()

    asyncio.run(both())


def assert_equal(leader: Leading, follower: Following) -> None:
    for name in COPIED:
        assert follower.content(name) == leader.tables.files.read(name), name


CHANGES: dict[str, Callable[[Leading], Awaitable[object]]] = {
    "topic": lambda one: one.tables.topics.create(f"t{one.clock.wall_ms()}", queue_count=2),
    "group": lambda one: one.tables.groups.ensure(f"g{one.clock.wall_ms()}"),
    "commit": Leading.commit,
    "deliver": Leading.deliver,
    "fold": Leading.fold,
    "user": Leading.add_user,
    "removed": lambda one: one.tables.removed.add("gone", {0: one.clock.wall_ms()}),
    "floor": lambda one: one.tables.floors.raise_durably({("orders", 0): one.log}),
    "delay": lambda one: one.tables.delay_offsets.put({1: one.log}, one.log, {}),
}
STEPS = st.lists(
    st.one_of(
        st.sampled_from(sorted(CHANGES)),
        st.just("deliver"),
        st.integers(1, 4),
        st.just("cut"),
        st.tuples(st.just("crash"), st.integers(0, 1 << 16)),
    ),
    max_size=30,
)


@given(STEPS)
@example(["deliver", "deliver", 20, "fold", "deliver", 1])
def test_after_any_changes_cuts_and_crashes_the_files_are_the_leaders(
    steps: list[str | int | tuple[str, int]],
) -> None:
    async def story(leader: Leading, follower: Following) -> None:
        for step in steps:
            leader.clock.advance(1)
            if isinstance(step, int):
                await send(leader.cursor, leader, follower, limit=step)
            elif isinstance(step, tuple):
                follower.crash(step[1])
                leader.reconnect()
            elif step == "cut":
                leader.reconnect()
                follower.copy.begin()
            else:
                await CHANGES[step](leader)
            check_orders(leader, follower)
        await send(leader.cursor, leader, follower)
        assert_equal(leader, follower)
        assert follower.disk.names(PLACE / "timerlog") == []
        follower.crash(7)
        assert_equal(leader, follower)
        assert leader.cursor.acknowledged == leader.feed.seq

    run(story)


def check_orders(leader: Leading, follower: Following) -> None:
    """Whenever it is promoted, a follower has the FIFO changes that it ever acknowledged."""
    if leader.cursor.acknowledged == leader.feed.seq:
        leader.promised = leader.order.next_offset
    tables = Tables(SimDisk(follower.disk.image.cut(Random(1))), PLACE, FakeClock())
    tables.orders.load()
    assert tables.orders.find("g", "fifo", 0, 0).next_offset >= leader.promised
    tables.close()


def test_a_table_that_refers_to_the_log_waits_for_it() -> None:
    async def story(leader: Leading, follower: Following) -> None:
        await leader.commit()
        await leader.tables.topics.create("t", queue_count=1)
        records = {one.name: one for one in await send(leader.cursor, leader, follower)}
        assert records[OFFSETS].at == leader.log == 100
        assert all(records[name].at == 0 for name in EARLY)
        with pytest.raises(RecordRefused, match="needs the log up to 100, it ends at 99"):
            await follower.copy.take(records[OFFSETS]._replace(content=b"{}"), 99)
        assert follower.content(OFFSETS) == leader.tables.files.read(OFFSETS)

    run(story)


def test_rows_follow_their_table_and_a_slow_follower_gets_only_the_last_content() -> None:
    async def story(leader: Leading, follower: Following) -> None:
        await leader.deliver()
        await send(leader.cursor, leader, follower)
        await leader.deliver()
        await leader.deliver()
        (rows,) = await send(leader.cursor, leader, follower)
        assert (rows.name, rows.kind, rows.position) == (JOURNAL, APPEND, 0)
        for _ in range(3):
            await leader.fold()
            await leader.deliver()
            await leader.commit()
        records = await send(leader.cursor, leader, follower)
        assert [one.name for one in records] == ["config/subscriptionGroup.json", OFFSETS, ORDERS,
                                                 JOURNAL]  # fmt: skip
        assert_equal(leader, follower)

    run(story)


def test_a_change_is_acknowledged_once_its_followers_have_it_on_disk() -> None:
    async def story(leader: Leading, follower: Following) -> None:
        await send(leader.cursor, leader, follower)
        created = asyncio.ensure_future(leader.tables.topics.create("t", queue_count=1))
        await leader.feed.arrived.reached(leader.feed.arrived.value + 1)
        record = await leader.cursor.next_record()
        assert record is not None
        assert (record.name, record.kind) == (TOPICS, FILE)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not created.done(), "no follower has it"
        assert leader.feed.is_behind
        leader.feed.acknowledge(leader.cursor, record.seq)
        await created
        assert not leader.feed.is_behind

    run(story, needed=1)


@pytest.mark.parametrize("connected", [True, False])
def test_without_its_followers_a_change_is_an_error_and_progress_is_not(connected: bool) -> None:
    async def story(leader: Leading, follower: Following) -> None:
        if not connected:
            leader.feed.disconnect(leader.cursor)
        created = asyncio.ensure_future(leader.tables.topics.create("t", queue_count=1))
        delivered = asyncio.ensure_future(leader.deliver())
        if connected:
            await leader.feed.arrived.reached(5)
            leader.look()
            assert not created.done()
            leader.clock.advance(3_000)
            leader.look()
        with pytest.raises(NotReplicated, match=r"topics.json is stored here, but 0 of 1 follow"):
            await created
        await delivered
        assert leader.tables.topics.find("t") is not None
        leader.needed = 0
        await leader.tables.topics.create("t", queue_count=1)

    run(story, needed=1)


def test_a_follower_that_has_half_of_what_changed_does_not_end_a_wait() -> None:
    async def story(leader: Leading, follower: Following) -> None:
        await send(leader.cursor, leader, follower)
        removed = asyncio.ensure_future(leader.tables.removed.add("gone", {0: 5}))
        created = asyncio.ensure_future(leader.tables.topics.create("t", queue_count=1))
        seq = leader.feed.seq + 2
        while leader.feed.seq < seq:
            await leader.feed.arrived.reached(leader.feed.arrived.value + 1)
        (first,) = await send(leader.cursor, leader, follower, limit=1)
        await asyncio.sleep(0)
        assert (first.name, removed.done(), created.done()) == (REMOVED, False, False)
        (second,) = await send(leader.cursor, leader, follower)
        assert second.name == TOPICS
        await asyncio.gather(removed, created)

    run(story, needed=1)


def test_a_record_that_could_not_be_written_is_not_acknowledged() -> None:
    async def story(leader: Leading, follower: Following) -> None:
        await send(leader.cursor, leader, follower)
        await leader.tables.topics.create("t", queue_count=1)
        follower.disk.fail("sync", EIO)
        with pytest.raises(FsyncFailed):
            await send(leader.cursor, leader, follower)
        assert follower.copy.seq == leader.cursor.acknowledged == 1

    run(story)


@pytest.mark.parametrize("damage", ["renamed only", "no JSON"])
def test_a_table_of_which_only_the_previous_version_is_left_is_copied(damage: str) -> None:
    async def story(leader: Leading, follower: Following) -> None:
        await leader.tables.topics.create("t", queue_count=1)
        written = leader.tables.files.read(TOPICS)
        await send(leader.cursor, leader, follower)
        path = PLACE / TOPICS
        leader.disk.rename(path, path.with_name(path.name + BACKUP_SUFFIX))  # Then it was killed.
        if damage == "no JSON":
            leader.disk.write_file(path, b"{")
        leader.restart()
        follower.copy.begin()
        await send(leader.cursor, leader, follower)
        assert leader.tables.topics.find("t") is not None
        assert follower.content(TOPICS) == written
        await leader.tables.topics.create("u", queue_count=1)
        await send(leader.cursor, leader, follower)
        assert_equal(leader, follower)

    run(story)


def test_a_follower_is_not_believed_to_have_what_it_was_not_sent() -> None:
    async def story(leader: Leading, follower: Following) -> None:
        await send(leader.cursor, leader, follower, limit=2)
        with pytest.raises(RecordRefused, match="it has tables up to change 1, was sent 0"):
            leader.feed.acknowledge(leader.cursor, 1)

    run(story)


def test_the_timer_log_is_copied_below_its_durable_end_and_replaces_another_brokers() -> None:
    async def story(leader: Leading, follower: Following) -> None:
        size = 52 * 3 + 16
        made = make_timer_log(leader.disk, size, 5)
        make_timer_log(follower.disk, 2 * size, 3)
        follower.disk.write_file(PLACE / "timerwheel", b"slots")
        await leader.tables.timer_check.put(TimerProgress(0, log_flushed=size + 52))
        records = await send(leader.cursor, leader, follower)
        assert [(one.name, one.kind) for one in records if "timerlog" in one.name] == [
            (TIMER_LOG, DROP), (timer_file(0), APPEND), (timer_file(size), APPEND),
        ]  # fmt: skip
        last = made[size : size + 52].ljust(size, b"\0")
        assert timer_files(follower.disk) == {0: made[:size], size: last}
        assert not follower.disk.exists(PLACE / "timerwheel")
        leader.disk.unlink(PLACE / timer_file(0))
        await leader.tables.timer_check.put(TimerProgress(0, log_flushed=size + 104))
        records = await send(leader.cursor, leader, follower)
        assert [one.position for one in records] == [0, 52, 0]
        assert timer_files(follower.disk) == {size: made[size:]}

    run(story)


def test_a_copy_of_the_timer_log_is_in_place_only_once_it_is_whole() -> None:
    async def story(leader: Leading, follower: Following) -> None:
        make_timer_log(leader.disk, 1_000, 5)
        make_timer_log(follower.disk, 500, 3)
        old = timer_files(follower.disk)
        await leader.tables.timer_check.put(TimerProgress(0, log_flushed=260))
        sent = [record.name for record in await send(leader.cursor, leader, follower)]
        follower.disk = SimDisk()
        make_timer_log(follower.disk, 500, 3)
        follower.begin()
        leader.reconnect()
        await send(leader.cursor, leader, follower, limit=sent.index(TIMER_CHECK))
        assert timer_files(follower.disk) == old
        follower.crash(3)
        leader.reconnect()
        await send(leader.cursor, leader, follower)
        assert timer_files(follower.disk) == timer_files(leader.disk)

    run(story)


def timer_records(records: list[TableRecord]) -> list[tuple[str, str, int]]:
    return [(one.name, one.kind, one.position) for one in records if TIMER_LOG in one.name]


@pytest.mark.parametrize("change", ["none", "unit", "less", "stale", "unfinished", "expired"])
def test_a_follower_that_returns_is_sent_what_it_lacks_of_the_timer_log(change: str) -> None:
    size = 52 * 3 + 16

    async def story(leader: Leading, follower: Following) -> None:
        made = make_timer_log(leader.disk, size, 8)
        await leader.tables.timer_check.put(TimerProgress(0, log_flushed=size + 52))
        await send(leader.cursor, leader, follower)
        flushed = size + 104
        if change == "unit":
            leader.disk.write_file(PLACE / timer_file(0), b"y" * 52 + made[52:size])
        elif change == "less":
            flushed = size
        elif change == "stale":
            await follower.tables.files.run(
                partial(follower.tables.files.append, timer_file(size), 104, b"x", size)
            )
        elif change == "unfinished":
            follower.tables.files.timer.begin()
        elif change == "expired":
            leader.disk.unlink(PLACE / timer_file(0))
        await leader.tables.timer_check.put(TimerProgress(1, log_flushed=flushed))
        follower.disk.write_file(PLACE / "timerwheel", b"slots")  # It led once.
        await leader.reconnect_with(follower)
        records = timer_records(await send(leader.cursor, leader, follower))
        assert not follower.disk.exists(PLACE / "timerwheel"), "a start would scan two files only"
        if change in ("none", "unfinished"):
            assert records == [(timer_file(size), APPEND, 52)]
        else:
            assert records[0] == (TIMER_LOG, DROP, 0)
        await leader.tables.timer_check.put(TimerProgress(2, log_flushed=2 * size + 104))
        await send(leader.cursor, leader, follower)
        assert timer_files(follower.disk) == timer_files(leader.disk)

    run(story)


def make_timer_log(disk: SimDisk, size: int, count: int) -> bytes:
    """Makes a log of `count` units and returns its files' bytes."""
    units = [bytes([number]) * 52 for number in range(1, count + 1)]
    per_file = (size - 16) // 52
    parts = [b"".join(units[at : at + per_file]) for at in range(0, count, per_file)]
    disk.make_directory(PLACE / TIMER_LOG)
    for number, part in enumerate(parts):
        disk.write_file(PLACE / timer_file(number * size), part.ljust(size, b"\0"))
    disk.sync_directory(PLACE / TIMER_LOG)
    return b"".join(part.ljust(size, b"\0") for part in parts)


def timer_files(disk: SimDisk) -> dict[int, bytes]:
    names = disk.names(PLACE / TIMER_LOG)
    return {int(name): disk.read_file(PLACE / TIMER_LOG / name) for name in names}


def test_what_was_replaced_is_read_again_at_most_five_times_a_second() -> None:
    async def story(leader: Leading, follower: Following) -> None:
        await leader.tables.topics.create("t", queue_count=1)
        await leader.commit()
        await send(leader.cursor, leader, follower)
        assert (follower.reloaded, follower.dropped_count) == ([REMOVED], 1)
        now = Now(1_000, 1_000)
        assert follower.copy.step(now).at_ms == 1_000 + PAUSE_MS
        assert {*follower.reloaded} >= {*COPIED} - {JOURNAL}
        count = len(follower.reloaded)
        following = follower.copy.step(now)
        await leader.commit()
        await send(leader.cursor, leader, follower)
        assert following.mark is not None
        assert await following.mark.reached(following.value)
        follower.copy.step(now)
        assert follower.reloaded[count:] == [OFFSETS]

    run(story)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": "../../etc/passwd"}, "is no file that followers copy"),
        ({"name": "config/../pocketmq/store.json"}, "is no file that followers copy"),
        ({"name": "pocketmq/store.json"}, "is no file that followers copy"),
        ({"name": "pocketmq/terms.json"}, "is no file that followers copy"),
        ({"kind": "link"}, "'link' is no kind of change"),
        ({"seq": -1}, "seq is no number"),
        ({"at": -1}, "at is no number"),
        ({"kind": APPEND}, "rows cannot be appended to config/topics.json"),
        ({"kind": "drop"}, "is dropped and has 2 bytes"),
        ({"content": b"{"}, "config/topics.json: "),
        ({"content": b'{"topicConfigTable": []}'}, "is not a table of rows"),
        ({"name": JOURNAL, "kind": APPEND, "content": b"x"}, "does not have 1 bytes"),
        ({"name": "timerlog/../../00000000000000000000"}, "is no file that followers copy"),
        ({"name": timer_file(0)}, "is not copied as a whole"),
        ({"name": timer_file(0), "kind": APPEND, "size": 1}, "00000000000000000000 has 1 bytes"),
    ],
)
def test_a_record_that_no_leader_sends_writes_nothing(change: dict[str, Any], why: str) -> None:
    async def story(leader: Leading, follower: Following) -> None:
        record = TableRecord(TOPICS, 1, FILE, content=b"{}")._replace(**change)
        with pytest.raises(RecordRefused, match=why):
            await follower.copy.take(decode_record(record.encode()), 0)
        assert follower.copy.seq == 0
        assert follower.disk.names(Path("/")) == []

    run(story)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_record_are_refused(content: bytes) -> None:
    with pytest.raises(RecordRefused):
        decode_record(content)
