"""Puts that wait for the same flush, notified together.

A future with a callback for each would cost as much as storing the messages: one turn of the event
loop each.
"""

import asyncio
from collections.abc import Callable
from typing import final

from pocketmq.native.machine import i64

Heard = Callable[[asyncio.Future[bool]], None]
"""Is given a future that is done."""


@final
class FlushGroup:
    """A future that many share, none of whom may cancel it.

    future     True: appends while it was open are durable; False: they were not in time
    begun_ms   monotonic ms when the first one joined
    is_open    whether appends from now on are flushed with it
    count      further waiters that joined it
    """

    __slots__ = ("_waiting", "begun_ms", "count", "future", "is_open")

    def __init__(
        self, future: asyncio.Future[bool], begun_ms: int, *, is_open: bool = False
    ) -> None:
        self.future = future
        self.begun_ms = begun_ms
        self.is_open = is_open
        self.count: i64 = 0
        self._waiting: list[Heard] = []
        future.add_done_callback(self._tell)

    def join(self, heard: Heard) -> None:
        """Calls a function when the future is done, in order of joining."""
        assert not self.future.cancelled(), "who shares a flush cancels it for nobody"
        if self.future.done():
            self.future.get_loop().call_soon(heard, self.future)
        else:
            self._waiting.append(heard)

    def _tell(self, future: asyncio.Future[bool]) -> None:
        """Calls all; where one raises, the others come in the next turn of the loop."""
        future.exception()  # Counts as retrieved, whether anybody is left or not.
        waiting, self._waiting = self._waiting, []
        told: i64 = 0
        try:
            for heard in waiting:
                told += 1
                heard(future)
        finally:
            if told < len(waiting):
                self._waiting = waiting[told:] + self._waiting
                future.get_loop().call_soon(self._tell, future)
