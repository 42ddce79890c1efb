"""Stores the records of a plain request without a coroutine.

    takes? ─► lock ─► offset · encode · append · mark · remember ─► unlock ─► committed

The block equals that of `Writer.append`, which all other puts use: the same lock, the same table of
queue offsets and the same marks.
"""

from typing import final

from pocketmq.format.record_encoder import RecordEncoder
from pocketmq.format.system_records import SystemRecords
from pocketmq.model.batch import NO_TEXTS, Written
from pocketmq.store.marks import Marks
from pocketmq.store.write.allocation import Allocation
from pocketmq.store.write.write_admission import WriteAdmission
from pocketmq.store.write.writer import Writer


@final
class PutPath:
    """Stores plain requests at once, where nothing has to be waited for."""

    __slots__ = ("_allocation", "_gate", "_log", "_marks", "_remembered", "_writer")

    def __init__(
        self, writer: Writer, marks: Marks, gate: WriteAdmission, allocation: Allocation
    ) -> None:
        self._writer = writer
        self._log = writer.log
        self._remembered = writer.dispatcher.remembered
        self._marks = marks
        self._gate = gate
        self._allocation = allocation

    def takes(self, size_bytes: int) -> bool:
        """Returns whether `put` would store so many bytes of records now.

        False    `Writing.put` waits, or raises the error
        """
        log = self._log
        if size_bytes > log.record_size_max or log.property_crc or not self._gate.is_open:
            return False
        return log.has_room(size_bytes)

    def put(self, records: RecordEncoder, queue_id: int, now_ms: int) -> None:
        """Stores the messages of one plain request next to each other; `takes` says yes.

        Shape    records that fit, and whose messages have ids
        Errors   StoreBusy: nothing was stored
        """
        writer, log, marks = self._writer, self._log, self._marks
        frame = records.frame
        assert frame is not None
        assert not log.property_crc
        key = frame.queues[queue_id]
        asked = writer.lock.enter()
        try:
            time_ms = writer.store_time(now_ms)
            place = log.place(records.size_sum)
            queue_offset = writer.next_offsets.get(key, 0)
            log.write(place, records.encode(queue_id, queue_offset, place, time_ms))
            end = log.appended
            assert end == place + records.size_sum
            marks.append(end, time_ms)
            writer.next_offsets[key] = queue_offset + len(records.sizes)
            written = Written(
                frame.destinations[queue_id],
                queue_offset,
                physical_offsets=records.places,
                sizes=records.sizes,
                tags_codes=records.codes,
                store_time_ms=time_ms,
                unique_keys=NO_TEXTS,
                keys=NO_TEXTS,
                tags=NO_TEXTS,
                units=records.units,
                entries=records.entries,
            )
            self._remembered.add([written])
        finally:
            left = writer.lock.leave()
        self._appended(left - asked, end, time_ms)

    def put_own(self, records: SystemRecords, now_ms: int) -> None:
        """Stores records of the broker's own next to each other, by one write; `takes` says yes.

        Effects  `records.written` gets the positions of all of them
        Errors   StoreBusy: nothing was stored
        """
        writer, log, marks = self._writer, self._log, self._marks
        assert not log.property_crc
        asked = writer.lock.enter()
        try:
            time_ms = writer.store_time(now_ms)
            place = log.place(records.size_sum)
            log.write(place, records.encode(writer.next_offsets, place, now_ms, time_ms))
            end = log.appended
            assert end == place + records.size_sum
            marks.append(end, time_ms)
            writer.next_offsets.update(records.taken)
            self._remembered.add(records.written)
        finally:
            left = writer.lock.leave()
        self._appended(left - asked, end, time_ms)

    def _appended(self, seconds: float, end: int, time_ms: int) -> None:
        """Commits what the files have after an append, and requests the next file."""
        log = self._log
        self._writer.append_seconds.observe(seconds)
        if log.pool is None:
            self._marks.commit(end, time_ms)
        if log.spare_base is not None:
            self._allocation.request()
