"""The put-lock: one writer at a time assigns offsets, encodes and appends.

Held for that one synchronous block and never across an await, it lets the store be embedded from
threads. How long writers wait for it and hold it are histograms; a hold of half a second is a
warning, and a writer that finds it held for longer than the limit is refused as busy.
Source: PutMessageLock, DefaultMessageStore.isOSPageCacheBusy.
"""

import logging
import threading
from time import perf_counter
from typing import Final

from broker.model.errors import StoreBusy
from broker.model.stats import Histogram

HOLD_WARNING_SECONDS: Final = 0.5

logger = logging.getLogger(__name__)


class PutLock:
    """A context manager around the block; entering may raise StoreBusy."""

    __slots__ = ("_busy_seconds", "_lock", "_since", "hold_seconds", "wait_seconds")

    def __init__(self, busy_timeout_ms: int) -> None:
        self._lock = threading.Lock()
        self._busy_seconds = busy_timeout_ms / 1000
        self._since = 0.0
        self.wait_seconds = Histogram(
            "pocketmq_put_lock_wait_seconds", "Time writers waited for the put-lock."
        )
        self.hold_seconds = Histogram(
            "pocketmq_put_lock_hold_seconds", "Time writers held the put-lock."
        )

    def __enter__(self) -> None:
        asked = perf_counter()
        if not self._lock.acquire(blocking=False):
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

    def __exit__(self, *_: object) -> None:
        assert self._since > 0, "it was not entered"
        held = perf_counter() - self._since
        self._since = 0.0
        self._lock.release()
        self.hold_seconds.observe(held)
        if held > HOLD_WARNING_SECONDS:
            logger.warning("put_lock.held", extra={"held_ms": int(held * 1000)})
