"""A group that received in order and does no longer: what it settled stays so."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.model.administration import GroupSettings, ResetTarget
from pocketmq.model.consuming import RENEWED_MS, SettleStatus
from pocketmq.services.admin.positions import reset_offsets
from pocketmq.store.settings import FLUSH_ASYNC, FLUSH_SYNC
from tests.kit.consuming import (
    GROUP,
    INVISIBLE_MS,
    TOPIC,
    ConsumeDesk,
    bodies,
    consuming,
    statuses,
)
from tests.kit.store_language import turns, until

OK, INVALID = SettleStatus.OK, SettleStatus.INVALID_RECEIPT_HANDLE


async def in_order(desk: ConsumeDesk, *, fifo: bool) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))


async def leave_with_two_settled(desk: ConsumeDesk) -> None:
    """Leases a, b, c in order, settles the last two, and leaves FIFO order."""
    await in_order(desk, fifo=True)
    await desk.send("a", "b", "c")
    got = await desk.receive()
    await desk.consume.ack(GROUP, TOPIC, got.handles[1:])
    await in_order(desk, fifo=False)
    assert bodies(await desk.receive()) == []


@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_was_settled_ahead_is_not_given_out_again(
    desk: ConsumeDesk, tmp_path: Path, *, is_killed: bool
) -> None:
    await in_order(desk, fifo=True)
    await desk.send("a", "b", "c")
    got = await desk.receive()
    assert statuses(await desk.consume.ack(GROUP, TOPIC, got.handles[1:2])) == [OK]
    await in_order(desk, fifo=False)
    if is_killed:
        image = desk.talking.killed(tmp_path / "image")
        async with consuming(image, clock=desk.clock) as later:
            await _goes_on(later, got.handles)
    else:
        await _goes_on(desk, got.handles)


async def _goes_on(desk: ConsumeDesk, handles: list[str]) -> None:
    """Of a, b, c under leases in order b was settled."""
    await desk.send("d")
    assert bodies(await desk.receive()) == ["d"]
    assert desk.in_flight == 3
    settled = await desk.consume.ack(GROUP, TOPIC, handles)
    assert statuses(settled) == [OK, INVALID, OK]
    assert desk.in_flight == 1
    await desk.step(INVISIBLE_MS)
    assert bodies(await desk.receive()) == ["d"]


async def test_what_nobody_settles_comes_again_when_its_lease_is_over(desk: ConsumeDesk) -> None:
    await in_order(desk, fifo=True)
    await desk.send("a", "b")
    got = await desk.receive()
    await desk.consume.ack(GROUP, TOPIC, got.handles[1:])
    await in_order(desk, fifo=False)
    await desk.step(INVISIBLE_MS - 1)
    assert bodies(await desk.receive()) == []
    await desk.step(1)
    again = await desk.receive()
    assert (bodies(again), again.attempts) == (["a"], [2])
    assert await desk.ack(again) == [OK]
    await desk.step(2 * INVISIBLE_MS)
    assert bodies(await desk.receive()) == []


async def test_what_was_over_as_its_queue_was_left_comes_at_once(desk: ConsumeDesk) -> None:
    await in_order(desk, fifo=True)
    await desk.send("a")
    got = await desk.receive()
    await desk.consume.change_invisible(GROUP, TOPIC, [(got.handles[0], 0)])
    await in_order(desk, fifo=False)
    assert bodies(await desk.receive()) == []
    assert desk.in_flight == 1
    await desk.step()
    assert bodies(await desk.receive()) == ["a"]


async def test_it_holds_after_a_kill_behind_the_change(desk: ConsumeDesk, tmp_path: Path) -> None:
    await in_order(desk, fifo=True)
    await desk.send("a", "b", "c")
    got = await desk.receive()
    await desk.consume.ack(GROUP, TOPIC, got.handles[1:2])
    await in_order(desk, fifo=False)
    assert bodies(await desk.receive()) == []
    assert statuses(await desk.consume.ack(GROUP, TOPIC, got.handles[:1])) == [OK]
    for _ in range(3):
        await desk.step(1_000)
    await desk.store.tables.orders.saved()
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert bodies(await later.receive()) == []
        assert statuses(await later.consume.ack(GROUP, TOPIC, got.handles)) == [
            INVALID, INVALID, OK,
        ]  # fmt: skip


async def test_what_was_settled_stays_so_where_a_kill_leaves_the_offset_behind_it(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    """The table is on disk, and the offset that moved beyond what was settled is not."""
    await leave_with_two_settled(desk)
    await desk.store.tables.orders.saved()
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        await later.send("d")
        assert bodies(await later.receive()) == ["d"]
        await later.step(INVISIBLE_MS)
        again = await later.receive()
        assert sorted(bodies(again)) == ["a", "d"]
        image = later.talking.killed(tmp_path / "second")
    async with consuming(image, clock=desk.clock) as last:
        assert bodies(await last.receive()) == []


async def test_an_offset_that_is_set_back_brings_all_again(desk: ConsumeDesk) -> None:
    await leave_with_two_settled(desk)
    await reset_offsets(desk.store, GROUP, TOPIC, ResetTarget(queue_offset=0), queue_ids=[0])
    assert bodies(await desk.receive()) == ["a", "b", "c"]


async def test_a_receive_made_again_in_order_gets_what_it_leased_before(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    asked = {"client_id": "c", "attempt_id": "x"}
    got = await desk.receive(max_messages=1, **asked)
    await in_order(desk, fifo=True)
    assert (await desk.receive(max_messages=1, **asked)).handles == got.handles
    assert statuses(await desk.consume.ack(GROUP, TOPIC, got.handles)) == [OK]
    assert bodies(await desk.receive(max_messages=1, **asked)) == ["b"]


async def test_back_in_order_the_rest_follows(desk: ConsumeDesk) -> None:
    await in_order(desk, fifo=True)
    await desk.send("a", "b", "c", "d")
    got = await desk.receive(max_messages=2)
    await desk.consume.ack(GROUP, TOPIC, got.handles[1:])
    await in_order(desk, fifo=False)
    assert bodies(await desk.receive(max_messages=1)) == ["c"]
    await in_order(desk, fifo=True)
    assert bodies(await desk.receive()) == ["d"]


async def test_what_waited_behind_its_message_group_is_lost_by_no_kill(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    """Of a1 a2 a3 b1 the first and the last were given out: their leases move no offset."""
    await in_order(desk, fifo=True)
    await desk.send_grouped("a1", "a2", "a3", "b1")
    for body in ("a1", "b1"):
        assert bodies(await desk.receive(max_messages=1)) == [body]
    await in_order(desk, fifo=False)
    assert bodies(await desk.receive(max_messages=1)) == ["a2"]
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        assert bodies(await later.receive()) == ["a3"]
        await later.step(INVISIBLE_MS)
        assert sorted(bodies(await later.receive())) == ["a1", "a2", "a3", "b1"]


async def test_what_its_receiver_never_had_comes_at_once_uncounted(desk: ConsumeDesk) -> None:
    await in_order(desk, fifo=True)
    await desk.send("a", "b")
    lost = await desk.receive(max_messages=1)
    desk.consume.release(GROUP, TOPIC, lost.handles)
    await in_order(desk, fifo=False)
    got = await desk.receive()
    assert (bodies(got), got.attempts) == (["a", "b"], [1, 1])
    assert await desk.ack(got) == [OK, OK]
    assert desk.in_flight == 0


async def test_a_kill_behind_the_change_brings_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    """The table says what it said before; what it does not say stands beside it by then."""
    async with consuming(tmp_path / "s", flush=FLUSH_ASYNC) as desk:
        await desk.send("before")
        await desk.ack(await desk.receive())
        await in_order(desk, fifo=True)
        await desk.send("a", "b")
        first = await desk.receive(max_messages=1)
        await in_order(desk, fifo=False)
        with desk.talking.quick_disk.held(tmp_path / "s" / "config"):
            second = await desk.receive()
            assert (bodies(first), bodies(second)) == (["a"], ["b"])
            assert await desk.ack(first) == await desk.ack(second) == [OK]
            image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        await later.step(INVISIBLE_MS)
        assert bodies(await later.receive()) == []


async def test_what_renews_itself_goes_on_to_do_so(desk: ConsumeDesk) -> None:
    await in_order(desk, fifo=True)
    await desk.send_grouped("a1", "b1", "c1")
    renewed = {"client_id": "c", "auto_renew": True, "invisible_ms": RENEWED_MS}
    got = await desk.receive(max_messages=1, **renewed)
    await desk.receive(max_messages=1, **{**renewed, "client_id": "gone"})
    other = await desk.receive(invisible_ms=RENEWED_MS)
    assert bodies(other) == ["c1"]
    await in_order(desk, fifo=False)
    assert bodies(await desk.receive()) == []
    for _ in range(4):
        await desk.step(RENEWED_MS - 1)
        desk.consume.clients.touch("c", GROUP, desk.clock.monotonic_ms())
        await desk.step(1)
    assert await desk.ack(got) == [OK]
    assert sorted(bodies(await desk.receive())) == ["b1", "c1"]
    assert await desk.ack(other) == [INVALID]


async def test_a_client_that_ends_ends_what_it_had_in_order(desk: ConsumeDesk) -> None:
    await in_order(desk, fifo=True)
    await desk.send("a")
    await desk.receive(client_id="c", auto_renew=True, invisible_ms=RENEWED_MS)
    await in_order(desk, fifo=False)
    assert bodies(await desk.receive()) == []
    desk.consume.leave("c", GROUP)
    await desk.step(1_000)
    assert bodies(await desk.receive()) == ["a"]


async def test_what_a_kill_leaves_between_journal_and_table_is_leased_once(tmp_path: Path) -> None:
    async with consuming(tmp_path / "s") as desk:
        await desk.send("first")
        await desk.ack(await desk.receive())
        await in_order(desk, fifo=True)
        await desk.send("a", "b")
        got = await desk.receive(max_messages=1)
        await in_order(desk, fifo=False)
        with desk.talking.quick_disk.held():
            receive = asyncio.ensure_future(desk.receive())
            await turns(50)
            assert not receive.done()
            image = desk.talking.killed(tmp_path / "image")
        await receive
    async with consuming(image, clock=desk.clock) as later:
        await later.step(INVISIBLE_MS)
        again = await later.receive()
        assert sorted(bodies(again)) == ["a", "b"]
        assert statuses(await later.consume.ack(GROUP, TOPIC, got.handles)) == [INVALID]
        assert await later.ack(again) == [OK, OK]
        await later.step(2 * INVISIBLE_MS)
        assert bodies(await later.receive()) == []


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_time_that_is_asked_for_while_its_queue_is_left_holds(
    tmp_path: Path, *, is_killed: bool
) -> None:
    async with consuming(tmp_path / "s") as desk:
        await in_order(desk, fifo=True)
        await desk.send_grouped("a1", "b1", "c1")
        got = await desk.receive()
        await in_order(desk, fifo=False)
        with desk.talking.quick_disk.held():
            receive = asyncio.ensure_future(desk.receive())
            await turns(50)
            asked = [(got.handles[0], 10 * INVISIBLE_MS)]
            change = asyncio.ensure_future(desk.consume.change_invisible(GROUP, TOPIC, asked))
            acked = asyncio.ensure_future(desk.consume.ack(GROUP, TOPIC, got.handles[1:2]))
            await turns(50)
            assert not receive.done()
        assert bodies(await receive) == []
        assert statuses([*await change, *await acked]) == [OK, OK]
        if is_killed:
            image = desk.talking.killed(tmp_path / "image")
            async with consuming(image, clock=desk.clock) as later:
                await _hidden_for_long(later)
        else:
            await _hidden_for_long(desk)


async def _hidden_for_long(desk: ConsumeDesk) -> None:
    """Of a1, b1, c1 the first was hidden for ten times as long, the second was settled."""
    await desk.step(2 * INVISIBLE_MS)
    assert bodies(await desk.receive()) == ["c1"]
    await desk.step(8 * INVISIBLE_MS)
    assert sorted(bodies(await desk.receive())) == ["a1", "c1"]


async def test_what_another_group_leases_while_a_queue_is_left_hides_no_lease_from_a_start(
    tmp_path: Path,
) -> None:
    """The journal is read from its oldest lease on, not from the one that was taken in first."""
    async with consuming(tmp_path / "s", flush=FLUSH_SYNC) as desk:
        await desk.store.tables.groups.ensure("other")
        await desk.send("first")
        await desk.ack(await desk.receive())
        await in_order(desk, fifo=True)
        await desk.send("a", "b")
        await desk.receive(max_messages=1)
        await in_order(desk, fifo=False)
        with desk.talking.quick_disk.held():
            leaving = asyncio.ensure_future(desk.receive())
            await turns(50)
            other = asyncio.ensure_future(desk.receive(group="other", invisible_ms=3_600_000))
            await turns(50)
            assert not leaving.done()
        assert bodies(await leaving) == ["b"]
        assert bodies(await other) == ["first", "a", "b"]
        for _ in range(5):
            await desk.step(1_000)
            await desk.store.tables.offsets.saved()
        image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        await later.step(2 * INVISIBLE_MS)
        assert sorted(bodies(await later.receive())) == ["a", "b"]


async def test_a_queue_is_left_once_its_table_says_so_and_holds_no_lease_that_is_settled(
    tmp_path: Path,
) -> None:
    """Else a kill would lease once more what was acknowledged as without order."""
    async with consuming(tmp_path / "s") as desk:
        await desk.send("before")
        await desk.ack(await desk.receive())
        await in_order(desk, fifo=True)
        await desk.send("a", "b")
        got = await desk.receive(max_messages=1)
        await in_order(desk, fifo=False)
        with desk.talking.quick_disk.held(tmp_path / "s" / "pocketmq"):
            marks = desk.store.tables.offsets.leases
            journal_end = marks.journal_end
            leaving = asyncio.ensure_future(desk.receive())
            await until(lambda: marks.journal_end > journal_end)
            await turns(50)
            assert not leaving.done()
        assert await desk.ack(await leaving) == await desk.ack(got) == [OK]
        assert desk.consume._lease.table.open_count == 0


async def test_what_is_settled_while_its_queue_is_left_holds_no_lease_open(tmp_path: Path) -> None:
    async with consuming(tmp_path / "s") as desk:
        await desk.send("before")
        await desk.ack(await desk.receive())
        await in_order(desk, fifo=True)
        await desk.send("a")
        got = await desk.receive()
        await in_order(desk, fifo=False)
        with desk.talking.quick_disk.held():
            marks = desk.store.tables.offsets.leases
            journal_end = marks.journal_end
            leaving = asyncio.ensure_future(desk.receive())
            await until(lambda: marks.journal_end > journal_end)
            await turns(50)
            acked = asyncio.ensure_future(desk.consume.ack(GROUP, TOPIC, got.handles))
            await turns(50)
            assert not leaving.done()
        assert bodies(await leaving) == []
        assert statuses(await acked) == [OK]
        assert (desk.in_flight, desk.consume._lease.table.open_count) == (0, 0)


async def test_the_table_says_that_a_queue_is_left_once_its_leases_are_durable(
    tmp_path: Path,
) -> None:
    """In every flush mode: else a power cut would leave what was given out nowhere."""
    async with consuming(tmp_path / "s", flush=FLUSH_ASYNC) as desk:
        await desk.send("before")
        await desk.ack(await desk.receive())
        await in_order(desk, fifo=True)
        await desk.send("a", "b")
        await desk.receive(max_messages=1)
        await desk.store.flush()
        await in_order(desk, fifo=False)
        with desk.talking.quick_disk.held(tmp_path / "s" / "commitlog"):
            marks = desk.store.tables.offsets.leases
            journal_end = marks.journal_end
            leaving = asyncio.ensure_future(desk.receive())
            await until(lambda: marks.journal_end > journal_end)
            await turns(50)
            assert not leaving.done()
            assert desk.consume._fifo.table.delivered_count == 1
        assert bodies(await leaving) == ["b"]
        assert desk.consume._fifo.table.delivered_count == 0
