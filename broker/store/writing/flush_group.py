"""Those who wait for the same flush, told at once.

A future with a callback for each would cost as much as storing their messages: a turn of the loop
for every one of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable

Heard = Callable[[asyncio.Future[bool]], None]
"""Is given a future that is done."""


class FlushGroup:
    """A future that many share, none of whom may cancel it.

    future     True: what was appended when they joined is durable; False: it was not in time
    begun_ms   monotonic ms when the first one joined
    """

    __slots__ = ("_waiting", "begun_ms", "future")

    def __init__(self, future: asyncio.Future[bool], begun_ms: int) -> None:
        self.future = future
        self.begun_ms = begun_ms
        self._waiting: deque[Heard] = deque()
        future.add_done_callback(self._tell)

    def join(self, heard: Heard) -> None:
        """Have a function called when the future is done, after those who joined before."""
        assert not self.future.cancelled(), "who shares a flush cancels it for nobody"
        if self.future.done():
            self.future.get_loop().call_soon(heard, self.future)
        else:
            self._waiting.append(heard)

    def _tell(self, future: asyncio.Future[bool]) -> None:
        """Call all; where one raises, the others come in the next turn of the loop."""
        future.exception()  # Counts as retrieved, whether anybody is left or not.
        try:
            while self._waiting:
                self._waiting.popleft()(future)
        finally:
            if self._waiting:
                future.get_loop().call_soon(self._tell, future)
