"""The marks of the log: how far it is written, flushed and given to the views.

    ├──── every view has it ────┤··┤·····┤············┤
    0                  dispatched   │     committed    appended
                                    flushed = replicated

    appended     the last record ends here; it may be in a buffer
    committed    it is in the files: all of it without a transient pool
    flushed      it survives a power cut
    replicated   followers have it; equal to flushed while there are none
    dispatched   every view has every record below

Each is a physical offset, and the store time of the last record below it. Offsets only grow, and at
every advance their order is asserted: flushed <= committed <= appended, replicated <= flushed,
dispatched <= visible. All of them begin at the end of the log that a start found.
"""

from typing import final

from pocketmq.model.errors import StoreFailed
from pocketmq.store.watermark import Watermark


@final
class End(Watermark):
    """One end of the log: `value` is a physical offset, `time_ms` a store time. Can be awaited."""

    __slots__ = ("time_ms",)

    def __init__(self, value: int, time_ms: int) -> None:
        super().__init__(value)
        self.time_ms = time_ms

    def rise(self, value: int, time_ms: int) -> None:
        """Advances to an offset and its store time; waiters for it resume."""
        assert value >= self.value, (value, self.value)
        self.time_ms = time_ms
        self.advance(value)


@final
class Marks:
    """The ends of one store's log, on the event loop.

    end, time_ms   where the log ends after a start, and the store time of its last record: all of
                   it is durable and dispatched
    last_record    where that record starts
    is_sync        consumers see flushed records; else committed ones
    """

    __slots__ = (
        "_visible", "appended", "committed", "dispatched", "failure", "flushed", "last_dispatched",
        "replicated",
    )  # fmt: skip

    def __init__(self, end: int, time_ms: int, last_record: int, *, is_sync: bool) -> None:
        assert 0 <= last_record <= end, (last_record, end)
        self.appended = End(end, time_ms)
        self.committed = End(end, time_ms)
        self.flushed = End(end, time_ms)
        self.replicated = End(end, time_ms)
        self.dispatched = End(end, time_ms)
        self.last_dispatched = last_record
        """Begin of the last dispatched record, for the checkpoint of the views."""
        self._visible = self.flushed if is_sync else self.committed
        self.failure: StoreFailed | None = None
        """Why nothing is acknowledged any more: the first failure of any part of the store."""

    def visible(self) -> End:
        """Returns the end that dispatch, and so every consumer, may not look beyond."""
        return self._visible

    def fail(self, failure: StoreFailed) -> None:
        """Fails all waits for the disk, present and later, with the store's error."""
        self.failure = self.failure or failure
        self.flushed.fail(self.failure)

    def append(self, end: int, time_ms: int) -> None:
        """Records were written; called under the put-lock."""
        self.appended.rise(end, time_ms)

    def commit(self, end: int, time_ms: int) -> None:
        """Records are in the files of the log."""
        assert end <= self.appended.value, (end, self.appended.value)
        self.committed.rise(end, time_ms)

    def flush(self, end: int, time_ms: int) -> None:
        """Records are durable: the disk reported it."""
        assert self.failure is None, "a flush after a failure proves nothing"
        assert end <= self.committed.value, (end, self.committed.value)
        self.flushed.rise(end, time_ms)
        self.replicated.rise(end, time_ms)
        assert self.replicated.value == self.flushed.value

    def dispatch(self, end: int, time_ms: int, last_record: int) -> None:
        """Every view has every record below, the last of which starts at `last_record`."""
        assert self.last_dispatched <= last_record <= end, (self.last_dispatched, last_record, end)
        assert end <= self._visible.value, (end, self._visible.value)
        self.last_dispatched = last_record
        self.dispatched.rise(end, time_ms)
