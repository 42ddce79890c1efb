"""Reading a store: pulls, lookups by key, by id, by time.

Fresh records are read through the map at once. What may have to wait for the disk raises ColdRead
instead, and so does damage: `pull_cold` reads in a thread, and looks for what units do not lead to;
callers of the other methods fetch and ask again.
Source: DefaultMessageStore (getMessage, queryMessage, lookMessageByOffset, getOffsetInQueueByTime).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Final

from broker.files.disk import Disk
from broker.format.record import decode_record
from broker.model.cold_read import LongChain
from broker.model.message import StoredMessage
from broker.model.results import Bound, PullResult, QueryResult
from broker.store.marks import Marks
from broker.store.reading import cold_pull, reader
from broker.store.reading.mending import Mending
from broker.store.reading.query import Query
from broker.store.starting.structures import Structures
from broker.store.views.arrivals import Arrivals
from broker.store.views.dispatcher import Dispatcher
from broker.store.watermark import Watermark

COLD_THREADS: Final = 4
"""Reads that wait for the disk at once: more would not make it quicker."""


class Reads:
    """The reading half of a store; the writing half (store/message_store.py) sets the parts."""

    __slots__ = (
        "_arrivals", "_cold_pool", "_directory", "_disk", "_dispatcher", "_mending", "_query",
        "marks", "structures",
    )  # fmt: skip

    marks: Marks
    structures: Structures
    _dispatcher: Dispatcher
    _query: Query

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._arrivals = Arrivals()
        self._cold_pool = ThreadPoolExecutor(COLD_THREADS, thread_name_prefix="cold-read")
        self._mending = Mending(disk, self._cold_pool)

    def pull(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        accept: Callable[[int], bool] | None = None,
    ) -> PullResult:
        """Return records of a queue from an offset on (store/reading/reader.py).

        Errors   ColdRead: `pull_cold` will do
        """
        log, queue = self.structures.log, self.structures.queues.find(topic, queue_id)
        return reader.pull(
            log, queue, queue_offset, max_messages=max_messages, max_bytes=max_bytes, accept=accept
        )

    def pull_joined(
        self, topic: str, queue_id: int, queue_offset: int, *, max_messages: int, max_bytes: int
    ) -> PullResult:
        """Return the same with records that lie next to each other joined into one.

        Errors   ColdRead
        """
        log, queue = self.structures.log, self.structures.queues.find(topic, queue_id)
        return reader.pull_joined(
            log, queue, queue_offset, max_messages=max_messages, max_bytes=max_bytes
        )

    async def pull_cold(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        accept: Callable[[int], bool] | None = None,
    ) -> PullResult:
        """Return what `pull` would, read off the event loop (store/reading/cold_pull.py).

        Errors   MessageDamaged: the first record; it says where to go on
        """
        log, queue = self.structures.log, self.structures.queues.find(topic, queue_id)
        return await cold_pull.pull(
            self._cold_pool, self._mending, log, queue, queue_offset, max_messages=max_messages,
            max_bytes=max_bytes, accept=accept,
        )  # fmt: skip

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return (min, max) queue offset, (0, 0) for a queue nothing was stored in."""
        queue = self.structures.queues.find(topic, queue_id)
        return (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)

    def arrivals(self, topic: str, queue_id: int) -> Watermark:
        """Return the mark that rises with the queue's max offset, for those who wait."""
        return self._arrivals.mark((topic, queue_id), self.queue_range(topic, queue_id)[1])

    def query(
        self,
        topic: str,
        key: str,
        *,
        count_max: int,
        begin_ms: int,
        end_ms: int,
        cursor: str = "",
        index_type: str = "",
    ) -> QueryResult:
        """Return one page of messages by key, newest first (store/reading/query.py)."""
        begun = perf_counter()
        result = self._query.by_key(
            topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms, cursor=cursor,
            index_type=index_type,
        )  # fmt: skip
        self._query.seconds.observe(perf_counter() - begun)
        return result

    def message_by_unique_key(
        self, topic: str, key: str, *, cursor: str = ""
    ) -> StoredMessage | None:
        """Return the newest message whose unique key this is.

        Errors   LongChain: not found yet, its cursor goes on; ColdRead, Corruption
        """
        page = self.query(topic, key, count_max=16, begin_ms=0, end_ms=2**62, cursor=cursor)
        found = next((m for m in page.messages if m.unique_key == key), None)
        if found is None and page.next_cursor:
            raise LongChain(page.next_cursor)
        return found

    def message_at(self, physical_offset: int) -> StoredMessage | None:
        """Return the visible record that starts at an offset, None when none starts there."""
        log = self.structures.log
        if not log.min_offset <= physical_offset < self.marks.dispatched.value:
            return None
        record = reader.find_record(log, physical_offset)
        return None if record is None else decode_record(record)

    def queue_offset_by_time(self, topic: str, queue_id: int, time_ms: int, bound: Bound) -> int:
        """Return where a queue stands at a time (store/reading/reader.py); 0 for an empty queue."""
        queue = self.structures.queues.find(topic, queue_id)
        if queue is None:
            return 0
        return reader.queue_offset_by_time(self.structures.log, queue, time_ms, bound)

    def store_timestamp_at(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return the store time of a message in ms, None when there is none."""
        queue = self.structures.queues.find(topic, queue_id)
        if queue is None:
            return None
        return reader.store_time_at(self.structures.log, queue, queue_offset)

    # -- numbers -------------------------------------------------------------------------------
    @property
    def appended(self) -> int:
        """Physical offset behind the last record."""
        return self.marks.appended.value

    @property
    def flushed(self) -> int:
        """Physical offset below which everything is durable."""
        return self.marks.flushed.value

    @property
    def dispatched(self) -> int:
        """Physical offset up to which every view has every record."""
        return self.marks.dispatched.value

    @property
    def behind_count(self) -> int:
        """Records that wait for dispatch in memory."""
        return self._dispatcher.remembered_count

    @property
    def min_offset(self) -> int:
        """Physical offset of the oldest file."""
        return self.structures.log.min_offset

    def disk_space(self) -> tuple[str, int, int]:
        """Return (path, bytes used, bytes usable) of the store's file system."""
        return (str(self._directory), *self._disk.space(self._directory))

    def disk_usage(self) -> tuple[int, int]:
        """Return (free, total) bytes of that file system, as an ordinary user has them."""
        _, used, usable = self.disk_space()
        return usable, used + usable
