"""How much of the store a receive, a redelivery or a start reads at most."""

import asyncio
from typing import Any

import pytest

from pocketmq.filter.parsing import parse_filter
from pocketmq.filter.tag import parse
from pocketmq.format.java_hash import tags_code
from pocketmq.format.record_heads import queue_offset_of
from pocketmq.model.administration import GroupSettings
from pocketmq.model.errors import StoreBusy
from pocketmq.model.reading import ReadRange
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.services.consume.lease.recovery import LeaseRecovery
from pocketmq.services.consume.leases import GroupQueue, LeaseTable
from pocketmq.services.consume.reread import reread
from tests.kit.consuming import GROUP, INVISIBLE_MS, TOPIC, ConsumeDesk, bodies
from tests.kit.store_language import turns

MIB = 1024 * 1024


@pytest.fixture
def reads(desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch) -> list[ReadRange]:
    """Everything that is read from the store."""
    found: list[ReadRange] = []
    reading = desk.store.reading
    pull = reading.pull

    def noted(_: object, asked: ReadRange, *rest: Any, **named: Any) -> Any:
        found.append(asked)
        return pull(asked, *rest, **named)

    monkeypatch.setattr(type(reading), "pull", noted)
    return found


@pytest.mark.parametrize(
    ("offsets", "ranges"),
    [
        ([3], [(3, 1)]),
        ([3, 66], [(3, 64)]),
        ([3, 67], [(3, 1), (67, 1)]),
        ([0, 1, 2, 64, 65], [(0, 3), (64, 2)]),
    ],
)
async def test_what_lies_within_64_messages_is_read_again_in_one_go(
    desk: ConsumeDesk,
    reads: list[ReadRange],
    offsets: list[int],
    ranges: list[tuple[int, int]],
) -> None:
    await desk.send(*["a"] * 70)
    found = await reread(desk.store.reading, GroupQueue(GROUP, TOPIC, 0, 0), offsets)
    assert [(asked.queue_offset, asked.max_messages) for asked in reads] == ranges
    assert {asked.max_bytes for asked in reads} == {4 * MIB}
    assert {at: queue_offset_of(record) for at, record in found.items()} == {
        at: at for at in offsets
    }


async def test_a_receive_reads_no_queue_that_it_has_no_room_for(
    desk: ConsumeDesk, reads: list[ReadRange]
) -> None:
    for queue_id in (0, 1):
        await desk.send("a", "b", queue_id=queue_id)
    for wanted, counts in ((3, [3, 1]), (1, [1])):
        reads.clear()
        assert len((await desk.receive(max_messages=wanted)).records) == wanted
        assert [asked.max_messages for asked in reads] == counts


@pytest.mark.parametrize(("more_bytes", "read_count"), [(-1, 1), (0, 1), (1, 2)])
async def test_a_receive_reads_no_queue_without_room_for_a_byte(
    desk: ConsumeDesk, reads: list[ReadRange], more_bytes: int, read_count: int
) -> None:
    """There is one message in each queue; the first comes however large it is."""
    for queue_id in (0, 1):
        await desk.send("a", queue_id=queue_id)
    (record, _) = (await desk.receive()).records
    await desk.step(INVISIBLE_MS)
    await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: 0, 1: 0})
    reads.clear()
    room_bytes = len(record) + more_bytes
    assert len((await desk.receive(room=lambda _: room_bytes)).records) == read_count
    assert [asked.max_bytes for asked in reads] == [room_bytes, 1][:read_count]


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_receive_returns_what_it_read_before_a_queue_that_cannot_be_read(
    desk: ConsumeDesk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    fifo: bool,
) -> None:
    """The error of the first read is the receive's own; the other queue comes with the next one."""
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    for queue_id in (0, 1):
        await desk.send(f"{queue_id}", queue_id=queue_id)
    reading, pulls, refused_pull = desk.store.reading, 0, 1
    pull = reading.pull

    def refused(_: object, *asked: Any, **named: Any) -> Any:
        nonlocal pulls
        pulls += 1
        if pulls == refused_pull:
            raise StoreBusy(held_ms=2, limit_ms=1)
        return pull(*asked, **named)

    with monkeypatch.context() as patch:
        patch.setattr(type(reading), "pull", refused)
        with pytest.raises(StoreBusy):
            await desk.receive()
        refused_pull = 3
        got = bodies(await desk.receive())
    assert "receive.cut_short" in [one.message for one in caplog.records]
    assert len(got) == 1
    assert sorted(got + bodies(await desk.receive())) == ["0", "1"]


async def test_a_broadcast_loses_nothing_to_a_queue_that_cannot_be_read(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages of queues before it are returned; a receive cancelled there has read nothing."""
    asked: dict[str, Any] = {"broadcast": True, "client_id": "c"}
    assert (await desk.receive(**asked)).records == []
    for queue_id in (0, 1):
        await desk.send(f"{queue_id}", queue_id=queue_id)
    pull = type(desk.store.reading).pull
    for error in (asyncio.CancelledError(), StoreBusy(held_ms=2, limit_ms=1)):

        def refused(reading: Any, range_: ReadRange, *rest: Any, **named: Any) -> Any:
            if range_.queue_id == 1:
                raise error  # noqa: B023
            return pull(reading, range_, *rest, **named)

        with monkeypatch.context() as patch:
            patch.setattr(type(desk.store.reading), "pull", refused)
            if isinstance(error, asyncio.CancelledError):
                with pytest.raises(asyncio.CancelledError):
                    await desk.receive(**asked)
            else:
                assert bodies(await desk.receive(**asked)) == ["0"]
    assert "receive.cut_short" in [one.message for one in caplog.records]
    assert bodies(await desk.receive(**asked)) == ["1"]


async def test_a_receive_passes_over_other_tags_before_they_count(
    desk: ConsumeDesk, reads: list[ReadRange]
) -> None:
    for tag in "AAAAAAAAAB":
        await desk.send(tag.lower(), tag=tag)
    got = await desk.receive(max_messages=1, wanted=parse("B", tags_code))
    assert (bodies(got), len(reads)) == (["b"], 1)


async def test_a_receive_that_finds_nothing_reads_eight_times_at_most(
    desk: ConsumeDesk, reads: list[ReadRange]
) -> None:
    """The next one goes on behind what it passed over."""
    for tag in "AAAAAAAAAB":
        await desk.send("a", tag=tag)
    asked = {"max_messages": 1, "wanted": parse_filter("TAGS = 'B'", is_sql=True)}
    assert (await desk.receive(**asked)).records == []
    assert [one.queue_offset for one in reads] == [*range(8)]
    assert len((await desk.receive(**asked)).records) == 1
    assert [one.queue_offset for one in reads] == [*range(10)]


async def test_a_start_reads_a_long_journal_in_turns(desk: ConsumeDesk) -> None:
    await desk.send(*["a"] * 300)
    for _ in range(300):
        await desk.ack(await desk.receive(max_messages=1))
    await desk.settled()
    assert desk.store.reading.queue_range(TIMER_TOPIC, 0) == (0, 600)
    leases = LeaseTable()
    start = asyncio.ensure_future(LeaseRecovery(desk.store, leases).run())
    await turns(1)
    assert not start.done()
    await turns(4)
    assert start.done()
    assert leases.open_count == 0
