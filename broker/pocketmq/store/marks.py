"""The marks of the log: the offsets up to which it is appended, flushed and dispatched.

    ├──── every view has it ────┤··┤·····┤············┤
    0                  dispatched  visible committed    appended

    appended     end of the last record, which may be in a buffer
    committed    records below it are in the files; equal to appended without a transient pool
    flushed      records below it survive a power cut
    replicated   enough followers have records below it; on a follower: its leader's confirmed end
    visible      consumers may see records below it: flushed or committed; if bounded, replicated
    dispatched   every view has every record below it

A mark is a physical offset, with the store time of the last record below it. Marks only grow. A
start sets them to the end that recovery found. In a bounded store, replicated and visible begin at
the confirmed end, so that dispatched may be above visible. Otherwise replicated equals flushed.
"""

from typing import final

from pocketmq.model.errors import StoreFailed
from pocketmq.model.message import OFFSET_MAX
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
    is_bounded     whether consumers see only replicated records
    confirmed      physical offset below which consumers could see all records before the start
    is_confirmed   whether a leader had confirmed these records; if not, the broker led without
                   this bound
    """

    __slots__ = (
        "_confirmed_at_end", "_here", "_shown_before", "_visible", "appended", "committed",
        "dispatched", "failure", "flushed", "is_ending", "last_dispatched", "replicated",
    )  # fmt: skip

    def __init__(
        self, end: int, time_ms: int, last_record: int, *, is_sync: bool, is_bounded: bool = False,
        confirmed: int = OFFSET_MAX, is_confirmed: bool = False,
    ) -> None:  # fmt: skip
        assert 0 <= last_record <= end, (last_record, end)
        self.appended = End(end, time_ms)
        self.committed = End(end, time_ms)
        self.flushed = End(end, time_ms)
        shown = min(end, confirmed) if is_bounded else end
        self.replicated = End(shown, time_ms)
        self.dispatched = End(end, time_ms)
        self.last_dispatched = last_record
        self._here = self.flushed if is_sync else self.committed
        self._visible = End(shown, time_ms) if is_bounded else self._here
        self._confirmed_at_end = shown
        self._shown_before = -1 if is_confirmed else shown
        self.failure: StoreFailed | None = None
        """First failure of the store; after it, nothing is acknowledged."""
        self.is_ending = False
        """Whether the store stops: it no longer waits for followers, and acknowledges nothing."""

    def visible(self) -> End:
        """Returns the mark that limits dispatch, and thereby consumers."""
        return self._visible

    @property
    def is_bounded(self) -> bool:
        """Whether consumers see only replicated records."""
        return self._visible is not self._here

    @property
    def confirmed(self) -> int:
        """Physical offset below which consumers see every record; OFFSET_MAX without a bound."""
        if not self.is_bounded:
            return OFFSET_MAX
        return self._confirmed_at_end if self.is_ending else self._visible.value

    @property
    def is_confirmed(self) -> bool:
        """Whether a leader has confirmed the records below `confirmed`; False without a bound."""
        return self.is_bounded and self.confirmed > self._shown_before

    def fail(self, failure: StoreFailed) -> None:
        """Fails all present and later waits for the disk with the store's error.

        Waits for `dispatched` end with False.
        """
        self.failure = self.failure or failure
        self.flushed.fail(self.failure)
        self.dispatched.close()
        if self.is_bounded:
            self._visible.fail(self.failure)

    def append(self, end: int, time_ms: int) -> None:
        """Advances `appended`. The caller holds the put-lock."""
        self.appended.rise(end, time_ms)

    def commit(self, end: int, time_ms: int) -> None:
        """Advances `committed`: the records are in the files of the log."""
        assert end <= self.appended.value, (end, self.appended.value)
        self.committed.rise(end, time_ms)
        if self._visible is not self._here:
            self._show()

    def flush(self, end: int, time_ms: int) -> None:
        """Advances `flushed` after a sync."""
        assert self.failure is None, "flush after a failure"
        assert end <= self.committed.value, (end, self.committed.value)
        self.flushed.rise(end, time_ms)
        if self._visible is not self._here:
            self._show()
        else:
            self.replicated.rise(end, time_ms)

    def replicate(self, end: int, time_ms: int) -> None:
        """Advances `replicated`; an offset below the mark has no effect.

        Shape    the end of a record, or an offset above the end of this log
        """
        assert self.is_bounded, "nothing limits what consumers see"
        if end > self.replicated.value:
            self.replicated.rise(end, time_ms)
            self._show()

    def end(self) -> None:
        """Ends waits for followers at a stop, and makes the whole log visible to dispatch.

        Effects  `confirmed` does not change
        """
        assert self.is_bounded, "nothing limits what consumers see"
        self._confirmed_at_end = self._visible.value
        self.is_ending = True
        self._visible.release()
        self.replicate(self.appended.value, self.appended.time_ms)

    def _show(self) -> None:
        lower = min(self._here, self.replicated, key=lambda mark: mark.value)
        if lower.value > self._visible.value:
            self._visible.rise(lower.value, lower.time_ms)

    def dispatch(self, end: int, time_ms: int, last_record: int) -> None:
        """Advances `dispatched` to `end`; the last record below `end` starts at `last_record`."""
        assert self.last_dispatched <= last_record <= end, (self.last_dispatched, last_record, end)
        assert end <= self._visible.value, (end, self._visible.value)
        self.last_dispatched = last_record
        self.dispatched.rise(end, time_ms)
