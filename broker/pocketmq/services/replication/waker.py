"""Wakes one connection when any of several marks grows.

An unfinished wait is used again. Otherwise a mark that rarely grows would collect one cancelled
wait for each message.
"""

import asyncio
from functools import partial

from pocketmq.store.watermark import Watermark


class Waker:
    """The waits of one connection; `close` must follow."""

    __slots__ = ("_is_rung", "_waits")

    def __init__(self) -> None:
        self._waits: dict[Watermark, asyncio.Future[bool]] = {}
        self._is_rung = asyncio.Event()

    def add(self, mark: Watermark, value: int, delay_s: float = 0.0) -> None:
        """Adds a mark and a value; while a wait for this mark is unfinished, that one stays.

        delay_s   pause between the mark's growth and the wake-up
        """
        kept = self._waits.get(mark)
        if kept is None or kept.done():
            self._waits[mark] = future = mark.reached(value)
            future.add_done_callback(partial(self._ring_after, delay_s) if delay_s else self._ring)

    def _ring_after(self, delay_s: float, future: "asyncio.Future[bool]") -> None:
        future.get_loop().call_later(delay_s, self._ring, future)

    async def woken(self) -> None:
        """Waits until a mark has grown since the last return, or the store has failed."""
        await self._is_rung.wait()
        self._is_rung.clear()

    def close(self) -> None:
        """Ends all waits."""
        for future in self._waits.values():
            future.cancel()
        self._waits.clear()
        assert not self._waits

    def _ring(self, future: "asyncio.Future[bool]") -> None:
        if not future.cancelled():
            future.exception()  # Marked as retrieved: the sender detects the failure itself.
        self._is_rung.set()
