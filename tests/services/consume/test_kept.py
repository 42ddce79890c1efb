"""Of what consuming keeps for later, no more than is told, and in its turn."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.filter.tag import parse
from pocketmq.format.java_hash import tags_code
from pocketmq.format.pop_records import Batched, PopCheckpoint, read_entry
from pocketmq.format.record import decode_record
from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import Received
from pocketmq.model.reading import ReadRange
from pocketmq.model.system_topics import REVIVE_QUEUE_COUNT, TIMER_TOPIC
from pocketmq.services.consume import leases
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.handles import take_out
from pocketmq.services.consume.journal import ConsumeSettings, Journal
from pocketmq.services.consume.lease import receive
from pocketmq.services.consume.leases import Lease, LeaseTable
from pocketmq.services.consume.wakeup import Wakeup
from pocketmq.store.watermark import Watermark
from tests.kit.consuming import GROUP, INVISIBLE_MS, TOPIC, ConsumeDesk, bodies
from tests.kit.store_language import STORE_HOST, at_once, turns


# -- attempts ----------------------------------------------------------------------------------
async def test_of_too_many_attempts_the_oldest_is_forgotten(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "ATTEMPTS_KEPT_MAX", 2)
    await desk.send(*"abc")
    for name in "abc":
        got = await desk.receive(client_id="c", attempt_id=name, max_messages=1)
        assert bodies(got) == [name]
    for name, kept in (("b", ["b"]), ("c", ["c"]), ("a", [])):
        again = await desk.receive(client_id="c", attempt_id=name, max_messages=1)
        assert bodies(again) == kept


async def test_each_wait_that_is_made_again_ends_the_one_before(desk: ConsumeDesk) -> None:
    waits = [await desk.parked(client_id="c", attempt_id="x")]
    for _ in range(3):
        waits.append(await desk.parked(client_id="c", attempt_id="x"))
        await turns()
        assert [wait.done() for wait in waits] == [True] * (len(waits) - 1) + [False]
    assert await waits[0] == Received([], [], [], 0, 0)
    await desk.send("a")
    assert bodies(await waits[-1]) == ["a"]


async def test_nothing_is_kept_of_a_wait_that_ended(desk: ConsumeDesk) -> None:
    wait = await desk.parked(client_id="c", attempt_id="x")
    desk.consume.drain()
    assert (await wait).records == []
    await turns()
    assert not desk.consume._long_polls._attempts


# -- turns -------------------------------------------------------------------------------------
async def test_every_fifth_receive_looks_at_retries_first(desk: ConsumeDesk) -> None:
    target = GroupTopic(GROUP, TOPIC, desk.store.tables.topics, LeaseTable())
    firsts = [target.in_turn()[0] for _ in range(11)]
    assert [turn for turn, queue in enumerate(firsts, 1) if queue.retry] == [5, 10]
    assert [queue.queue_id for queue in firsts[:4]] == [1, 0, 1, 0]


def test_who_knows_of_something_earlier_has_the_step_called() -> None:
    alarm = Wakeup()
    following = alarm.next(100)
    assert following.at_ms == 100
    alarm.by(100)
    mark = following.mark
    assert isinstance(mark, Watermark)
    assert mark.value < following.value
    alarm.by(99)
    assert mark.value >= following.value
    woken = mark.value
    for at_ms in (99, 150):
        alarm.by(at_ms)
    assert mark.value == woken


# -- leases ------------------------------------------------------------------------------------
def leased(table: LeaseTable, offsets: list[int], *, ends_ms: int = 0) -> Lease:
    """Returns a lease of messages that the table holds."""
    checkpoint = PopCheckpoint(Batched(GROUP, TOPIC, 0, offsets[0], 1_000, "b"), offsets, 500, 0)
    lease = Lease(table.queue(GROUP, TOPIC, 0, 0), checkpoint, offsets[0], first_popped_ms=1_000)
    table.add(lease, ends_ms)
    return lease


def test_messages_of_handles_in_any_order_are_settled_in_theirs() -> None:
    table = LeaseTable()
    lease = leased(table, [3, 4, 5])
    handles = [f"{lease.place.prefix}{at}" for at in (5, 3, 4)]
    taken = take_out(table, GROUP, TOPIC, handles)
    assert taken.queue_offsets == [5, 3, 4]
    assert taken.by_lease == {lease: [3, 4, 5]}


def test_a_handle_says_the_time_of_now_but_behind_an_offset_that_was_set_back() -> None:
    table = LeaseTable()
    queue = leased(table, [3, 4]).queue
    assert [queue.popped_at_ms(at, 1_000) for at in (3, 4, 5)] == [1_001, 1_001, 1_000]


@pytest.mark.parametrize("open_count", [1, 10])
def test_ends_of_before_are_kept_up_to_a_bound(open_count: int) -> None:
    table = LeaseTable()
    held = [leased(table, [at]) for at in range(open_count)]
    most = 0
    for ends_ms in range(3_000):
        table.end_at(held[0], ends_ms)
        most = max(most, len(table._ends))
    assert most == leases.ENDS_KEPT_MIN + 2 * open_count


# -- broadcasts --------------------------------------------------------------------------------
@pytest.mark.parametrize("begins_at_min", [True, False])
async def test_a_client_of_a_broadcast_begins_where_its_group_says(
    desk: ConsumeDesk, *, begins_at_min: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(begins_at_min=begins_at_min))
    await desk.send("a")
    asked: dict[str, Any] = {"broadcast": True, "client_id": "c"}
    assert bodies(await desk.receive(**asked)) == (["a"] if begins_at_min else [])
    await desk.send("b")
    assert bodies(await desk.receive(**asked)) == ["b"]


async def test_a_broadcast_says_how_many_bytes_it_read(desk: ConsumeDesk) -> None:
    said: list[int] = []

    def room(size_bytes: int) -> int:
        said.append(size_bytes)
        return size_bytes

    await desk.send("a", "b")
    got = await desk.receive(broadcast=True, client_id="c", room=room)
    assert len(got.records) == 2
    assert said[-1] == sum(map(len, got.records))


async def test_a_broadcast_reads_no_further_than_it_has_room(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    await desk.send("c", queue_id=1)
    got = await desk.receive(broadcast=True, client_id="c", room=lambda _: 1)
    assert bodies(got) == ["a"]


async def test_a_broadcast_passes_over_what_no_client_wants_before_it_counts(
    desk: ConsumeDesk,
) -> None:
    for tag in "AAAB":
        await desk.send(tag.lower(), tag=tag)
    asked: dict[str, Any] = {"broadcast": True, "client_id": "c", "max_messages": 1}
    assert bodies(await desk.receive(wanted=parse("B", tags_code), **asked)) == ["b"]


async def test_a_broadcast_waits_for_as_long_as_its_caller_says(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def over(waiters: Any, *, timeout: float, return_when: str) -> None:
        waits.append(timeout)

    loop = SimpleNamespace(time=lambda: 100.0 + sum(waits))
    here = SimpleNamespace(
        get_running_loop=lambda: loop, wait=over, FIRST_COMPLETED=asyncio.FIRST_COMPLETED
    )
    monkeypatch.setattr("pocketmq.services.consume.broadcasting.asyncio", here)
    got = await desk.receive(broadcast=True, client_id="c", wait_ms=5_000)
    assert (got.records, waits) == ([], [5.0])


# -- the journal -------------------------------------------------------------------------------
async def test_the_journal_lies_in_one_queue(desk: ConsumeDesk) -> None:
    await desk.send("a")
    await desk.receive()
    timer = desk.store.tables.topics.existing(TIMER_TOPIC)
    assert (timer.read_queue_count, timer.write_queue_count) == (1, 1)


async def test_leases_take_turns_in_the_revive_queues(desk: ConsumeDesk) -> None:
    journal = Journal(desk.store, ConsumeSettings("DefaultCluster", "broker-a", STORE_HOST))
    turn = [journal.revive_queue() for _ in range(2 * REVIVE_QUEUE_COUNT)]
    assert sorted(turn) == sorted(2 * [*range(REVIVE_QUEUE_COUNT)])
    assert turn[:REVIVE_QUEUE_COUNT] == turn[REVIVE_QUEUE_COUNT:]


async def test_entries_of_names_that_are_not_ascii_are_journalled(desk: ConsumeDesk) -> None:
    """A store of before may have such a group; its entries take the way of other messages."""
    journal = Journal(desk.store, ConsumeSettings("DefaultCluster", "broker-a", STORE_HOST))
    checkpoint = PopCheckpoint(Batched("gr\u00fcn", TOPIC, 0, 7, 1_000, "b"), [7, 9], 500, 0)
    for number in range(2):
        assert await journal.put([journal.checkpoint(checkpoint)]) == number
        assert journal.end == number + 1
    await desk.settled()
    found = at_once(desk.store.reading.pull(ReadRange(TIMER_TOPIC, 0, 0, 9, 1 << 20)))
    told = [read_entry(record) for record in found.records]
    assert [entry and entry[0] for entry in told] == [checkpoint, checkpoint]


async def test_entries_next_to_messages_are_like_entries_alone(desk: ConsumeDesk) -> None:
    await desk.send("a")
    await desk.receive()
    await desk.step(INVISIBLE_MS)
    found = at_once(desk.store.reading.pull(ReadRange(TIMER_TOPIC, 0, 0, 9, 1 << 20)))
    entries = [decode_record(record) for record in found.records]
    assert len(entries) == 2
    facts = {(one.flag, one.reconsume_times, one.born_host, one.system_flag) for one in entries}
    assert facts == {(0, 0, STORE_HOST, entries[0].system_flag)}
