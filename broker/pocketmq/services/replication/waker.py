"""Wakes one connection once any of several marks has grown.

A wait that is not over is kept for the next time: a mark that rarely grows would else collect a
cancelled wait for every message.
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
        """Also wakes at a value of a mark, or at the one that is waited for already.

        delay_s   time for which it is not urgent: it may wake for another mark before
        """
        kept = self._waits.get(mark)
        if kept is None or kept.done():
            self._waits[mark] = future = mark.reached(value)
            future.add_done_callback(partial(self._ring_after, delay_s) if delay_s else self._ring)

    def _ring_after(self, delay_s: float, future: "asyncio.Future[bool]") -> None:
        future.get_loop().call_later(delay_s, self._ring, future)

    async def woken(self) -> None:
        """Waits until a mark has grown, since the last return; also after a failure."""
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
            future.exception()  # The sender finds the store's failure itself.
        self._is_rung.set()
