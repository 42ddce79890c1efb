"""Puts that wait for one flush and are notified by one future.

A future per put would cost an event-loop callback each, as much as storing the message.
"""

import asyncio
from collections.abc import Callable
from typing import final

from pocketmq.native.machine import i64

Heard = Callable[[asyncio.Future[bool]], None]
"""Callback with the future, which is done."""


@final
class FlushGroup:
    """A future that many puts share; no put may cancel it.

    future     True: appends made while the group was open are durable; False: the flush timed out
    begun_ms   monotonic time at which the first put joined
    is_open    whether the flush covers new appends
    count      number of puts that joined after the first
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
        assert not self.future.cancelled(), "a shared flush was cancelled"
        if self.future.done():
            self.future.get_loop().call_soon(heard, self.future)
        else:
            self._waiting.append(heard)

    def _tell(self, future: asyncio.Future[bool]) -> None:
        """Calls all callbacks; if one raises, the rest run in the next loop iteration."""
        future.exception()  # Marks it as retrieved, so that asyncio does not log it.
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
