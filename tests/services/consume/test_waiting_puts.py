"""Calls that meet while a put waits for the log's next file."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pocketmq.model.administration import GroupSettings
from pocketmq.model.batch import Destination
from pocketmq.model.consuming import SettleStatus
from pocketmq.store.settings import FLUSH_ASYNC
from tests.kit.consuming import GROUP, TOPIC, ConsumeDesk, bodies, consuming, statuses
from tests.kit.rows import batch
from tests.kit.store_language import STORE_HOST, put_row, turns

OK, INVALID = SettleStatus.OK, SettleStatus.INVALID_RECEIPT_HANDLE


@asynccontextmanager
async def small(directory: Path, journal_max: int = 100_000) -> AsyncIterator[ConsumeDesk]:
    """Opens a store whose log rolls after a few puts, and that waits for no disk."""
    async with consuming(
        directory, commit_log_file_size_bytes=8_192, flush=FLUSH_ASYNC, journal_max=journal_max
    ) as desk:
        yield desk


@asynccontextmanager
async def full_file(desk: ConsumeDesk, left_bytes: int) -> AsyncIterator[None]:
    """Leaves at most so many bytes in the log's last file; at exit the next is made."""
    await desk.talking.stocked()
    with desk.talking.quick_disk.held():
        while desk.store.writing.takes(left_bytes):
            run = Destination("filler", 0, STORE_HOST), batch(put_row("x" * 64))
            await desk.store.writing.put([run])
        yield


@pytest.mark.parametrize("changes_first", [False, True])
async def test_a_lease_is_changed_whose_message_is_given_out_anew(
    tmp_path: Path, *, changes_first: bool
) -> None:
    """The operator set the offset back; the journal's last entry on a message holds."""
    async with small(tmp_path / "s") as desk:
        await desk.send("a")
        got = await desk.receive()
        consume, offsets = desk.consume, desk.store.tables.offsets
        entry = [(got.handles[0], 40_000)]
        async with full_file(desk, 300):
            setting = asyncio.ensure_future(offsets.set_many(GROUP, TOPIC, {0: 0}))
            await turns()
            if changes_first:
                change = asyncio.ensure_future(consume.change_invisible(GROUP, TOPIC, entry))
                await turns()
            receive = asyncio.ensure_future(desk.receive())
            await turns()
            if not changes_first:
                change = asyncio.ensure_future(consume.change_invisible(GROUP, TOPIC, entry))
                await turns()
            assert not receive.done()
            assert not change.done()
        (changed,) = await change
        anew = await receive
        await setting
        assert (changed.status, bodies(anew)) == (OK, ["a"])
        assert desk.in_flight == 1
        last = anew.handles[0] if changes_first else changed.handle
        image = desk.talking.killed(tmp_path / "image")
    async with small(image) as later:
        assert later.in_flight == 1
        settled = await later.consume.ack(GROUP, TOPIC, [last])
        assert (statuses(settled), later.in_flight) == ([OK], 0)


async def test_what_is_acknowledged_as_its_lease_is_written_down_anew_stays_so(
    tmp_path: Path,
) -> None:
    async with small(tmp_path / "s", journal_max=4) as desk:
        await desk.send("a", "b", "c", "d")
        held = [await desk.receive(max_messages=1) for _ in range(4)]
        for number in range(4):
            await desk.send(f"{number}")
            await desk.ack(await desk.receive())
        async with full_file(desk, 1_500):
            stepping = asyncio.ensure_future(desk.step(1_000))
            await turns()
            ack = asyncio.ensure_future(desk.ack(held[1]))
            await turns()
            assert ack.done()
        assert await ack == [OK]
        await stepping
        for _ in range(3):
            await desk.step(1_000)
        await desk.store.tables.offsets.saved()
        image = desk.talking.killed(tmp_path / "image")
    async with small(image) as later:
        assert later.in_flight == 3
        handles = [one.handles[0] for one in held]
        settled = await later.consume.ack(GROUP, TOPIC, handles)
        assert statuses(settled) == [OK, INVALID, OK, OK]


async def test_a_late_handle_of_before_while_somebody_receives_brings_nothing_back(
    tmp_path: Path,
) -> None:
    """The group has left its order, in which b1 was settled ahead of the others."""
    async with small(tmp_path / "s") as desk:
        groups, ack = desk.store.tables.groups, desk.consume.ack
        await groups.update(GROUP, GroupSettings(fifo=True))
        await desk.send_grouped("a1", "a2", "a3", "b1")
        await desk.receive(max_messages=1)
        got = await desk.receive(max_messages=1)
        assert statuses(await ack(GROUP, TOPIC, got.handles)) == [OK]
        await groups.update(GROUP, GroupSettings(fifo=False))
        assert bodies(await desk.receive(max_messages=1)) == ["a2"]
        async with full_file(desk, 300):
            receive = asyncio.ensure_future(desk.receive(max_messages=1))
            await turns()
            assert not receive.done()
            assert statuses(await ack(GROUP, TOPIC, got.handles)) == [INVALID]
        assert bodies(await receive) == ["a3"]
        assert bodies(await desk.receive()) == []
