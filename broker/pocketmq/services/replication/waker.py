"""Wakes one connection once any of several marks has grown.

A wait that is not over is kept for the next time: a mark that rarely grows would else collect a
cancelled wait for every message.
"""

import asyncio

from pocketmq.store.watermark import Watermark


class Waker:
    """The waits of one connection; `close` must follow."""

    __slots__ = ("_is_rung", "_waits")

    def __init__(self) -> None:
        self._waits: dict[Watermark, asyncio.Future[bool]] = {}
        self._is_rung = asyncio.Event()

    def add(self, mark: Watermark, value: int) -> None:
        """Also wakes at a value of a mark, or at the one that is waited for already."""
        kept = self._waits.get(mark)
        if kept is None or kept.done():
            self._waits[mark] = future = mark.reached(value)
            future.add_done_callback(self._ring)

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
