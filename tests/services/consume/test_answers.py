"""Nothing that settles or leases a message is answered before it is durable."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pocketmq.model.administration import GroupSettings
from pocketmq.store.settings import FLUSH_ASYNC, FLUSH_SYNC
from tests.kit.consuming import GROUP, TOPIC, ConsumeDesk, consuming
from tests.kit.store_language import turns

Call = Callable[[ConsumeDesk, Sequence[str]], Awaitable[Any]]


def _received(desk: ConsumeDesk, handles: Sequence[str]) -> Awaitable[Any]:
    return desk.receive()


def _acknowledged(desk: ConsumeDesk, handles: Sequence[str]) -> Awaitable[Any]:
    return desk.consume.ack(GROUP, TOPIC, handles)


def _hidden(desk: ConsumeDesk, handles: Sequence[str]) -> Awaitable[Any]:
    return desk.consume.change_invisible(GROUP, TOPIC, [(handle, 90_000) for handle in handles])


def _sent_back(desk: ConsumeDesk, handles: Sequence[str]) -> Awaitable[Any]:
    return desk.consume.send_back(GROUP, TOPIC, [(handle, 1) for handle in handles])


def _buried(desk: ConsumeDesk, handles: Sequence[str]) -> Awaitable[Any]:
    return desk.consume.forward_to_dead_letters(GROUP, TOPIC, handles)


async def _waits(desk: ConsumeDesk, call: Call, handles: Sequence[str], held: Path) -> bool:
    """Returns whether a call waits for the disk, and ends once that is there."""
    with desk.talking.quick_disk.held(held):
        answer = asyncio.ensure_future(call(desk, handles))
        await turns(50)
        is_waiting = not answer.done()
    await answer
    return is_waiting


@pytest.mark.parametrize("call", [_received, _acknowledged, _hidden, _sent_back, _buried])
async def test_of_leases_nothing_is_answered_before_the_log_is_durable(
    tmp_path: Path, call: Call
) -> None:
    async with consuming(tmp_path / "s", flush=FLUSH_SYNC) as desk:
        await desk.send("first")
        (first,) = (await desk.receive()).handles
        await desk.consume.send_back(GROUP, TOPIC, [(first, 1)])
        await desk.send("a")
        handles = [] if call is _received else (await desk.receive()).handles
        await desk.settled()
        assert await _waits(desk, call, handles, tmp_path / "s" / "commitlog")


@pytest.mark.parametrize("call", [_received, _acknowledged, _hidden, _sent_back, _buried])
async def test_in_order_nothing_is_answered_before_its_table_is_durable(
    tmp_path: Path, call: Call
) -> None:
    async with consuming(tmp_path / "s", flush=FLUSH_SYNC) as desk:
        await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
        await desk.send("a")
        handles = [] if call is _received else (await desk.receive()).handles
        await desk.settled()
        await desk.store.tables.orders.saved()
        assert await _waits(desk, call, handles, tmp_path / "s" / "pocketmq")


@pytest.mark.parametrize("call", [_sent_back, _buried])
async def test_in_order_what_moves_on_is_durable_before_it_is_answered(
    tmp_path: Path, call: Call
) -> None:
    async with consuming(tmp_path / "s", flush=FLUSH_ASYNC) as desk:
        await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
        await desk.send("a")
        handles = (await desk.receive()).handles
        await desk.store.flush()
        await desk.store.tables.orders.saved()
        assert await _waits(desk, call, handles, tmp_path / "s" / "commitlog")
