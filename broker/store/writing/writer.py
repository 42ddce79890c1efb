"""The one synchronous block of a put: assign offsets, encode, append, remember for dispatch.

Under the put-lock and never across an await: what a caller does afterwards (give up, be cancelled)
cannot split it. Queue offsets are dense; a put that fails before the block takes none.
Source: CommitLog.asyncPutMessages, QueueOffsetOperator, DefaultAppendMessageCallback.
"""

from itertools import accumulate
from time import perf_counter

from broker.format.java_hash import tags_code
from broker.format.record import (
    PROPERTY_CRC_SIZE,
    encode_records,
    encode_records_with_crc,
    record_sizes,
)
from broker.format.record_scan import tags_code_of
from broker.log.commit_log import CommitLog
from broker.model.clock import Clock
from broker.model.delay_levels import DelayLevels
from broker.model.message import FLAG_TRANSACTION_MASK, PutAddress, PutRow, has_queue_offset
from broker.model.offsets import QueueKey
from broker.model.results import PutResult, PutStatus
from broker.model.stats import Histogram
from broker.model.system_topics import SCHEDULE_TOPIC
from broker.store.marks import Marks
from broker.store.views.dispatcher import Dispatcher
from broker.store.writing.put_lock import PutLock


class Writer:
    """Appends rows to the log; owns the queue-offset table."""

    __slots__ = (
        "_clock", "_dispatcher", "_encode", "_levels", "_log", "_marks", "append_seconds",
        "crc_size", "lock", "next_offsets",
    )  # fmt: skip

    def __init__(
        self,
        log: CommitLog,
        dispatcher: Dispatcher,
        marks: Marks,
        clock: Clock,
        *,
        levels: DelayLevels,
        property_crc: bool,
        busy_timeout_ms: int,
    ) -> None:
        self._log = log
        self._dispatcher = dispatcher
        self._marks = marks
        self._clock = clock
        self._levels = levels
        self._encode = encode_records_with_crc if property_crc else encode_records
        self.crc_size = PROPERTY_CRC_SIZE if property_crc else 0
        self.lock = PutLock(busy_timeout_ms)
        self.next_offsets: dict[QueueKey, int] = {}
        """The queue offset the next message of each queue gets; 0 where absent."""
        self.append_seconds = Histogram(
            "pocketmq_append_seconds", "Time one append took.", labels={"result": "ok"}
        )

    def sizes(self, address: PutAddress, rows: list[PutRow]) -> list[int]:
        """Return the bytes each row will take in the log."""
        return record_sizes(address, rows, crc_size=self.crc_size)

    def append(self, address: PutAddress, rows: list[PutRow], sizes: list[int]) -> PutResult:
        """Store rows next to each other; the log has room for them.

        Errors   StoreBusy: nothing was stored
        """
        key = (address.topic, address.queue_id)
        takes_offset = has_queue_offset(address.system_flag)
        log, marks = self._log, self._marks
        begun = perf_counter()
        with self.lock:
            time_ms = max(self._clock.wall_ms(), marks.appended.time_ms)
            queue_offset = self.next_offsets.get(key, 0) if takes_offset else 0
            physical_offset = log.place(sum(sizes))
            content = self._encode(
                address,
                rows,
                sizes,
                queue_offset=queue_offset,
                physical_offset=physical_offset,
                store_timestamp_ms=time_ms,
            )
            log.write(physical_offset, content)
            marks.append(log.appended, time_ms)
            if takes_offset:
                self.next_offsets[key] = queue_offset + len(rows)
            places = self._remember(address, rows, sizes, queue_offset, physical_offset, time_ms)
        self.append_seconds.observe(perf_counter() - begun)
        return PutResult(PutStatus.OK, places, queue_offset, time_ms, log.appended)

    def _remember(
        self,
        address: PutAddress,
        rows: list[PutRow],
        sizes: list[int],
        queue_offset: int,
        physical_offset: int,
        time_ms: int,
    ) -> list[int]:
        """Hand the dispatcher what it needs of fresh records; returns where each lies."""
        topic, queue_id = address.topic, address.queue_id
        kind = address.system_flag & FLAG_TRANSACTION_MASK
        count = len(rows)
        takes_offset = has_queue_offset(address.system_flag)
        queue_offsets = range(queue_offset, queue_offset + count) if takes_offset else [0] * count
        places = list(accumulate(sizes[:-1], initial=physical_offset))
        if topic == SCHEDULE_TOPIC:
            codes = [tags_code_of(topic, row[7], row[1], time_ms, self._levels) for row in rows]
        else:
            codes = [tags_code(row[7]) for row in rows]
        self._dispatcher.remember(
            [
                (place, size, code, time_ms, topic, queue_id, number, row[5], row[6], row[7], kind)
                for place, size, code, number, row in zip(
                    places, sizes, codes, queue_offsets, rows, strict=True
                )
            ]
        )
        return places
