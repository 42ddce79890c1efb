"""The put-lock: one writer at a time assigns offsets, encodes and appends.

Held for that one synchronous block and never across an await, it lets the store be embedded from
threads. How long writers wait for it and hold it are histograms; a hold of half a second is logged,
and a writer that finds it held for longer than the limit is refused as busy.
Source: PutMessageLock, DefaultMessageStore.isOSPageCacheBusy.
"""

import threading
from collections.abc import Callable
from time import perf_counter
from typing import Final, final

from pocketmq.model.errors import StoreBusy
from pocketmq.model.stats import Histogram

HOLD_WARNING_SECONDS: Final = 0.5


@final
class PutLock:
    """A context manager around the block; entering may raise StoreBusy.

    tell_long   is called with the ms of a hold that was longer than `long_seconds`
    """

    __slots__ = (
        "_busy_seconds", "_lock", "_long_seconds", "_since", "_tell_long", "hold_seconds",
        "wait_seconds",
    )  # fmt: skip

    def __init__(
        self,
        busy_timeout_ms: int,
        tell_long: Callable[[int], None] | None = None,
        long_seconds: float = HOLD_WARNING_SECONDS,
    ) -> None:
        self._lock = threading.Lock()
        self._busy_seconds = busy_timeout_ms / 1000
        self._tell_long = tell_long
        self._long_seconds = long_seconds
        self._since = 0.0
        self.wait_seconds = Histogram(
            "pocketmq_put_lock_wait_seconds", "Time writers waited for the put-lock."
        )
        self.hold_seconds = Histogram(
            "pocketmq_put_lock_hold_seconds", "Time writers held the put-lock."
        )

    def enter(self) -> float:
        """Takes the lock; returns when it was asked for, on the clock of `perf_counter`.

        Errors   StoreBusy
        """
        asked = perf_counter()
        if not self._lock.acquire(False):
            since = self._since
            if since and asked - since > self._busy_seconds:
                held_ms = int((asked - since) * 1000)
                raise StoreBusy(held_ms=held_ms, limit_ms=int(self._busy_seconds * 1000))
            self._lock.acquire()
            entered = perf_counter()
        else:
            entered = asked
        self.wait_seconds.observe(entered - asked)
        self._since = entered
        return asked

    def leave(self) -> float:
        """Gives the lock back; returns when, on the same clock."""
        assert self._since > 0, "it was not entered"
        left = perf_counter()
        held = left - self._since
        self._since = 0.0
        self._lock.release()
        self.hold_seconds.observe(held)
        if held > self._long_seconds and self._tell_long is not None:
            self._tell_long(int(held * 1000))
        return left

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()
