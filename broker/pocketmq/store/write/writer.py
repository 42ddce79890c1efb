"""Stores a put in one synchronous block under the put-lock.

It assigns queue offsets, encodes, appends, and remembers for dispatch, never across an await: what
a caller does afterwards (give up, be cancelled) cannot split it.
Source: CommitLog.asyncPutMessages, QueueOffsetOperator, DefaultAppendMessageCallback.
"""

from collections.abc import Sequence
from itertools import accumulate
from time import perf_counter

from pocketmq.format.record import encode_records, record_sizes
from pocketmq.format.record_scan import tags_codes_of
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.batch import PutResult, PutStatus, Run, Written
from pocketmq.model.due_time import LEAD_MAX_MS
from pocketmq.model.message import QueueKey, has_queue_offset
from pocketmq.model.stats import Histogram
from pocketmq.model.step import Clock
from pocketmq.model.store_shape import DelayLevels
from pocketmq.native.machine import i64
from pocketmq.store.dispatch.dispatcher import Dispatcher
from pocketmq.store.marks import Marks
from pocketmq.store.write.put_lock import PutLock


class Writer:
    """Appends runs to the log; owns the queue-offset table."""

    __slots__ = (
        "_clock", "_levels", "_marks", "append_seconds", "dispatcher", "lock", "log",
        "next_offsets",
    )  # fmt: skip

    def __init__(
        self,
        log: CommitLog,
        dispatcher: Dispatcher,
        marks: Marks,
        clock: Clock,
        levels: DelayLevels,
        lock: PutLock,
    ) -> None:
        self.log = log
        self.dispatcher = dispatcher
        self._marks = marks
        self._clock = clock
        self._levels = levels
        self.lock = lock
        self.next_offsets: dict[QueueKey, int] = {}
        """The queue offset the next message of each queue gets; 0 where absent."""
        self.append_seconds = Histogram(
            "pocketmq_append_seconds", "Duration of one append.", labels={"result": "ok"}
        )

    def sizes(self, runs: Sequence[Run]) -> list[list[int]]:
        """Returns the bytes each message of each run will take in the log."""
        crc = self.log.property_crc
        return [record_sizes(target, batch, property_crc=crc) for target, batch in runs]

    def store_time(self, now_ms: i64) -> i64:
        """Returns the store time of a record that is appended now.

        It never goes back while the clock is a little behind, as after a correction. A clock that
        was far ahead and was set right is followed, as RocketMQ does.
        Source   CommitLog.asyncPutMessage
        """
        last_ms: i64 = self._marks.appended.time_ms
        if last_ms > now_ms and last_ms - now_ms <= LEAD_MAX_MS:
            return last_ms
        return now_ms

    def append(self, runs: Sequence[Run], sizes: Sequence[list[int]]) -> list[PutResult]:
        """Stores runs next to each other by one write; the log has room for them.

        Shape    sizes as `sizes` gave them
        Errors   StoreBusy: nothing was stored
        """
        assert len(runs) == len(sizes)
        log, marks = self.log, self._marks
        begun = perf_counter()
        with self.lock:
            time_ms = self.store_time(self._clock.wall_ms())
            begin = place = log.place(sum(map(sum, sizes)))
            taken: dict[QueueKey, int] = {}
            contents, written, results = [], [], []
            for (destination, batch), run_sizes in zip(runs, sizes, strict=True):
                queue_offset = 0
                if has_queue_offset(destination.system_flag):
                    key = destination.queue
                    queue_offset = taken[key] if key in taken else self.next_offsets.get(key, 0)
                    taken[key] = queue_offset + len(run_sizes)
                contents.append(
                    encode_records(
                        destination, batch, run_sizes, queue_offset=queue_offset,
                        physical_offset=place, store_timestamp_ms=time_ms,
                        property_crc=log.property_crc,
                    )
                )  # fmt: skip
                *places, place = accumulate(run_sizes, initial=place)
                written.append(
                    Written(
                        destination,
                        queue_offset,
                        physical_offsets=places,
                        sizes=run_sizes,
                        tags_codes=tags_codes_of(destination, batch, time_ms, self._levels),
                        store_time_ms=time_ms,
                        unique_keys=batch.unique_keys,
                        keys=batch.keys,
                        tags=batch.tags,
                    )
                )
                results.append(PutResult(PutStatus.OK, places, queue_offset, time_ms, place))
            content = contents[0] if len(contents) == 1 else b"".join(contents)
            assert begin + len(content) == place
            log.write(begin, content)
            marks.append(log.appended, time_ms)
            self.next_offsets.update(taken)
            self.dispatcher.remember(written)
        self.append_seconds.observe(perf_counter() - begun)
        return results
