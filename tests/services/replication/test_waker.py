"""Wakes of a connection, and the order in which leader and followers flush."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.services.replication.waker import Waker
from pocketmq.store.watermark import Watermark
from pocketmq.store.write.durability import Durability
from tests.kit.store_language import store_at, turns

HOUR_S = 3_600


async def test_what_is_not_urgent_wakes_later_or_is_taken_along() -> None:
    waker, urgent, late = Waker(), Watermark(), Watermark()
    waker.add(urgent, 1)
    waker.add(late, 1, HOUR_S)
    waiting = asyncio.ensure_future(waker.woken())
    late.advance(1)
    await turns(5)
    assert not waiting.done()
    urgent.advance(1)
    await waiting
    waker.add(late, 1, 0.001)
    await asyncio.wait_for(waker.woken(), 20)
    waker.close()


async def test_followers_are_sent_a_message_before_its_flush_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, begin = list[str](), Durability._begin_asked
    waker = Waker()

    def noted(durability: Durability) -> None:
        order.append("flush")
        begin(durability)

    async def send() -> None:
        await waker.woken()
        order.append("sent")

    monkeypatch.setattr(Durability, "_begin_asked", noted)
    async with store_at(tmp_path, in_sync_replicas=2) as talking:
        await turns(5)
        order.clear()
        committed = talking.store.marks.committed
        waker.add(committed, committed.value + 1)
        sending = asyncio.ensure_future(send())
        await talking.send("orders", "a")
        await sending
        assert order == ["sent", "flush"]
    waker.close()
