"""Slow requests: how many may be in transit, which of them wait, and which are cancelled."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pocketmq.model.errors import TooManyRequests
from pocketmq.rpc.grpcio import receiving as module
from pocketmq.rpc.grpcio.receiving import (
    QUICK_MAX,
    SLOTS,
    SLOTS_OF_A_PEER,
    WAITING_MAX,
    Arrival,
    Receiving,
)
from pocketmq.rpc.grpcio.server import OPTIONS
from tests.kit.store_language import turns


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_S", 0.01)


async def never() -> bytes:
    await asyncio.get_running_loop().create_future()
    return b""


async def at_once() -> bytes:
    return b"x"


def reads(
    receiving: Receiving, peers: list[str], read: Callable[[], Coroutine[Any, Any, bytes]]
) -> list[asyncio.Task[bytes]]:
    return [asyncio.ensure_future(receiving.read(peer, read)) for peer in peers]


async def test_requests_on_their_way_are_counted_until_they_are_here_or_gone() -> None:
    receiving = Receiving()
    arrivals = [Arrival(receiving) for _ in range(QUICK_MAX)]
    assert receiving.is_busy
    assert arrivals[0](b"raw") == b"raw"
    assert receiving.quick_count == QUICK_MAX - 1
    arrivals.clear()
    assert receiving.quick_count == 0


async def test_one_is_read_at_once() -> None:
    assert await Receiving().read("a", at_once) == b"x"


async def test_alone_a_request_may_take_its_time() -> None:
    receiving = Receiving()
    (task,) = reads(receiving, ["a"], never)
    await turns()
    assert not task.done()
    task.cancel()
    await turns()
    assert await receiving.read("b", at_once) == b"x"


async def test_who_never_ends_makes_room_for_who_waits() -> None:
    receiving = Receiving()
    hostile = reads(receiving, [f"h{n % 8}" for n in range(100)], never)
    await turns()
    good = reads(receiving, ["good"] * 20, at_once)
    assert await asyncio.gather(*good) == [b"x"] * 20
    ended = await asyncio.gather(*hostile[:SLOTS], return_exceptions=True)
    assert all(isinstance(error, TooManyRequests) for error in ended)
    for task in hostile:
        task.cancel()
    await asyncio.gather(*hostile, return_exceptions=True)
    assert await receiving.read("good", at_once) == b"x"


async def test_a_slow_peer_does_not_wait_again() -> None:
    receiving = Receiving()
    hostile = reads(receiving, ["h"] * (SLOTS_OF_A_PEER + 3), never)
    ended = await asyncio.gather(*hostile, return_exceptions=True)
    assert all(isinstance(error, TooManyRequests) for error in ended)
    again = reads(receiving, ["h"] * SLOTS_OF_A_PEER, never)
    await turns()
    with pytest.raises(TooManyRequests):
        await receiving.read("h", at_once)
    for task in again:
        task.cancel()
    await asyncio.gather(*again, return_exceptions=True)


async def test_no_more_wait_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_S", 60.0)
    receiving = Receiving()
    tasks = reads(receiving, [f"p{n}" for n in range(SLOTS + WAITING_MAX)], never)
    await turns()
    assert receiving.is_full
    with pytest.raises(TooManyRequests):
        await receiving.read("another", at_once)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await receiving.read("another", at_once) == b"x"


async def test_whoever_goes_while_waiting_leaves_no_slot_behind() -> None:
    receiving = Receiving()
    tasks = reads(receiving, ["a"] * 3 + ["b"] * 9 + ["c"] * 30, never)
    await turns()
    for task in reversed(tasks):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await asyncio.gather(*reads(receiving, ["d"] * 100, at_once)) == [b"x"] * 100


def test_limits_that_a_hostile_client_meets() -> None:
    options = dict(OPTIONS)
    assert options["grpc.so_reuseport"] == 0
    assert options["grpc.max_receive_message_length"] == 16 << 20
    assert options["grpc.max_send_message_length"] == 16 << 20
    assert options["grpc.absolute_max_metadata_size"] == 16 << 10
