"""A store in memory: the facade's reading and putting, over lists of real records.

Records are made by the real encoder, so that what services and the API decode is what a disk would
give. Time is what the test sets; a put is visible at once.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from broker.format.hosts import host_from_text
from broker.format.java_hash import tags_code
from broker.format.properties import encode_properties
from broker.format.record import decode_record, encode_records, record_sizes
from broker.model.cold_read import ColdRead
from broker.model.errors import IllegalPageToken
from broker.model.message import PutAddress, PutRow, StoredMessage
from broker.model.results import Bound, PullResult, PullStatus, PutResult, PutStatus, QueryResult
from broker.model.stats import Gauge, Stat
from broker.store.watermark import Watermark
from tests.fakes.memory_tables import MemoryGroups, MemoryOffsets, MemoryTopics

STORE_HOST = host_from_text("127.0.0.1:10911")
BORN_HOST = host_from_text("10.0.0.7:4711")
SCAN_COUNT = 4
"""Units one filtered pull looks at: few, so that scans go on."""


class Stored(NamedTuple):
    """One record and its tags code."""

    record: bytes
    code: int


def _keys_of(message: StoredMessage) -> list[str]:
    return [*message.keys, message.unique_key]


class StoreClock:
    """The wall time of a store in memory."""

    def __init__(self, store: "MemoryStore") -> None:
        self._store = store

    def wall_ms(self) -> int:
        """Return the store's time."""
        return self._store.now_ms

    def monotonic_ms(self) -> int:
        """Return the same: it never goes back unless a test does it."""
        return self._store.now_ms


class MemoryStore:
    """Queues of records; `min_offsets` may be raised to play retention, `hot_begin` a cold disk."""

    def __init__(self) -> None:
        self.topics = MemoryTopics()
        self.groups = MemoryGroups()
        self.offsets = MemoryOffsets(self.groups)
        self.clock = StoreClock(self)
        self.stats: list[Stat] = [Gauge("pocketmq_index_files", "", lambda: 2.0)]
        self.settings = SimpleNamespace(
            directory=Path("/store"),
            flush="sync",
            cluster="DefaultCluster",
            broker="broker-a",
            property_crc=False,
        )
        self.state = "running"
        self.state_since_ms = 1_600_000_000_000
        self.now_ms = 1_700_000_000_000
        self.queues: dict[tuple[str, int], list[Stored]] = {}
        self.min_offsets: dict[tuple[str, int], int] = {}
        self.places: dict[int, bytes] = {}
        self.appended = 0
        self.min_offset = 0
        self.hot_begin = 0
        """Queue offset below which a pull has to wait for the disk."""
        self._marks: dict[tuple[str, int], Watermark] = {}

    # --- upkeep ---

    async def remove_topic(self, topic: str) -> None:
        """Forget the topic's queues."""
        for key in [key for key in self.queues if key[0] == topic]:
            del self.queues[key]

    async def flush(self) -> int:
        """Everything lies in memory already."""
        return self.appended

    def disk_usage(self) -> tuple[int, int]:
        """Return (free, total) bytes."""
        return 30, 100

    def retention_status(self) -> str:
        """Return what retention would be doing."""
        return "off"

    @property
    def flushed(self) -> int:
        """All of it."""
        return self.appended

    @property
    def dispatched(self) -> int:
        """All of it."""
        return self.appended

    # --- writing ---

    async def put_batch(
        self, address: PutAddress, rows: list[PutRow], *, wait: bool = True
    ) -> PutResult:
        """Store rows; visible when this returns."""
        return self.append(address, rows)

    def append(self, address: PutAddress, rows: list[PutRow]) -> PutResult:
        """Store rows at once."""
        key = (address.topic, address.queue_id)
        queue = self.queues.setdefault(key, [])
        begin, places = len(queue), []
        for row in rows:
            (size,) = record_sizes(address, [row])
            record = encode_records(
                address,
                [row],
                [size],
                queue_offset=len(queue),
                physical_offset=self.appended,
                store_timestamp_ms=self.now_ms,
            )
            places.append(self.appended)
            self.places[self.appended] = record
            queue.append(Stored(record, tags_code(row[7])))
            self.appended += size
        self.arrivals(*key).advance(len(queue))
        return PutResult(PutStatus.OK, places, begin, self.now_ms, self.appended)

    def add(
        self,
        topic: str,
        *bodies: bytes,
        queue_id: int = 0,
        system_flag: int = 0,
        store_host: bytes = STORE_HOST,
        **properties: str,
    ) -> PutResult:
        """Store messages with these properties, in this order."""
        block = encode_properties(properties)
        rows: list[PutRow] = [
            (
                *(body, block, 7, self.now_ms - 5, BORN_HOST),
                *(properties.get(name, "") for name in ("UNIQ_KEY", "KEYS", "TAGS")),
            )  # type: ignore[misc]
            for body in bodies
        ]
        return self.append(PutAddress(topic, queue_id, store_host, system_flag), rows)

    # --- reading ---

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
        """Return records one by one, as store/reading/reader.py does."""
        queue = self.queues.get((topic, queue_id), [])
        lower, upper = self.queue_range(topic, queue_id)
        if queue_offset < min(self.hot_begin, upper):
            raise ColdRead(lambda: None)
        empty = PullResult(PullStatus.FOUND, queue_offset, lower, upper, [], 0)
        if upper == 0 and queue_offset == 0:
            return empty._replace(status=PullStatus.NO_NEW_MESSAGE)
        if queue_offset < lower:
            return empty._replace(status=PullStatus.OFFSET_TOO_SMALL, next_begin_offset=lower)
        if queue_offset == upper:
            return empty._replace(status=PullStatus.OFFSET_OVERFLOW_ONE)
        if queue_offset > upper:
            return empty._replace(status=PullStatus.OFFSET_OVERFLOW_BADLY, next_begin_offset=upper)
        records: list[bytes] = []
        position = queue_offset
        end = upper if accept is None else min(upper, queue_offset + SCAN_COUNT)
        for record, code in queue[queue_offset:end]:
            if accept is None or accept(code):
                size_sum = sum(map(len, records)) + len(record)
                if records and (size_sum > max_bytes or len(records) == max_messages):
                    break
                records.append(record)
            position += 1
        status = PullStatus.FOUND if records else PullStatus.NO_MATCHED_MESSAGE
        return PullResult(status, position, lower, upper, records, len(records))

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
        """Return the same after a turn of the loop; messages below `hot_begin` come only so."""
        await asyncio.sleep(0)
        hot_begin, self.hot_begin = self.hot_begin, 0
        result = self.pull(
            topic,
            queue_id,
            queue_offset,
            max_messages=max_messages,
            max_bytes=max_bytes,
            accept=accept,
        )
        self.hot_begin = hot_begin
        return result

    def pull_joined(
        self, topic: str, queue_id: int, queue_offset: int, *, max_messages: int, max_bytes: int
    ) -> PullResult:
        """Return records as one piece."""
        result = self.pull(
            topic, queue_id, queue_offset, max_messages=max_messages, max_bytes=max_bytes
        )
        return result._replace(records=[b"".join(result.records)]) if result.records else result

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return (min, max)."""
        key = (topic, queue_id)
        return self.min_offsets.get(key, 0), len(self.queues.get(key, []))

    def arrivals(self, topic: str, queue_id: int) -> Watermark:
        """Return the queue's mark."""
        key = (topic, queue_id)
        if key not in self._marks:
            self._marks[key] = Watermark(len(self.queues.get(key, [])))
        return self._marks[key]

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
        """Return a page, newest first; a cursor is the place of the last message shown."""
        if cursor and not cursor.isdecimal():
            raise IllegalPageToken(token=cursor)
        found = [
            message
            for place, message in sorted(self._messages().items(), reverse=True)
            if message.topic == topic
            and (key == message.tag if index_type else key in _keys_of(message))
            and begin_ms <= message.store_timestamp_ms <= end_ms
            and (not cursor or place < int(cursor))
        ]
        page = found[:count_max]
        is_complete = len(found) <= count_max
        return QueryResult(page, is_complete, "" if is_complete else str(page[-1].physical_offset))

    def message_by_unique_key(
        self, topic: str, key: str, *, cursor: str = ""
    ) -> StoredMessage | None:
        """Return the newest one."""
        for _, message in sorted(self._messages().items(), reverse=True):
            if message.topic == topic and message.unique_key == key:
                return message
        return None

    def message_at(self, physical_offset: int) -> StoredMessage | None:
        """Return the record that starts there."""
        record = self.places.get(physical_offset)
        return None if record is None else decode_record(record)

    def queue_offset_by_time(self, topic: str, queue_id: int, time_ms: int, bound: Bound) -> int:
        """Return the first at or after a time, or the last at or before it."""
        times = [
            decode_record(stored.record).store_timestamp_ms
            for stored in self.queues.get((topic, queue_id), [])
        ]
        if bound is Bound.LOWER:
            return sum(time < time_ms for time in times)
        return max(sum(time <= time_ms for time in times) - 1, 0)

    def store_timestamp_at(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return when one message was stored."""
        queue = self.queues.get((topic, queue_id), [])
        if not 0 <= queue_offset < len(queue):
            return None
        return decode_record(queue[queue_offset].record).store_timestamp_ms

    def _messages(self) -> dict[int, StoredMessage]:
        return {place: decode_record(record) for place, record in self.places.items()}


async def turns(count: int = 5) -> None:
    """Let everything that is ready on the loop run."""
    for _ in range(count):
        await asyncio.sleep(0)
