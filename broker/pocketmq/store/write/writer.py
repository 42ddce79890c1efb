"""Stores a put in one synchronous block under the put-lock.

    room? ─► lock ─► store time · queue offsets · encode · append · mark · buffer ─► unlock

The block contains no await, so that a cancelled caller cannot split it. All puts use it, whatever
the kind of their records.
Source: CommitLog.asyncPutMessages, QueueOffsetOperator, DefaultAppendMessageCallback.
"""

from collections.abc import Callable, Sequence
from typing import final

from pocketmq.format.put_records import PutRecords
from pocketmq.format.run_records import RunRecords
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.batch import Run
from pocketmq.model.due_time import LEAD_MAX_MS
from pocketmq.model.message import QueueKey
from pocketmq.model.stats import Histogram
from pocketmq.model.store_shape import DelayLevels
from pocketmq.native.machine import i64
from pocketmq.store.dispatch.dispatch_buffer import DispatchBuffer
from pocketmq.store.marks import Marks
from pocketmq.store.write.put_lock import PutLock
from pocketmq.store.write.write_admission import WriteAdmission


@final
class Writer:
    """Appends records to the log; owns the queue-offset table.

    remembered     buffer of stored records for the dispatcher
    """

    __slots__ = (
        "_admission", "_levels", "_log", "_marks", "_remembered", "_request_file",
        "append_seconds", "lock", "next_offsets",
    )  # fmt: skip

    def __init__(
        self,
        log: CommitLog,
        remembered: DispatchBuffer,
        marks: Marks,
        levels: DelayLevels,
        lock: PutLock,
        admission: WriteAdmission,
        request_file: Callable[[], None],
    ) -> None:
        self._log = log
        self._remembered = remembered
        self._marks = marks
        self._levels = levels
        self.lock = lock
        self._admission = admission
        self._request_file = request_file
        self.next_offsets: dict[QueueKey, int] = {}
        """Queue offset of each queue's next message; 0 for a queue without entry."""
        self.append_seconds = Histogram(
            "pocketmq_append_seconds", "Duration of one append.", labels={"result": "ok"}
        )

    def takes_plain(self, size_bytes: int) -> bool:
        """Returns whether `append` would now store `size_bytes` of records without a property CRC.

        If not, the caller uses `Writing.put`, which waits, adds the CRC, or raises the error.
        """
        log = self._log
        if size_bytes > log.record_size_max or log.property_crc or not self._admission.is_open:
            return False
        return log.has_room(size_bytes)

    def records_of(self, runs: Sequence[Run]) -> RunRecords:
        """Returns the records of runs, with a property CRC if this log's records have one."""
        return RunRecords(runs, self._levels, property_crc=self._log.property_crc)

    def append(self, records: PutRecords, now_ms: i64) -> None:
        """Stores records contiguously by one write; the log must have room for them.

        Effects  sets `records.written`; without a pool, advances the committed mark
        Errors   StoreBusy: nothing was stored
        """
        log, marks = self._log, self._marks
        assert records.property_crc == log.property_crc, (
            "records and log differ in the property CRC"
        )
        asked = self.lock.enter()
        try:
            time_ms = self.store_time(now_ms)
            place = log.place(records.size_sum)
            log.write(place, records.encode(self.next_offsets, place, now_ms, time_ms))
            end = log.appended
            assert end == place + records.size_sum
            marks.append(end, time_ms)
            records.advance(self.next_offsets)
            self._remembered.add(records.written)
        finally:
            left = self.lock.leave()
        self.append_seconds.observe(left - asked)
        if log.pool is None:
            marks.commit(end, time_ms)
        if log.spare_base is not None:
            self._request_file()

    def store_time(self, now_ms: i64) -> i64:
        """Returns the store time of a record that is appended now.

        Store times do not go back if the clock is set back by at most LEAD_MAX_MS. They follow a
        clock that is set back farther, as in RocketMQ.
        Source   CommitLog.asyncPutMessage
        """
        last_ms: i64 = self._marks.appended.time_ms
        if last_ms > now_ms and last_ms - now_ms <= LEAD_MAX_MS:
            return last_ms
        return now_ms
