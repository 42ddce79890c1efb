"""Records and dispatch entries made to measure.

    record(0, size=200)                       200 bytes that are a sound record at offset 0
    entry(0, queue_offset=3, keys="a b")      what the views are told of such a record
    Records("T").take(3)                      three entries that follow on each other

Times and places of `Records` are made so that one tells the other: see `store_time`.
"""

from collections.abc import Iterable

from broker.format.hosts import host_from_text
from broker.format.record import encode_records, record_sizes
from broker.model.message import TRANSACTION_NONE, DispatchEntry, PutAddress, PutRow

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
    """Encode one record; `size`, when given, is reached by a body of x."""
    address = PutAddress(topic, 0, HOST, system_flag)
    row: PutRow = (body, properties, 7, time_ms - 5, BORN_HOST, "", "", "")
    (found,) = record_sizes(address, [row])
    if size:
        row = (body + b"x" * (size - found), *row[1:])
        found = size
    encoded = encode_records(
        address,
        [row],
        [found],
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        store_timestamp_ms=time_ms,
    )
    assert len(encoded) == found
    return encoded


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
) -> DispatchEntry:
    """Describe the record at a place of the log to the views."""
    return (
        *(place, size, tags_code, time_ms, topic, queue_id, queue_offset),
        *(unique_key, keys, tag, transaction),
    )


class Records:
    """A log as the views see it: records of 100 bytes, one behind the other.

    Every record has the key k0, k1, … and is a second younger than the one before.
    """

    def __init__(self, topic: str = "T", *, queue_id: int = 0, queue_offset: int = 0) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.count = 0

    def take(self, count: int) -> list[DispatchEntry]:
        """Describe the next records."""
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


def store_time(physical_offset: int) -> int:
    """The store time of one of `Records`, by its place."""
    return TIME_MS + physical_offset * 10


def batches(entries: list[DispatchEntry], size: int) -> Iterable[list[DispatchEntry]]:
    """Cut entries into batches of a size; the last one may be shorter."""
    return [entries[begin : begin + size] for begin in range(0, len(entries), size)]
