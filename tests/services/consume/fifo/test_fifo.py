"""Receiving in order, over a real store: message groups, waiting, restarts, dead letters.

A message's first letter is its message group.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pocketmq.filter.parsing import parse_filter
from pocketmq.format.record import decode_record
from pocketmq.model.administration import GroupSettings, ResetTarget
from pocketmq.model.consuming import Received, SettleStatus
from pocketmq.model.errors import DiskFull
from pocketmq.model.reading import ReadRange
from pocketmq.services.admin.positions import reset_offsets
from pocketmq.services.admin.purge import purge_topic
from pocketmq.services.consume.fifo.queue import WINDOW_MAX
from pocketmq.services.consume.fifo.receive import SCAN_COUNT
from pocketmq.services.consume.receive_mode import SCANS_MAX
from pocketmq.store.heavy_turns import HeavyTurns
from tests.golden_stores import GoldenStores
from tests.kit.consuming import (
    GROUP,
    INVISIBLE_MS,
    ConsumeDesk,
    bodies,
    consuming,
    messages,
    statuses,
)
from tests.kit.store_language import at_once, turns

TOPIC = "steps"
OK, INVALID = SettleStatus.OK, SettleStatus.INVALID_RECEIPT_HANDLE


class Steps:
    """Group g, and topic steps of one queue that is received in order."""

    def __init__(self, desk: ConsumeDesk) -> None:
        self.desk = desk
        self.consume = desk.consume

    async def send(self, *texts: str, queue_id: int = 0) -> None:
        await self.desk.send_grouped(*texts, topic=TOPIC, queue_id=queue_id)

    async def receive(self, count: int = 32, **changes: object) -> Received:
        return await self.desk.receive(topic=TOPIC, max_messages=count, **changes)

    async def ack(self, *handles: str) -> list[SettleStatus]:
        return statuses(await self.consume.ack(GROUP, TOPIC, handles))

    async def hide(self, handle: str, for_ms: int) -> str:
        (settled,) = await self.consume.change_invisible(GROUP, TOPIC, [(handle, for_ms)])
        assert settled.status is OK
        return settled.handle

    @property
    def committed(self) -> int | None:
        return self.desk.store.tables.offsets.find(GROUP, TOPIC, 0)

    def bodies_of(self, topic: str, queue_id: int = 0) -> list[tuple[str, int]]:
        """Returns (body, times it was retried) of what lies in a queue."""
        result = at_once(self.desk.store.reading.pull(ReadRange(topic, queue_id, 0, 99, 1 << 20)))
        found = [decode_record(record) for record in result.records]
        return [(message.body.decode(), message.reconsume_times) for message in found]


async def opened(desk: ConsumeDesk) -> Steps:
    tables = desk.store.tables
    await tables.topics.create(TOPIC, queue_count=1, attributes={"message.type": "FIFO"})
    return Steps(desk)


@pytest.fixture
async def steps(desk: ConsumeDesk) -> Steps:
    return await opened(desk)


async def test_a_lease_that_ended_is_not_in_flight(steps: Steps) -> None:
    await steps.send("a1", "a2", "b1")
    await steps.receive(2, invisible_ms=1_000)
    await steps.receive(invisible_ms=5_000)
    assert steps.desk.in_flight == 3
    await steps.desk.step(1_001)
    assert steps.desk.in_flight == 1
    await steps.desk.step(4_000)
    assert steps.desk.in_flight == 0


async def test_a_lease_that_its_client_renews_is_in_flight(steps: Steps) -> None:
    await steps.send("a1")
    await steps.receive(client_id="c1", auto_renew=True, invisible_ms=60_000)
    await steps.desk.step(61_000)
    assert steps.desk.in_flight == 1
    await steps.desk.step(120_000)
    assert steps.desk.in_flight == 0


async def test_messages_before_a_moved_offset_are_not_in_flight(steps: Steps) -> None:
    await steps.send("a1", "b1", "c1")
    await steps.receive(2)
    target = ResetTarget(queue_offset=2)
    await reset_offsets(steps.desk.store, GROUP, TOPIC, target)
    assert steps.desk.in_flight == 0


async def test_a_message_group_is_received_by_one_at_a_time_in_its_order(steps: Steps) -> None:
    await steps.send("a1", "b1", "a2", "c1", "a3")
    first = await steps.receive(1)
    second = await steps.receive()
    assert (bodies(first), bodies(second)) == (["a1"], ["b1", "c1"])
    assert (await steps.receive()).records == []
    assert await steps.ack(*second.handles, *first.handles) == [OK, OK, OK]
    assert bodies(await steps.receive(1)) == ["a2"]
    assert steps.committed == 2


async def test_acks_in_any_order_move_the_offset_over_what_is_settled(steps: Steps) -> None:
    await steps.send("a1", "a2", "b1")
    got = await steps.receive()
    assert await steps.ack(got.handles[2], got.handles[1]) == [OK, OK]
    assert steps.committed == 0
    assert await steps.ack(got.handles[0], got.handles[0], "7 7 7 999 0 b 0 0") == [
        OK, INVALID, INVALID,
    ]  # fmt: skip
    assert steps.committed == 3


async def test_a_lease_that_ends_brings_the_same_message_first(steps: Steps) -> None:
    await steps.send("a1", "a2")
    first = await steps.receive(1)
    steps.desk.clock.advance(INVISIBLE_MS)
    again = await steps.receive()
    assert (bodies(again), again.attempts) == (["a1", "a2"], [2, 1])
    assert await steps.ack(*first.handles) == [INVALID]
    assert await steps.ack(*again.handles) == [OK, OK]


async def test_a_changed_time_holds_the_group_and_both_handles_are_good(steps: Steps) -> None:
    await steps.send("a1", "b1", "a2")
    got = await steps.receive(1)
    changed = await steps.hide(got.handles[0], 5_000)
    assert bodies(await steps.receive()) == ["b1"]
    steps.desk.clock.advance(4_999)
    assert (await steps.receive()).records == []
    assert await steps.ack(got.handles[0], changed) == [OK, INVALID]
    assert bodies(await steps.receive()) == ["a2"]


async def test_who_waits_gets_what_an_ack_makes_free(steps: Steps) -> None:
    await steps.send("a1", "a2")
    got = await steps.receive(1)
    waiting = [await steps.desk.parked(topic=TOPIC, max_messages=1) for _ in range(2)]
    await steps.ack(*got.handles)
    assert bodies(await waiting[0]) == ["a2"]
    await turns()
    assert not waiting[1].done()
    await steps.send("b1")
    assert bodies(await waiting[1]) == ["b1"]


async def test_who_waits_gets_what_comes_back_when_its_lease_ends(steps: Steps) -> None:
    await steps.send("a1")
    await steps.receive(invisible_ms=10_000)
    waiting = await steps.desk.parked(topic=TOPIC)
    await steps.desk.step(9_999)
    assert not waiting.done()
    await steps.desk.step(1)
    got = await waiting
    assert (bodies(got), got.attempts) == (["a1"], [2])


async def test_a_receive_asked_again_gets_the_same_again(steps: Steps) -> None:
    await steps.send("a1", "b1")
    asked = {"attempt_id": "one", "client_id": "c", "wait_ms": 20_000}
    first = await steps.receive(2, **asked)
    waiting = await steps.desk.parked(topic=TOPIC, max_messages=1, attempt_id="two", client_id="c")
    again = await steps.receive(2, **asked)
    assert (again.handles, again.attempts) == (first.handles, [1, 1])
    await steps.ack(first.handles[0])
    left = await steps.receive(2, **asked)
    assert bodies(left) == ["b1"]
    assert await steps.ack(*left.handles) == [OK]
    assert not waiting.done()
    await steps.send("c1")
    assert bodies(await waiting) == ["c1"]


async def test_of_several_leases_the_first_end_is_told(steps: Steps) -> None:
    """A consumer must not count on a message beyond its own lease."""
    await steps.send("a1", "b1")
    asked: dict[str, object] = {"attempt_id": "one", "client_id": "c"}
    first = await steps.receive(2, **asked)
    assert len(first.handles) == 2
    now_ms = first.popped_at_ms
    for sooner in (0, 1):
        await steps.hide(first.handles[sooner], INVISIBLE_MS // (2 + sooner))
        again = await steps.receive(2, **asked)
        assert bodies(again) == ["a1", "b1"]
        assert again.invisible_until_ms == now_ms + INVISIBLE_MS // (2 + sooner)


async def test_a_receive_that_is_given_up_leaves_nothing_leased(steps: Steps) -> None:
    await steps.send("a1")
    task = asyncio.ensure_future(steps.receive())
    for _ in range(2):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    got = await steps.receive()
    assert (bodies(got), got.attempts) == (["a1"], [1])


async def test_what_did_not_reach_its_receiver_goes_out_again_uncounted(steps: Steps) -> None:
    await steps.send("a1")
    lost = await steps.receive()
    steps.consume.release(GROUP, TOPIC, lost.handles)
    again = await steps.receive()
    assert (bodies(again), again.attempts) == (["a1"], [1])


async def test_what_is_taken_back_twice_counts_once(steps: Steps) -> None:
    await steps.send("a1")
    got = await steps.receive()
    for _ in range(2):
        steps.consume.release(GROUP, TOPIC, got.handles)
    assert (await steps.receive()).attempts == [1]


async def test_a_lease_lasts_while_its_client_is_heard_of(steps: Steps) -> None:
    await steps.send("a1", "b1")
    got = await steps.receive(1, auto_renew=True, client_id="c", invisible_ms=60_000)
    steps.desk.clock.advance(60_000)
    assert bodies(await steps.receive(client_id="c")) == ["b1"]
    steps.desk.clock.advance(200_000)
    assert bodies(await steps.receive()) == ["a1", "b1"]
    assert await steps.ack(*got.handles) == [INVALID]


async def test_what_was_tried_often_enough_is_a_dead_letter_and_in_nobodys_way(
    steps: Steps,
) -> None:
    await steps.desk.store.tables.groups.update(GROUP, GroupSettings(max_attempts=2))
    await steps.send("a1", "a2")
    for attempt in (1, 2):
        assert (await steps.receive(1)).attempts == [attempt]
        steps.desk.clock.advance(INVISIBLE_MS)
    got = await steps.receive()
    assert (bodies(got), got.attempts) == (["a2"], [1])
    await steps.desk.settled()
    assert steps.bodies_of(f"%DLQ%{GROUP}") == [("a1", 2)]
    assert steps.committed == 1


async def test_a_dead_letter_that_cannot_be_put_is_tried_again(steps: Steps) -> None:
    await steps.desk.store.tables.groups.update(GROUP, GroupSettings(max_attempts=1))
    await steps.send("a1", "a2")
    await steps.receive(1)
    steps.desk.clock.advance(INVISIBLE_MS)
    steps.desk.store.writing.refuse(DiskFull(path="/store"))
    with pytest.raises(DiskFull):
        await steps.receive()
    steps.desk.store.writing.refuse(None)
    assert bodies(await steps.receive()) == ["a2"]
    await steps.desk.settled()
    assert steps.bodies_of(f"%DLQ%{GROUP}") == [("a1", 1)]


async def test_what_is_sent_back_or_given_up_counts_its_deliveries(steps: Steps) -> None:
    await steps.send("a1", "b1", "a2")
    await steps.receive(2)
    steps.desk.clock.advance(INVISIBLE_MS)
    got = await steps.receive(2)
    assert got.attempts == [2, 2]
    back = await steps.consume.send_back(GROUP, TOPIC, [(got.handles[0], 1), ("x", 1)])
    assert statuses(back) == [OK, INVALID]
    dead = await steps.consume.forward_to_dead_letters(GROUP, TOPIC, [got.handles[1]])
    assert statuses(dead) == [OK]
    assert await steps.ack(*got.handles) == [INVALID, INVALID]
    await steps.desk.settled()
    assert steps.bodies_of("SCHEDULE_TOPIC_XXXX") == [("a1", 2)]
    assert steps.bodies_of(f"%DLQ%{GROUP}") == [("b1", 2)]
    assert bodies(await steps.receive()) == ["a2"]


async def test_what_could_not_be_moved_is_as_it_was(steps: Steps) -> None:
    await steps.send("a1")
    got = await steps.receive()
    await steps.consume.forward_to_dead_letters(GROUP, TOPIC, [])
    steps.desk.store.writing.refuse(DiskFull(path="/store"))
    with pytest.raises(DiskFull):
        await steps.consume.forward_to_dead_letters(GROUP, TOPIC, got.handles)
    steps.desk.store.writing.refuse(None)
    assert await steps.ack(*got.handles) == [OK]


async def test_leases_and_handles_outlast_a_kill(steps: Steps, tmp_path: Path) -> None:
    await steps.send("a1", "b1", "a2", "c1")
    got = await steps.receive(2)
    await steps.ack(got.handles[1])
    image = steps.desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=steps.desk.clock) as desk:
        later = Steps(desk)
        assert bodies(await later.receive()) == ["c1"]
        assert await later.ack(*got.handles) == [OK, INVALID]
        assert bodies(await later.receive()) == ["a2"]
        assert later.committed == 2


async def test_a_lease_outlasts_a_kill_though_its_scan_was_written_before_it(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have their turn behind the scan, and write down how far the queue was scanned."""
    turn, turn_count = HeavyTurns.turn, 0

    async def written(turns: HeavyTurns, user: str) -> None:
        nonlocal turn_count
        turn_count += 1
        await turn(turns, user)
        if turn_count == 2:
            await steps.desk.store.tables.orders.saved()

    await steps.send("a1")
    with monkeypatch.context() as patch:
        patch.setattr(HeavyTurns, "turn", written)
        got = await steps.receive(1, wanted=parse_filter("TAGS IS NULL", is_sql=True))
    assert (bodies(got), turn_count) == (["a1"], 2)
    image = steps.desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=steps.desk.clock) as desk:
        later = Steps(desk)
        assert (await later.receive()).records == []
        assert await later.ack(*got.handles) == [OK]


async def test_an_offset_that_is_set_back_brings_all_behind_it_again(
    steps: Steps, tmp_path: Path
) -> None:
    await steps.send("a1", "b1", "a2")
    got = await steps.receive()
    await steps.ack(*got.handles[1:])
    await reset_offsets(steps.desk.store, GROUP, TOPIC, ResetTarget(queue_offset=0))
    image = steps.desk.talking.killed(tmp_path / "image")
    again = await steps.receive()
    assert (bodies(again), again.attempts) == (["a1", "b1", "a2"], [1, 1, 1])
    assert await steps.ack(got.handles[0]) == [INVALID]
    async with consuming(image) as desk:
        assert bodies(await Steps(desk).receive()) == ["a1", "b1", "a2"]


async def test_a_group_in_order_receives_any_topic_so_by_queue(desk: ConsumeDesk) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
    await desk.send("1", "2")
    assert bodies(await desk.receive(max_messages=1)) == ["1"]
    assert (await desk.receive()).records == []


async def test_what_a_real_broker_gave_out_in_order_goes_on(
    golden: GoldenStores, tmp_path: Path
) -> None:
    params = golden.manifest("semantics")["params"]
    sizes = {
        "commit_log_file_size_bytes": params["mappedFileSizeCommitLog"],
        "consume_queue_file_size_bytes": params["mappedFileSizeConsumeQueue"],
        "index_slot_count": params["maxHashSlotNum"],
        "index_entry_count_max": params["maxIndexNum"],
    }
    async with consuming(golden.copy("semantics", tmp_path / "s"), **sizes) as desk:
        desk.clock.wall = 1_795_221_452_480
        asked = {"group": "fifo-group", "topic": "GFifo"}
        others = await desk.receive(**asked)
        assert min(message.queue_offset for message in messages(others)) == 6
        assert set(others.attempts) == {1}
        await desk.consume.ack("fifo-group", "GFifo", others.handles)
        desk.clock.advance(60_100)
        again = await desk.receive(**asked)
        pairs = zip(messages(again), again.attempts, strict=True)
        found = {(message.queue_id, message.queue_offset): attempt for message, attempt in pairs}
        # Of offsets 3, 4, 5 the real broker saw 3 and 5 of queue 0 and 4 and 5 of queue 1 settled.
        assert {place: n for place, n in found.items() if place[1] < 6} == {(0, 4): 2, (1, 3): 2}
        await desk.consume.ack("fifo-group", "GFifo", again.handles)
        assert (await desk.receive(**asked)).records == []
        ends = {i: desk.store.reading.queue_range("GFifo", i)[1] for i in (0, 1)}
        assert desk.store.tables.offsets.all_of("fifo-group")["GFifo"] == ends


async def test_what_was_moved_stays_so_over_a_kill(steps: Steps, tmp_path: Path) -> None:
    await steps.send("a1", "b1")
    got = await steps.receive()
    await steps.consume.forward_to_dead_letters(GROUP, TOPIC, got.handles[:1])
    await steps.consume.send_back(GROUP, TOPIC, [(got.handles[1], 1)])
    image = steps.desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=steps.desk.clock) as desk:
        later = Steps(desk)
        await later.send("c1")
        desk.clock.advance(INVISIBLE_MS)
        assert bodies(await later.receive()) == ["c1"]
        assert await later.ack(*got.handles) == [INVALID, INVALID]


async def test_an_offset_that_a_kill_left_behind_follows_what_is_settled(tmp_path: Path) -> None:
    """The table of orders has the acknowledgement at once, the offsets table later."""
    async with consuming(tmp_path / "s") as desk:
        steps = await opened(desk)
        await steps.send("a1", "b1", "c1")
        got = await steps.receive()
        await desk.store.tables.offsets.saved()
        with desk.talking.quick_disk.held(tmp_path / "s" / "config"):
            assert await steps.ack(*got.handles[:2]) == [OK, OK]
            image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as desk:
        later = Steps(desk)
        assert later.committed == 0
        desk.clock.advance(INVISIBLE_MS)
        assert bodies(await later.receive()) == ["c1"]
        assert later.committed == 2


@pytest.fixture
def reads(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> list[ReadRange]:
    """Everything that is read from the store."""
    found: list[ReadRange] = []
    reading = steps.desk.store.reading
    pull = reading.pull

    def noted(_: object, asked: ReadRange, *rest: Any, **named: Any) -> Any:
        found.append(asked)
        return pull(asked, *rest, **named)

    monkeypatch.setattr(type(reading), "pull", noted)
    return found


async def test_each_message_is_read_once_and_as_many_go_out_as_there_is_room_for(
    steps: Steps, reads: list[ReadRange]
) -> None:
    await steps.send("a1", "b1", "c1")
    sizes = [len(record) for record in (await steps.receive()).records]
    assert [(asked.queue_offset, asked.topic) for asked in reads] == [(0, TOPIC)]
    for room, count in ((sum(sizes[:2]), 2), (sum(sizes[:2]) - 1, 1), (1, 1), (sum(sizes), 3)):
        steps.desk.clock.advance(INVISIBLE_MS)
        told: list[int] = []

        def has(wanted: int, room: int = room, told: list[int] = told) -> int:
            told.append(wanted)
            return room

        got = await steps.receive(room=has)
        assert len(got.records) == count
        assert told[-1] == sum(map(len, got.records))


async def test_behind_a_message_group_that_is_out_a_receive_looks_at_a_part_of_the_queue(
    steps: Steps, reads: list[ReadRange]
) -> None:
    """Others have their turn; the next one goes on behind it."""
    await steps.send(*["a"] * (SCANS_MAX + 4) * SCAN_COUNT, "b")
    assert len((await steps.receive(1)).records) == 1
    reads.clear()
    assert bodies(await steps.receive()) == []
    assert len(reads) == SCANS_MAX
    assert bodies(await steps.receive()) == ["b"]
    assert [asked.queue_offset for asked in reads] == [
        SCAN_COUNT * number for number in range(1, SCANS_MAX + 5)
    ]


async def test_many_deleted_messages_are_passed_once_earlier_leases_end(steps: Steps) -> None:
    """They would fill memory and the order table one by one."""
    await steps.send("a0", "b0")
    first, second = (await steps.receive()).handles
    await steps.send(*["a"] * (WINDOW_MAX + 1))
    await purge_topic(steps.desk.store, TOPIC)
    await steps.send("a1", "b1")
    assert bodies(await steps.receive()) == []
    assert steps.committed == 0
    assert await steps.ack(second) == [OK]
    assert bodies(await steps.receive()) == []
    assert steps.desk.store.tables.orders.find(GROUP, TOPIC, 0, 0).settled == {1}
    assert await steps.ack(first) == [OK]
    assert bodies(await steps.receive()) == ["a1", "b1"]
    assert steps.committed == WINDOW_MAX + 3
