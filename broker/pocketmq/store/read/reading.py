"""Reads of a store: pulls, and lookups by key, by id and by time.

Records in memory are returned at once. A read that waits for the disk or a repair returns an
awaitable (store/read/cold_read.py). Searches by key are always coroutines.
Source: DefaultMessageStore (getMessage, queryMessage, lookMessageByOffset, getOffsetInQueueByTime).
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Final

from pocketmq.files.mapped_file import ColdRead
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from pocketmq.format.record import RECORD_SIZE_MIN
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue import NOWHERE, ConsumeQueue
from pocketmq.model.administration import QueueState
from pocketmq.model.errors import OffsetOutOfRange
from pocketmq.model.message import QueueKey, StoredMessage
from pocketmq.model.reading import Bound, KeyRange, PullResult, QueryResult, ReadRange
from pocketmq.model.topic import is_system_topic
from pocketmq.store.marks import Marks
from pocketmq.store.read.cold_read import TRIES_MAX, ColdReads, NowOrLater, value_of
from pocketmq.store.read.key_search import KeySearch
from pocketmq.store.read.known_pull import KnownPull
from pocketmq.store.read.lookups import (
    queue_offset_by_time,
    records_with,
    shown_message,
    store_time_at,
)
from pocketmq.store.read.pulling import Pulling
from pocketmq.store.read.read_plan import Accept
from pocketmq.store.read.record_check import asked_of, is_sound
from pocketmq.store.read.unit_repair import UnitRepair
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.watermark import Arrivals, Watermark

# -- reads by physical offset ------------------------------------------------------------------
GAP_MAX: Final = 4 * 1024
"""Upper limit of the bytes between two records that are read together."""
RUN_MAX: Final = 1024 * 1024
_NUMBER: Final = slice(20, 28)
_PHYSICAL_OFFSET: Final = slice(28, 36)

Place = tuple[int, int]
"""(physical offset, size) of a record."""


def placed_records(log: CommitLog, queue: ConsumeQueue, places: Sequence[Place]) -> list[bytes]:
    """Returns the records at ascending places.

    Shape    b"" for a record that is damaged or not of the queue
    Cost     1.5 µs a record, and the CRC of its body unless this process wrote it
    Errors   ColdRead: a record is not in memory; ReadFailed
    """
    assert all(before[0] <= after[0] for before, after in pairwise(places))
    records: list[bytes] = []
    for run in _runs(places, log.file_size_bytes):
        records += _read(log, queue, run)
    assert len(records) == len(places)
    return records


def _runs(places: Sequence[Place], file_size_bytes: int) -> list[list[Place]]:
    runs: list[list[Place]] = []
    begin = end = file_end = -1
    for place, size in places:
        is_near = place < file_end and place - end <= GAP_MAX and place - begin < RUN_MAX
        if is_near and runs:
            runs[-1].append((place, size))
        else:
            runs.append([(place, size)])
            begin, file_end = place, place - place % file_size_bytes + file_size_bytes
        end = max(place + size, end)
    return runs


def _read(log: CommitLog, queue: ConsumeQueue, run: list[Place]) -> list[bytes]:
    begin = run[0][0]
    file = log.files.file_at(begin) if begin >= 0 else None
    if file is None:
        return [b""] * len(run)
    content: bytes | memoryview = file.view
    origin = file.base
    if begin < log.hot_begin:
        last, size = run[-1]
        content, origin = file.read_resident(begin - origin, last + size - begin), begin
    asked, known_from = asked_of(log, queue), file.base + file.written_from
    records = []
    for place, size in run:
        position = place - origin
        record = bytes(content[position : position + size])
        number = int.from_bytes(record[_NUMBER])
        is_whole = len(record) == size >= RECORD_SIZE_MIN
        is_known = place >= known_from
        is_it = is_whole and is_sound(record, 0, place, size, asked, number, is_known=is_known)
        records.append(record if is_it else b"")
    return records


# -- reading -----------------------------------------------------------------------------------
COLD_THREADS: Final = 4
"""Upper limit of concurrent reads of the disk: more are not faster."""
UNIQUE_KEY_PAGE: Final = 16


class Reading:
    """The reads of an open store."""

    __slots__ = (
        "_arrivals", "_hidden", "_keys", "_log", "_marks", "_message_at", "_patience",
        "_pool", "_pulling", "_queues", "repair", "stats",
    )  # fmt: skip

    def __init__(
        self, parts: StoreComponents, arrivals: Arrivals, marks: Marks, *, is_writing: bool
    ) -> None:
        self._log = parts.log
        self._queues = parts.queues
        self._arrivals = arrivals
        self._hidden: dict[QueueKey, ConsumeQueue] = {}
        self._marks = marks
        self._pool = ThreadPoolExecutor(COLD_THREADS, thread_name_prefix="cold-read")
        self._patience = ColdReads(self._pool)
        foreign_queues = None if parts.made_here else parts.queues
        self._message_at = partial(shown_message, parts.log, foreign_queues)
        self._keys = KeySearch(
            parts.log, parts.index, self._message_at,
            is_purged=self.is_purged, is_ours=parts.made_here,
        )  # fmt: skip
        self.repair = UnitRepair(parts.disk, self._patience, parts.levels, is_writing=is_writing)
        self._pulling = Pulling(parts.log, self._patience, self.repair.record_of)
        self.stats = self._keys.stats

    def close(self) -> None:
        """Ends the threads after their reads."""
        self._pool.shutdown()

    # -- queues --------------------------------------------------------------------------------
    def pull(
        self,
        wanted: ReadRange,
        accept: Accept | None = None,
        *,
        joined: bool = False,
    ) -> NowOrLater[PullResult]:
        """Returns records of a queue from an offset on (store/read/pulling.py).

        accept   returns whether a filter accepts a tags code
        joined   whether an element of the result may be several joined records
        Errors   raised by the awaitable: MessageDamaged (the first record is damaged), other
                 StorageErrors, DiskSlow
        """
        queue = self._queues.find(wanted.topic, wanted.queue_id)
        return self._pulling.pull(queue, wanted, accept, joined=joined)

    def known(self, wanted: ReadRange) -> KnownPull | None:
        """Returns what a pull finds if all its records are known to be valid; None: `pull` it.

        Shape    it is replaced by the next pull
        """
        known = self._pulling.known
        return known if known.find(self._queues.find(*wanted[:2]), wanted) else None

    async def pull_cold(self, wanted: ReadRange, accept: Accept | None = None) -> PullResult:
        """Pulls in a thread, even if all records are in memory."""
        queue = self._queues.find(wanted.topic, wanted.queue_id)
        return await self._pulling.cold(queue, wanted, accept)

    def placed(self, topic: str, queue_id: int, places: Sequence[Place]) -> NowOrLater[list[bytes]]:
        """Returns records of a queue by (physical offset, size); see `placed_records`.

        Errors   StorageError, DiskSlow
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return [b""] * len(places)
        return self._patience.now_or_later(partial(placed_records, self._log, queue, places))

    def tags_codes(
        self, topic: str, queue_id: int, queue_offset: int, count: int
    ) -> NowOrLater[list[int]]:
        """Returns up to `count` tags codes from a queue offset on."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return []

        def look() -> list[int]:
            units = queue.units.read_resident(queue_offset, count)
            return [queue.plain_code(code) for _, _, code in UNIT.iter_unpack(units)]

        return self._patience.now_or_later(look)

    def unit_places(
        self, topic: str, queue_id: int, queue_offset: int, count: int
    ) -> NowOrLater[list[Place]]:
        """Returns (physical offset, size) of up to `count` messages from a queue offset on.

        Shape    (0, 0) for a pre-blank unit; empty if the file of the first unit was removed
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue_offset * UNIT_SIZE < queue.files.min_offset:
            return []

        def look() -> list[Place]:
            units = UNIT.iter_unpack(queue.units.read_resident(queue_offset, count))
            return [(0, 0) if size == PRE_BLANK_SIZE else (at, size) for at, size, _ in units]

        return self._patience.now_or_later(look)

    def place_of(self, topic: str, queue_id: int, queue_offset: int) -> NowOrLater[int | None]:
        """Returns the physical offset of a message; None if the queue does not contain it."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return None

        def look() -> int | None:
            unit = queue.units.resident_at(queue_offset)
            return None if unit is None or unit[1] == PRE_BLANK_SIZE else unit[0]

        return self._patience.now_or_later(look)

    def size_of(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Returns the size of a record in bytes; 0 if the queue offset has no unit in memory."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return 0
        try:
            unit = queue.units.resident_at(queue_offset)
        except ColdRead:
            return 0
        return 0 if unit is None or unit[1] == PRE_BLANK_SIZE else unit[1]

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Returns (min, max) queue offset of a queue's visible messages; (0, 0) without a queue."""
        queue = self._queues.find(topic, queue_id)
        return (queue.min_offset, queue.shown_max) if queue is not None else (0, 0)

    def whole_end(self, topic: str, queue_id: int) -> int:
        """Returns the queue offset after a queue's last message, also while it is hidden."""
        queue = self._queues.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def hide(self, begin: int) -> None:
        """Hides messages with records from an offset on; the broker's own topics stay readable.

        Cost     a search in each queue that has such messages
        """
        for key, queue in self._queues.queues.items():
            if queue.max_physical_offset > begin and not is_system_topic(key[0]):
                self._hidden[key] = queue
                queue.hidden_from = queue.units.first_at_or_behind(begin)

    def show(self) -> None:
        """Shows all messages again that are hidden, and wakes consumers that wait."""
        for key, queue in self._hidden.items():
            queue.hidden_from = NOWHERE
            self._arrivals.advance(key, queue.max_offset)
        self._hidden = {}
        assert all(queue.hidden_from == NOWHERE for queue in self._queues.queues.values())

    def queue_ends(self) -> Iterator[tuple[str, int]]:
        """Yields (topic, max offset) of each queue; queues may be added or removed meanwhile."""
        for queue in list(self._queues.queues.values()):
            yield queue.topic, queue.max_offset

    def end_of(self, topic: str, queue_id: int) -> int:
        """Returns the physical offset after a queue's last record; 0 for an empty or no queue."""
        queue = self._queues.find(topic, queue_id)
        return queue.max_physical_offset if queue is not None else 0

    def queue_ids(self, topic: str) -> list[int]:
        """Returns the ids of a topic's queues that have files, also those above its queue count."""
        return sorted(queue_id for name, queue_id in self._queues.queues if name == topic)

    def is_purged(self, message: StoredMessage) -> bool:
        """Returns whether a message was purged, expired by its topic's retention, or is hidden."""
        queue = self._queues.find(message.topic, message.queue_id)
        if queue is None:
            return False
        return not queue.floor <= message.queue_offset < queue.hidden_from

    def check_offset(self, topic: str, queue_id: int, queue_offset: int) -> None:
        """Raises OffsetOutOfRange unless min <= queue offset <= max; hidden messages count too."""
        lower, upper = self.queue_range(topic, queue_id)
        if not lower <= queue_offset <= max(upper, self.whole_end(topic, queue_id)):
            raise OffsetOutOfRange(queue_offset=queue_offset, min_offset=lower, max_offset=upper)

    async def span(self, topic: str, queue_id: int) -> QueueState:
        """Returns the offsets of a queue and the store times of its first and last message.

        Errors   StorageError, DiskSlow
        """
        lower, upper = self.queue_range(topic, queue_id)
        if lower >= upper:
            return QueueState(queue_id, lower, upper, 0, 0)
        earliest = await value_of(self.store_timestamp_at(topic, queue_id, lower))
        latest = await value_of(self.store_timestamp_at(topic, queue_id, upper - 1))
        return QueueState(queue_id, lower, upper, earliest or 0, latest or 0)

    def arrivals(self, topic: str, queue_id: int) -> Watermark:
        """Returns the mark that rises with the queue's max offset."""
        return self._arrivals.mark((topic, queue_id), self.queue_range(topic, queue_id)[1])

    # -- by key and id -------------------------------------------------------------------------
    async def query(self, wanted: KeyRange) -> QueryResult:
        """Returns one page of messages by key, newest first (store/read/key_search.py).

        Errors   IllegalPageToken, StorageError, DiskSlow
        """
        return await self._page(wanted, iter(range(TRIES_MAX)))

    async def message_by_unique_key(self, topic: str, key: str) -> StoredMessage | None:
        """Returns the newest message with a unique key; None if there is none.

        Errors   StorageError, DiskSlow
        """
        tries, wanted = iter(range(TRIES_MAX)), KeyRange(topic, key, UNIQUE_KEY_PAGE)
        while True:
            page = await self._page(wanted, tries)
            found = next((m for m in page.messages if m.unique_key == key), None)
            if found is not None or not page.next_cursor:
                return found
            wanted = wanted._replace(cursor=page.next_cursor)

    async def _page(self, wanted: KeyRange, tries: Iterator[int]) -> QueryResult:
        def search() -> QueryResult:
            begun = perf_counter()
            page = self._keys.by_key(wanted)
            self._keys.seconds.observe(perf_counter() - begun)
            return page

        return await self._patience.in_turn(search, lambda page: bool(page.next_cursor), tries)

    def message_at(self, physical_offset: int) -> NowOrLater[StoredMessage | None]:
        """Returns the dispatched message whose record starts at a physical offset, else None.

        Errors   StorageError, DiskSlow
        """

        def look() -> StoredMessage | None:
            is_visible = physical_offset < self._marks.dispatched.value
            found = self._message_at(physical_offset) if is_visible else None
            if found is None or not self._hidden:
                return found
            queue = self._hidden.get((found.topic, found.queue_id))
            is_hidden = queue is not None and found.queue_offset >= queue.hidden_from
            return None if is_hidden else found

        return self._patience.now_or_later(look)

    def log_bytes(self, physical_offset: int, size_bytes: int) -> NowOrLater[bytes]:
        """Returns a copy of bytes of the log, whatever they are; fewer at the end of a file.

        Errors   ReadFailed, DiskSlow
        """
        return self._patience.now_or_later(
            lambda: self._log.read_resident(physical_offset, size_bytes)
        )

    def records_with(
        self, texts: Sequence[bytes], begin: int, end: int, count_max: int
    ) -> tuple[list[bytes], int]:
        """Returns copies of dispatched records that contain any of `texts` (lookups.py)."""
        dispatched = self._marks.dispatched.value
        return records_with(self._log, texts, begin, min(end, dispatched), count_max)

    async def record_at(self, physical_offset: int) -> tuple[StoredMessage, bytes] | None:
        """Returns the dispatched message whose record starts at a physical offset, and the record.

        Returns  None if no record starts at the offset, or its queue does not contain the message
        Errors   StorageError, DiskSlow
        """
        message = await value_of(self.message_at(physical_offset))
        if message is None:
            return None
        wanted = ReadRange(message.topic, message.queue_id, message.queue_offset, 1, 1)
        found = await value_of(self.pull(wanted))
        record = next(iter(found.records), b"")
        if not record or int.from_bytes(record[_PHYSICAL_OFFSET]) != physical_offset:
            return None
        return message, record

    # -- by time -------------------------------------------------------------------------------
    def queue_offset_by_time(
        self, topic: str, queue_id: int, time_ms: int, bound: Bound
    ) -> NowOrLater[int]:
        """Returns a queue's offset at a time (store/read/lookups.py); 0 for an empty queue.

        Errors   StorageError, DiskSlow
        """

        def look() -> int:
            queue = self._queues.find(topic, queue_id)
            if queue is None:
                return 0
            return queue_offset_by_time(self._log, queue, time_ms, bound)

        return self._patience.now_or_later(look)

    def store_timestamp_at(
        self, topic: str, queue_id: int, queue_offset: int
    ) -> NowOrLater[int | None]:
        """Returns the store time of a message in ms; None if there is no message.

        Errors   StorageError, DiskSlow
        """

        def look() -> int | None:
            queue = self._queues.find(topic, queue_id)
            return None if queue is None else store_time_at(self._log, queue, queue_offset)

        return self._patience.now_or_later(look)
