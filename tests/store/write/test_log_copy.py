"""A log that is copied byte for byte: whole records only, on disk, and visible when confirmed."""

from pathlib import Path

import pytest

from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.model.errors import Corruption, DiskFull, NotLeader
from pocketmq.store.dispatch.column_dispatch import ColumnDispatch
from tests.kit.golden_log import files_below
from tests.kit.store_language import queue_bodies, store_at, turns, until, view_files
from tests.kit.two_stores import LEADER, TwoStores, log_bytes, two_stores

SIZE = 4_096
"""Bytes of a log file of these stores."""


async def fill(pair: TwoStores, count: int = 40) -> list[str]:
    bodies = [f"{number}" * (40 + number * 11 % 190) for number in range(count)]
    for number, body in enumerate(bodies):
        await pair.leader.send("orders", body, queue_id=number % 2, key=f"k{number}", tag="A")
    return bodies


@pytest.mark.parametrize("pieces", [1, 7, 333, 1 << 20])
async def test_log_and_views_are_those_of_the_leader(tmp_path: Path, pieces: int) -> None:
    async with two_stores(tmp_path) as pair:
        bodies = await fill(pair)
        await pair.copy(pieces=pieces)
        await pair.show()
        assert pair.leader.store.appended > 3 * SIZE
        assert pair.copied == pair.led
        assert queue_bodies(pair.follower.store, "orders") == bodies[::2]
        assert queue_bodies(pair.follower.store, "orders", 1) == bodies[1::2]
        assert await pair.follower.found("orders", "k7") == [bodies[7]]
        await pair.leader.settled()
    logs = [files_below(tmp_path / name / COMMIT_LOG_DIRECTORY) for name in ("leader", "follower")]
    assert logs[0] == logs[1]
    assert view_files(tmp_path / "leader").keys() == view_files(tmp_path / "follower").keys()
    queues = [files_below(tmp_path / name / "consumequeue") for name in ("leader", "follower")]
    assert queues[0] == queues[1]


async def test_a_part_of_a_record_is_in_no_mark_and_in_no_file(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as pair:
        await pair.leader.send("orders", "first")
        end = pair.leader.store.appended
        await pair.leader.send("orders", "second")
        await pair.copy(upto=pair.leader.store.appended - 1)
        store = pair.follower.store
        assert (store.appended, store.log.appended) == (end, end)
        assert pair.log_copy.end == pair.leader.store.appended - 1
        assert not any(store.log.read(end, 200))
        await pair.copy()
        assert store.appended == pair.leader.store.appended
        assert pair.log_copy.last_record == end


async def test_a_file_without_room_for_a_blank_is_copied(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as pair:
        await pair.leader.send("orders", "x")
        overhead = pair.leader.store.appended - 1
        await pair.leader.send("orders", "y" * (SIZE - 2 * overhead - 1 - 8))
        assert SIZE - pair.leader.store.appended == 8
        await pair.leader.send("orders", "z")
        await pair.copy(pieces=3)
        await pair.show()
        assert pair.copied == pair.led
        assert len(queue_bodies(pair.follower.store, "orders")) == 3


async def test_consumers_see_what_is_confirmed_and_no_more(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as pair:
        await pair.leader.send("orders", "a")
        confirmed, time_ms = pair.leader.store.appended, pair.leader.store.marks.appended.time_ms
        await pair.leader.send("orders", "b")
        await pair.copy()
        store = pair.follower.store
        await store.writing.durability.drain()
        assert store.flushed == pair.leader.store.appended
        await turns(20)
        assert store.reading.queue_range("orders", 0) == (0, 0)
        store.marks.replicate(confirmed, time_ms)
        await until(lambda: store.dispatched == confirmed)
        assert queue_bodies(store, "orders") == ["a"]
        store.marks.replicate(1 << 40, time_ms)
        await until(lambda: store.dispatched == store.appended)
        assert queue_bodies(store, "orders") == ["a", "b"]


async def test_a_log_whose_first_files_have_expired_begins_later(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as pair:
        bodies = await fill(pair)
        log = pair.leader.store.log
        await pair.leader.settled()
        for _ in range(2):
            log.files.drop_first().remove()
        begin = log.min_offset
        pair.log_copy.begin(begin)
        await pair.copy(pieces=100)
        await pair.show()
        store = pair.follower.store
        assert (begin, store.min_offset) == (2 * SIZE, 2 * SIZE)
        assert log_bytes(store) == log_bytes(pair.leader.store)
        lower, upper = store.reading.queue_range("orders", 0)
        assert 0 < lower < upper == 20
        assert queue_bodies(store, "orders") == bodies[2 * lower :: 2]
    async with store_at(tmp_path / "follower") as promoted:
        assert promoted.store.min_offset == begin
        assert await promoted.pulled("orders") == bodies[2 * lower :: 2]
        assert (await promoted.send("orders", "new")).queue_offset == upper


@pytest.mark.parametrize("cut", [0, 1, 60, 700, 4_000, 4_090, 4_096, 4_100, 9_000])
async def test_a_kill_at_any_place_leaves_whole_records(tmp_path: Path, cut: int) -> None:
    async with two_stores(tmp_path) as pair:
        await fill(pair)
        await pair.copy(pieces=50, upto=cut)
        await pair.follower.store.writing.durability.drain()
        appended = pair.follower.store.appended
        image = pair.follower.killed(tmp_path / "image")
        async with store_at(image, leader=LEADER) as again:
            assert again.store.damage is None
            assert again.store.appended >= appended
            assert log_bytes(again.store) == pair.led[: again.store.appended]
            later = TwoStores(pair.leader, again)
            later.log_copy.begin(again.store.appended)
            await later.copy(pieces=50)
            await later.show()
            assert later.copied == later.led
            assert queue_bodies(again.store, "orders") == queue_bodies(pair.leader.store, "orders")


async def test_a_new_connection_continues_after_the_last_whole_record(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as pair:
        await fill(pair)
        for end in range(0, pair.leader.store.appended, 97):
            await pair.copy(upto=end)
            pair.log_copy.begin(pair.follower.store.appended)
        await pair.copy()
        assert pair.copied == pair.led


@pytest.mark.parametrize(
    ("position", "why"), [(0, "bytes with"), (4, "magic"), (35, "own physical offset"), (-1, "CRC")]
)
async def test_damaged_bytes_are_refused_and_the_records_before_are_stored(
    tmp_path: Path, position: int, why: str
) -> None:
    async with two_stores(tmp_path) as pair:
        await pair.leader.send("orders", "first")
        end = pair.leader.store.appended
        await pair.leader.send("orders", "second")
        content = bytearray(pair.led)
        content[content.index(b"second") if position < 0 else end + position] ^= 0x40
        with pytest.raises(Corruption, match=why):
            await pair.log_copy.append(0, bytes(content))
        assert pair.follower.store.appended == end
        pair.log_copy.begin(end)
        await pair.copy()
        assert pair.copied == pair.led


# -- many records at once ------------------------------------------------------------------------
LARGE = 1 << 16
"""Bytes of a log file whose records are checked and dispatched by column."""
MARKS = {"size": 3, "magic": 4, "own offset": 35, "topic length": 0, "body": 89}


async def fill_large(pair: TwoStores) -> None:
    for number in range(12):
        bodies = [f"{number}-{at}-" + "x" * (at * 37 % 500) for at in range(40)]
        topic, queue_id = "orders" if number % 5 else "bills", number % 2
        await pair.leader.send(topic, *bodies, queue_id=queue_id, key=f"k{number}", tag="A")


@pytest.mark.parametrize("pieces", [3_000, 20_000, 1 << 20])
async def test_views_are_those_of_the_leader_also_by_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    ends, put = list[int](), ColumnDispatch.put

    def noted(columns: ColumnDispatch) -> None:
        put(columns)
        ends.append(columns.end)

    monkeypatch.setattr(ColumnDispatch, "put", noted)
    async with two_stores(tmp_path, commit_log_file_size_bytes=LARGE) as pair:
        await fill_large(pair)
        store = pair.follower.store
        key = ("orders", 0)
        waiting = store.views.arrivals.mark(key, 0).reached(1)
        await pair.copy(pieces=pieces)
        await pair.show()
        assert waiting.done()
        assert ends
        assert ends == sorted(ends)
        assert pair.copied == pair.led
        await pair.leader.settled()
        assert store.marks.last_dispatched == pair.leader.store.marks.last_dispatched
    for name in (COMMIT_LOG_DIRECTORY, "consumequeue"):
        led, copied = (files_below(tmp_path / one / name) for one in ("leader", "follower"))
        assert led == copied
    led_views, views = view_files(tmp_path / "leader"), view_files(tmp_path / "follower")
    assert led_views.keys() == views.keys()


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("number", [0, 40, 70])
async def test_damage_among_many_records_is_found_as_among_few(
    tmp_path: Path, mark: str, number: int
) -> None:
    found = []
    async with two_stores(tmp_path, commit_log_file_size_bytes=LARGE) as pair:
        await fill_large(pair)
        content = bytearray(pair.led[:LARGE])
        begin = [at for at, *_ in pair.leader.store.log.scan(0, LARGE)][number]
        topic_length = 88 + int.from_bytes(content[begin + 84 : begin + 88])
        content[begin + (MARKS[mark] or topic_length)] ^= 0x21
        for pieces in (LARGE, 300):
            async with store_at(
                tmp_path / f"f{pieces}", leader=LEADER, commit_log_file_size_bytes=LARGE
            ) as follower:
                copy = follower.store.copy
                assert copy is not None
                with pytest.raises(Corruption) as damage:
                    for at in range(0, LARGE, pieces):
                        await copy.append(at, bytes(content[at : at + pieces]))
                found.append((follower.store.appended, copy.last_record, str(damage.value)))
                assert follower.store.appended == begin
    assert found[0] == found[1]


@pytest.mark.parametrize("part", ["consumequeue", "index"])
async def test_views_on_a_full_disk_are_complete_in_the_end(tmp_path: Path, part: str) -> None:
    async with two_stores(tmp_path, commit_log_file_size_bytes=LARGE) as pair:
        await fill_large(pair)
        await pair.copy()
        disk, store = pair.follower.quick_disk, pair.follower.store
        disk.full_below = tmp_path / "follower" / part
        store.marks.replicate(pair.leader.store.appended, 1)
        await store.writing.durability.drain()
        await until(lambda: store.views.dispatcher.is_blocked)
        assert store.dispatched == 0
        disk.full_below = None
        pair.follower.clock.advance(1_001)
        pair.follower.store.look()
        await pair.show()
        await pair.leader.settled()
    led, copied = (view_files(tmp_path / one) for one in ("leader", "follower"))
    assert led.keys() == copied.keys()
    assert [led[name] for name in led if "consumequeue" in name] == [
        copied[name] for name in copied if "consumequeue" in name
    ]


async def test_writes_are_refused_with_the_leaders_name(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as pair:
        with pytest.raises(NotLeader, match=f"send them to its leader, {LEADER}"):
            await pair.follower.send("orders", "a")
        assert pair.follower.store.appended == 0
        assert pair.follower.store.state == "following"


async def test_little_room_on_a_followers_disk_does_not_hide_that_it_follows(
    tmp_path: Path,
) -> None:
    async with two_stores(tmp_path) as pair:
        store = pair.follower.store
        store.writing.refuse(DiskFull(path="f"))
        with pytest.raises(NotLeader, match=LEADER):
            await pair.follower.send("orders", "a")
        assert store.state == "following"
        store.writing.refuse(None)
        assert store.state == "following"


async def test_a_full_disk_stops_the_copy_and_loses_nothing(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as pair:
        await fill(pair)
        disk = pair.follower.quick_disk
        disk.full_below = tmp_path / "follower" / COMMIT_LOG_DIRECTORY
        with pytest.raises(DiskFull):
            await pair.copy(pieces=100)
        assert pair.copied == pair.led[: pair.follower.store.appended]
        disk.full_below = None
        pair.follower.clock.advance(1_001)
        pair.log_copy.begin(pair.follower.store.appended)
        await pair.copy()
        assert pair.copied == pair.led
