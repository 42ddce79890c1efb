"""Pulls messages of one queue: first the status, then the records that its units refer to.

condition                         status                  next begin
outside of the queue              (store/read/read_plan.py)
scanned, no match                 NO_MATCHED_MESSAGE      after the last unit scanned
record expired before the read    EXPIRED                 min offset of the queue
record found                      FOUND                   after the last unit scanned

Recent records are read through the memory map. Other records in memory are read by a non-blocking
read, and records on disk in a thread: a page fault would block the event loop. A pull ends before a
wrong or damaged record. If the first record is wrong or damaged, the log is searched for the right
one (store/read/unit_repair.py).
Source: DefaultMessageStore.getMessage.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from pocketmq.files.mapped_file import ColdRead, MappedFile, hold_all, let_go
from pocketmq.format.consume_unit import UNIT_SIZE
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.errors import MessageDamaged, ReadFailed
from pocketmq.model.reading import PullResult, PullStatus, ReadRange
from pocketmq.store.read.cold_read import ColdReads, Later, NowOrLater
from pocketmq.store.read.known_pull import SPAN_MAX, KnownPull
from pocketmq.store.read.read_plan import (
    BYTES_MAX,
    Accept,
    QueuedRecords,
    apart,
    choose,
    first_place,
    is_gone,
    join,
    plain_accept,
    runs_of,
    status_at,
)
from pocketmq.store.read.record_check import (
    GAP_MAX,
    Asked,
    Beside,
    CheckedRecords,
    UnservedRecord,
    asked_of,
    beside,
    is_row_known,
    read_runs,
    remember_sound,
    shown_at,
    sound_count,
    was_sound,
)

SCAN_COUNT_MIN: Final = 800
"""Minimum number of units that a filtered pull scans (maxFilterMessageSize, 16000 bytes)."""
RESIDENT_GAP_MAX: Final = 32 * 1024
"""Upper limit of bytes between two records in memory that are read by one call: a read of its own
costs as much as copying this many bytes."""
RESIDENT_RUNS_MAX: Final = 64
"""Upper limit of reads on the event loop for one pull; a thread does a pull with more reads."""
NO_FILE: Final = "no file holds it"

Repair = Callable[[CommitLog, ConsumeQueue, UnservedRecord], Awaitable[bytes | UnservedRecord]]
"""Finds the record of a damaged unit in the log, or returns the damage."""


class Pulling:
    """Pulls from the queues of one log.

    known   pulls whose records are known to be valid
    """

    __slots__ = ("_log", "_patience", "_repair", "known")

    def __init__(self, log: CommitLog, patience: ColdReads, repair: Repair) -> None:
        self._log = log
        self._patience = patience
        self._repair = repair
        self.known = KnownPull(log)

    def pull(
        self, queue: ConsumeQueue | None, wanted: ReadRange, accept: Accept | None, *, joined: bool
    ) -> NowOrLater[PullResult]:
        """Returns records from a queue offset on: at least one, however large it is.

        joined   whether an element of the result may be several joined records: all records if they
                 are known to be valid, else those adjacent in the log. Each element of an awaited
                 result is one record
        Errors   those of `cold`, raised by the awaitable
        Cost     1 µs a record, and the CRC of its body when it is first read
        """
        try:
            return self.resident(queue, wanted, accept, joined=joined)
        except (ColdRead, ReadFailed):
            return Later(partial(self.cold, queue, wanted, accept))

    def resident(
        self,
        queue: ConsumeQueue | None,
        wanted: ReadRange,
        accept: Accept | None = None,
        *,
        joined: bool = False,
    ) -> PullResult:
        """Pulls records that are in memory; see `pull`.

        Errors   ColdRead: a page is not in memory, or the first record is damaged; ReadFailed
        """
        if joined:
            assert accept is None, "a filtered pull cannot join records"
        log, begin = self._log, wanted.queue_offset
        status = status_at(queue, begin)
        if status.status is not PullStatus.FOUND or queue is None:
            return status
        if joined and self.known.find(queue, wanted):
            found = self.known.copy(b"")
            if found:
                return self.known.result(found)
        count = min(scan_count_of(wanted.max_messages, accept), status.max_offset - begin)
        units = queue.units.read_resident(begin, count)
        is_fresh = log.hot_begin <= 0 or first_place(units) >= log.hot_begin
        asked = asked_of(log, queue)
        rows, following = self._chosen(queue, units, wanted, accept, is_limited=not is_fresh)
        # The memory map needs no system call for each piece.
        gap_max, span_max = (
            (log.file_size_bytes, log.file_size_bytes) if is_fresh else (RESIDENT_GAP_MAX, SPAN_MAX)
        )
        runs = runs_of(rows, log.file_size_bytes, gap_max, span_max)
        if not is_fresh and len(runs) > RESIDENT_RUNS_MAX:
            raise ColdRead(_nothing)
        records: list[bytes] = []
        count, damage = 0, None
        for run in runs:
            pieces, piece_count, damage = self._of_run(run, asked, is_fresh=is_fresh, joined=joined)
            records += pieces
            count += piece_count
            if damage is not None:
                break
        answer = answer_of(status, following, CheckedRecords(records, count, damage))
        answer = answer or self._gone_since(queue, status)
        if answer is None:
            raise ColdRead(_nothing)
        return answer

    def _chosen(
        self, queue: ConsumeQueue, units: bytes, wanted: ReadRange, accept: Accept | None, *,
        is_limited: bool,
    ) -> tuple[QueuedRecords, int]:  # fmt: skip
        if is_limited:
            wanted = wanted._replace(max_bytes=min(wanted.max_bytes, BYTES_MAX))
        return choose(units, wanted, None if accept is None else plain_accept(queue, accept))

    def _of_run(
        self, run: QueuedRecords, asked: Asked, *, is_fresh: bool, joined: bool
    ) -> CheckedRecords:
        rows = run.rows
        (begin, _, first), (last, last_size, last_number) = rows[0], rows[-1]
        file = self._file_at(begin)
        if file is None:
            return CheckedRecords([], 0, UnservedRecord(first, begin, NO_FILE))
        buffer: memoryview | bytes = file.view
        origin = file.base
        if not is_fresh:
            size = last + last_size - begin
            is_possible = 0 <= size <= SPAN_MAX
            if not is_possible or not self._log.tells_resident:
                raise ColdRead(_nothing)
            buffer, origin = file.read_resident(begin - origin, size), begin
        is_known = was_sound(file, begin, asked, first, last_number + 1)
        if is_known and joined and is_row_known(buffer, origin, run, asked):
            return CheckedRecords(join(buffer, origin, run), len(rows))
        count = sound_count(buffer, origin, run, asked, is_known=is_known)
        damage = None
        if count < len(rows):
            place, _, number = rows[count]
            damage = UnservedRecord(number, place, "it is not what was stored")
            run = run._replace(rows=rows[:count])
        elif not is_known and last_number - first + 1 == count:
            remember_sound(file, asked, first, last_number + 1)
        pieces = join(buffer, origin, run) if joined else apart(buffer, origin, run.rows)
        return CheckedRecords(pieces, count, damage)

    def _file_at(self, physical_offset: int) -> MappedFile | None:
        return self._log.files.file_at(physical_offset) if physical_offset >= 0 else None

    async def cold(
        self, queue: ConsumeQueue | None, wanted: ReadRange, accept: Accept | None = None
    ) -> PullResult:
        """Pulls at most BYTES_MAX of records in a thread, but at least one record; see `pull`.

        Errors   MessageDamaged: the first record is damaged; other StorageErrors; DiskSlow
        """
        begin = wanted.queue_offset
        status = status_at(queue, begin)
        if status.status is not PullStatus.FOUND or queue is None:
            return status
        scan_count = min(scan_count_of(wanted.max_messages, accept), status.max_offset - begin)
        first = max(begin - 1, queue.files.min_offset // UNIT_SIZE)
        count = begin - first + scan_count
        around = await self._patience.again(partial(queue.units.read_resident, first, count + 1))
        units = around[(begin - first) * UNIT_SIZE : count * UNIT_SIZE]
        rows, following = self._chosen(queue, units, wanted, accept, is_limited=True)
        found = await self._read(asked_of(self._log, queue), rows, beside(first, around))
        answer = answer_of(status, following, found) or self._gone_since(queue, status)
        if answer is not None or found.damage is None:
            return answer or status._replace(status=PullStatus.NO_MATCHED_MESSAGE)
        repaired = await self._repair(self._log, queue, found.damage)
        if isinstance(repaired, bytes):
            records = [shown_at(repaired, begin)]
            return status._replace(next_begin_offset=begin + 1, records=records, record_count=1)
        answer = self._gone_since(queue, status)
        if answer is None:
            raise damage_error(self._log, repaired)
        return answer

    async def _read(self, asked: Asked, rows: QueuedRecords, around: Beside) -> CheckedRecords:
        runs: list[tuple[MappedFile, QueuedRecords]] = []
        nowhere: UnservedRecord | None = None
        for run in runs_of(rows, self._log.file_size_bytes, GAP_MAX, self._log.file_size_bytes):
            place, _, number = run.rows[0]
            file = self._file_at(place)
            if file is None:
                nowhere = UnservedRecord(number, place, NO_FILE)
                break
            file.doubt()  # Pages read now come from the disk: their records must be checked again.
            runs.append((file, run))
        held = hold_all(file for file, _ in runs)
        assert len(held) == len(runs)
        # The thread goes on if the caller is cancelled, and releases the files when it is done.
        job = partial(read_runs, runs, asked, around)
        found = await self._patience.apart(job, lambda: let_go(held))
        return found._replace(damage=found.damage or nowhere)

    def _gone_since(self, queue: ConsumeQueue, status: PullResult) -> PullResult | None:
        if not queue.files.files:
            return status_at(None, status.next_begin_offset)
        if not is_gone(queue, status.next_begin_offset, self._log.min_offset):
            return None
        queue.correct_min(self._log.min_offset)
        lower = queue.min_offset
        return status._replace(status=PullStatus.EXPIRED, next_begin_offset=lower, min_offset=lower)


def scan_count_of(max_messages: int, accept: Accept | None) -> int:
    """Returns the number of units that a pull scans if the queue has them."""
    return max_messages if accept is None else max(max_messages, SCAN_COUNT_MIN)


def _nothing() -> None:
    """Fetches nothing: `pull` repeats the whole read in a thread."""


def answer_of(status: PullResult, following: int, found: CheckedRecords) -> PullResult | None:
    """Returns the result with the found records; None if the first record is damaged."""
    if found.damage is not None:
        following = found.damage.queue_offset
    assert status.next_begin_offset <= following
    assert len(found.records) <= found.record_count
    if following == status.next_begin_offset:
        return None
    _, _, lower, upper, _, _ = status
    kind = PullStatus.FOUND if found.records else PullStatus.NO_MATCHED_MESSAGE
    return PullResult(kind, following, lower, upper, found.records, found.record_count)


def damage_error(log: CommitLog, damage: UnservedRecord) -> MessageDamaged:
    """Returns the error for a damaged record of a queue."""
    path, position = log.place_of(damage.physical_offset)
    return MessageDamaged(
        path=path,
        file_position=position,
        physical_offset=damage.physical_offset,
        why=damage.why,
        queue_offset=damage.queue_offset,
        next_begin_offset=damage.queue_offset + 1,
    )
