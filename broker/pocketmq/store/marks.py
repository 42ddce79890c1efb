"""The marks of the log: the offsets up to which it is appended, flushed and dispatched.

    ├──── every view has it ────┤··┤·····┤············┤
    0                  dispatched   │     committed    appended
                                    flushed = replicated

    appended     end of the last record, which may be in a buffer
    committed    lower records are in the files; equal to appended without a transient pool
    flushed      lower records survive a power cut
    replicated   followers have lower records; equal to flushed, as there are no followers
    dispatched   every view has every lower record

A mark is a physical offset, with the store time of the last record below it. Marks only grow. All
marks begin at the end of the log that recovery found.
"""

from typing import final

from pocketmq.model.errors import StoreFailed
from pocketmq.store.watermark import Watermark


@final
class End(Watermark):
    """A mark of the log that tasks can await: a physical offset `value`, a store time `time_ms`."""

    __slots__ = ("time_ms",)

    def __init__(self, value: int, time_ms: int) -> None:
        super().__init__(value)
        self.time_ms = time_ms

    def rise(self, value: int, time_ms: int) -> None:
        """Advances to an offset and its store time, and resumes the tasks that wait for it."""
        assert value >= self.value, (value, self.value)
        self.time_ms = time_ms
        self.advance(value)


@final
class Marks:
    """The marks of one store's log, used on the event loop.

    end            end of the log after recovery; the log is durable and dispatched up to it
    last_record    physical offset of the log's last record
    is_sync        whether consumers see only flushed records; if not, they see committed records
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
        self._visible = self.flushed if is_sync else self.committed
        self.failure: StoreFailed | None = None
        """First failure of the store; after it, nothing is acknowledged."""

    def visible(self) -> End:
        """Returns the mark that limits dispatch, and thereby consumers."""
        return self._visible

    def fail(self, failure: StoreFailed) -> None:
        """Fails all present and later waits for the disk with the store's error."""
        self.failure = self.failure or failure
        self.flushed.fail(self.failure)

    def append(self, end: int, time_ms: int) -> None:
        """Advances `appended`. The caller holds the put-lock."""
        self.appended.rise(end, time_ms)

    def commit(self, end: int, time_ms: int) -> None:
        """Advances `committed`: the records are in the files of the log."""
        assert end <= self.appended.value, (end, self.appended.value)
        self.committed.rise(end, time_ms)

    def flush(self, end: int, time_ms: int) -> None:
        """Advances `flushed` and `replicated` after a sync."""
        assert self.failure is None, "flush after a failure"
        assert end <= self.committed.value, (end, self.committed.value)
        self.flushed.rise(end, time_ms)
        self.replicated.rise(end, time_ms)
        assert self.replicated.value == self.flushed.value

    def dispatch(self, end: int, time_ms: int, last_record: int) -> None:
        """Advances `dispatched` to `end`; the last record below `end` starts at `last_record`."""
        assert self.last_dispatched <= last_record <= end, (self.last_dispatched, last_record, end)
        assert end <= self._visible.value, (end, self._visible.value)
        self.last_dispatched = last_record
        self.dispatched.rise(end, time_ms)
