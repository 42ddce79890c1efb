"""The put-lock: one writer at a time assigns offsets, encodes and appends.

The lock is held for one synchronous block, never across an await. It is needed if threads share an
embedded store. A hold above half a second is logged. A writer that finds the lock held for longer
than the limit gets StoreBusy.
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
    """A context manager for the put block; entering may raise StoreBusy.

    tell_long   called with the duration in ms of a hold longer than `long_seconds`
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
        """Acquires the lock; returns the `perf_counter` time of the request.

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
        """Releases the lock; returns the `perf_counter` time of the release."""
        assert self._since > 0, "the lock is not held"
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
