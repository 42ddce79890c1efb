"""Records of chosen sizes, and the entries that views get for them.

    record(0, size=200)                       a valid record of 200 bytes at offset 0
    entry(0, queue_offset=3, keys="a b")      the entry that views get for it
    Records("T").take(3)                      three consecutive entries

Times and offsets of `Records` determine each other: see `store_time`.
"""

from collections.abc import Iterable, Sequence
from struct import pack

from pocketmq.format.addresses import host_from_text
from pocketmq.format.consume_unit import UNIT
from pocketmq.format.index_entries import searched_hash
from pocketmq.format.index_layout import entry_keys
from pocketmq.format.record import record_sizes
from pocketmq.model.batch import Destination, Written
from pocketmq.model.message import TRANSACTION_NONE, has_queue_offset
from tests.kit.rows import Row, batch, encoded

TIME_MS = 1_795_000_000_000
"""A store time, on a full second."""
HOST = host_from_text("127.0.0.1:10911")
BORN_HOST = host_from_text("10.0.0.7:4711")


def record(
    physical_offset: int,
    body: bytes = b"",
    *,
    size: int = 0,
    topic: str = "T",
    queue_offset: int = 0,
    properties: bytes = b"",
    time_ms: int = TIME_MS,
    system_flag: int = 0,
) -> bytes:
    """Encodes one record; `size`, when given, is reached by a body of x."""
    destination = Destination(topic, 0, HOST, system_flag)
    row = Row(body, properties, 7, time_ms - 5, BORN_HOST)
    (found,) = record_sizes(destination, batch(row))
    if size:
        row = row._replace(body=body + b"x" * (size - found))
        found = size
    made = encoded(
        destination,
        row,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        store_timestamp_ms=time_ms,
    )
    assert len(made) == found
    return made


def entry(
    place: int,
    size: int = 100,
    *,
    queue_offset: int = 0,
    tags_code: int = 0,
    time_ms: int = TIME_MS,
    topic: str = "T",
    queue_id: int = 0,
    unique_key: str = "",
    keys: str = "",
    tag: str = "",
    transaction: int = TRANSACTION_NONE,
    count: int = 1,
) -> Written:
    """Returns the entry of a record, or of several consecutive ones, for the views."""
    return Written(
        Destination(topic, queue_id, HOST, transaction),
        queue_offset,
        physical_offsets=[place + size * number for number in range(count)],
        sizes=[size] * count,
        tags_codes=[tags_code] * count,
        store_time_ms=time_ms,
        unique_keys=[unique_key] * count,
        keys=[keys] * count,
        tags=[tag] * count,
    )


def columns_of(written: Written) -> tuple[int, int, int, int, str, int, int, str, str, str, int]:
    """The columns of a record, as views get them.

    Physical offset, size, tags code, store time, topic, queue id, queue offset, unique key, keys,
    tag, transaction type.
    """
    (place,), (size,), (code,) = written.physical_offsets, written.sizes, written.tags_codes
    (unique_key,), (keys,), (tag,) = written.unique_keys, written.keys, written.tags
    return (
        *(place, size, code, written.store_time_ms, *written.destination.queue),
        *(written.queue_offset, unique_key, keys, tag, written.destination.transaction),
    )


class Records:
    """A log as the views see it: consecutive records of 100 bytes.

    Every record has the key k0, k1, … and is a second younger than the one before.
    """

    def __init__(self, topic: str = "T", *, queue_id: int = 0, queue_offset: int = 0) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.count = 0

    def take(self, count: int) -> list[Written]:
        """Returns entries of the next records."""
        entries = [
            entry(
                100 * number,
                queue_offset=self.queue_offset + number,
                tags_code=number,
                time_ms=TIME_MS + 1000 * number,
                topic=self.topic,
                queue_id=self.queue_id,
                keys=f"k{number}",
            )
            for number in range(self.count, self.count + count)
        ]
        self.count += count
        return entries


THREE_QUEUES = [("T", 0), ("T", 1), ("U", 0)]


def of_three_queues(count: int) -> list[Written]:
    """Records of 100 bytes of three queues in turn, with 1, 2, 3, 4, 1, 2, … keys."""
    return [
        entry(
            100 * number,
            topic=THREE_QUEUES[number % 3][0],
            queue_id=THREE_QUEUES[number % 3][1],
            queue_offset=number // 3,
            keys=" ".join(f"k{number}-{key}" for key in range(number % 4 + 1)),
            time_ms=store_time(100 * number),
        )
        for number in range(count)
    ]


def store_time(physical_offset: int) -> int:
    """The store time of one of `Records`, by its physical offset."""
    return TIME_MS + physical_offset * 10


def made_ahead(run: Written, style: str) -> Written:
    """The same run without texts, as from a writer that made units and index entries itself."""
    units = map(UNIT.pack, run.physical_offsets, run.sizes, run.tags_codes)
    topic, entries = run.destination.topic, b""
    for number, place in enumerate(run.physical_offsets):
        keys = entry_keys(run.unique_keys[number], run.keys[number], run.tags[number], style)
        for key in keys:
            entries += pack(">iqq", searched_hash(topic, key), place, run.store_time_ms)
    return Written(
        run.destination,
        run.queue_offset,
        physical_offsets=run.physical_offsets,
        sizes=run.sizes,
        tags_codes=run.tags_codes,
        store_time_ms=run.store_time_ms,
        unique_keys=[],
        keys=[],
        tags=[],
        units=b"".join(units),
        entries=entries,
    )


def batches(entries: list[Written], size: int) -> Iterable[list[Written]]:
    """Cuts entries into batches of a size; the last one may be shorter."""
    return [entries[begin : begin + size] for begin in range(0, len(entries), size)]


def joined(records: Sequence[Written]) -> list[Written]:
    """Joins adjacent records of one queue and time to runs, as one put may have written them."""
    runs: list[Written] = []
    for record in records:
        last = runs[-1] if runs else record
        step = has_queue_offset(record.destination.system_flag) * len(last)
        if (
            not runs
            or last.destination != record.destination
            or last.store_time_ms != record.store_time_ms
            or last.queue_offset + step != record.queue_offset
            or last.end > record.begin
        ):
            runs.append(record)
            continue
        runs[-1] = Written(
            last.destination,
            last.queue_offset,
            physical_offsets=last.physical_offsets + record.physical_offsets,
            sizes=last.sizes + record.sizes,
            tags_codes=last.tags_codes + record.tags_codes,
            store_time_ms=last.store_time_ms,
            unique_keys=last.unique_keys + record.unique_keys,
            keys=last.keys + record.keys,
            tags=last.tags + record.tags,
        )
    return runs
