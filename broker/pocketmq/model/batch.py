"""Messages as columns: for a put, and as the views receive them.

A run is (Destination, Batch): consecutive messages of one queue. A single message is a batch with
one element.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from pocketmq.model.message import FLAG_TRANSACTION_MASK, QueueKey, has_queue_offset

UNIT_BYTES: Final = 20
ENTRY_BYTES: Final = 20
NO_TEXTS: Final[list[str]] = []
"""Shared empty text column of a `Written` with `entries`; must not be modified."""


class Destination(NamedTuple):
    """Queue of a run, and the fields that all its messages share.

    store_host       packed address and port of this broker: 8 bytes (IPv4) or 20 (IPv6)
    system_flag      FLAG_ and TRANSACTION_ bits of model/message.py, without those for IPv6 hosts
    prepared_offset  physical offset of the half message that a commit or rollback ends, else 0
    """

    topic: str
    queue_id: int
    store_host: bytes = b""
    system_flag: int = 0
    prepared_offset: int = 0

    @property
    def queue(self) -> QueueKey:
        """The queue as a key of tables."""
        return self.topic, self.queue_id

    @property
    def transaction(self) -> int:
        """Bits of the system flag that distinguish normal, prepared, commit and rollback."""
        return self.system_flag & FLAG_TRANSACTION_MASK


class Batch:
    """Messages to put, as lists of equal length: element i of each list belongs to message i.

    bodies           as they are stored, compressed or not
    property_blocks  see format/properties.py, without a property CRC
    unique_keys, keys, tags
                     copies of these properties, so that the block need not be parsed; "": absent;
                     the keys of a message are joined by spaces
    born_ms          times of creation by the producers' clocks
    born_hosts       packed addresses, as in `Destination`
    flags            message flags (RocketMQ's Message.flag), set by the user
    """

    __slots__ = (
        "bodies", "born_hosts", "born_ms", "flags", "keys", "property_blocks", "reconsume_times",
        "tags", "unique_keys",
    )  # fmt: skip

    def __init__(
        self,
        *,
        bodies: list[bytes],
        property_blocks: list[bytes],
        unique_keys: list[str],
        keys: list[str],
        tags: list[str],
        born_ms: list[int],
        born_hosts: list[bytes],
        flags: list[int],
        reconsume_times: list[int],
    ) -> None:
        assert bodies
        assert len(bodies) == len(property_blocks)
        assert len(bodies) == len(unique_keys) == len(keys) == len(tags)
        assert len(bodies) == len(born_ms) == len(born_hosts)
        assert len(bodies) == len(flags) == len(reconsume_times)
        self.bodies = bodies
        self.property_blocks = property_blocks
        self.unique_keys = unique_keys
        self.keys = keys
        self.tags = tags
        self.born_ms = born_ms
        self.born_hosts = born_hosts
        self.flags = flags
        self.reconsume_times = reconsume_times

    def __len__(self) -> int:
        return len(self.bodies)

    def part(self, numbers: Sequence[int]) -> "Batch":
        """Returns the messages with these indexes; there must be at least one."""
        return Batch(
            bodies=[self.bodies[number] for number in numbers],
            property_blocks=[self.property_blocks[number] for number in numbers],
            unique_keys=[self.unique_keys[number] for number in numbers],
            keys=[self.keys[number] for number in numbers],
            tags=[self.tags[number] for number in numbers],
            born_ms=[self.born_ms[number] for number in numbers],
            born_hosts=[self.born_hosts[number] for number in numbers],
            flags=[self.flags[number] for number in numbers],
            reconsume_times=[self.reconsume_times[number] for number in numbers],
        )


Run = tuple[Destination, Batch]


def batch_of(
    body: bytes, *, property_block: bytes = b"", born_ms: int = 0, born_host: bytes = bytes(8)
) -> Batch:
    """Returns a batch of one message without unique key, keys or tags."""
    return Batch(
        bodies=[body],
        property_blocks=[property_block],
        unique_keys=[""],
        keys=[""],
        tags=[""],
        born_ms=[born_ms],
        born_hosts=[born_host],
        flags=[0],
        reconsume_times=[0],
    )


class Written:
    """Records of one run in the log, consecutive in their queue, with the data that views need.

    queue_offset      offset of the first record; later records have consecutive queue offsets. 0
                      for prepared and rollback records, which have no queue offset
    physical_offsets  ascending
    sizes             sizes of the records in the log, bytes
    tags_codes        tags codes of the consume units
    unique_keys, keys, tags
                      index keys of the records; "": absent; the keys of a record are joined by
                      spaces; the three lists may be empty if `entries` is not None
    units             consume units, UNIT_BYTES each, as the queue's file stores them; empty: views
                      encode the units
    entries           index entries of all records in log order, ENTRY_BYTES each: key hash (i32),
                      physical offset (i64), store time in ms (i64), big-endian; None: views make
                      the entries from the index keys
    """

    __slots__ = (
        "destination", "entries", "keys", "physical_offsets", "queue_offset", "sizes",
        "store_time_ms", "tags", "tags_codes", "unique_keys", "units",
    )  # fmt: skip

    def __init__(
        self,
        destination: Destination,
        queue_offset: int,
        *,
        physical_offsets: list[int],
        sizes: list[int],
        tags_codes: list[int],
        store_time_ms: int,
        unique_keys: list[str],
        keys: list[str],
        tags: list[str],
        units: bytes = b"",
        entries: bytes | None = None,
    ) -> None:
        assert physical_offsets
        assert len(physical_offsets) == len(sizes)
        assert len(sizes) == len(tags_codes)
        assert len(units) in (0, len(sizes) * UNIT_BYTES)
        if entries is None:
            assert len(sizes) == len(unique_keys) == len(keys) == len(tags)
        else:
            assert not len(entries) % ENTRY_BYTES
        self.destination = destination
        self.queue_offset = queue_offset
        self.physical_offsets = physical_offsets
        self.sizes = sizes
        self.tags_codes = tags_codes
        self.store_time_ms = store_time_ms
        self.unique_keys = unique_keys
        self.keys = keys
        self.tags = tags
        self.units = units
        self.entries = entries

    def __len__(self) -> int:
        return len(self.physical_offsets)

    @property
    def begin(self) -> int:
        """Physical offset of the first record."""
        return self.physical_offsets[0]

    @property
    def end(self) -> int:
        """Physical offset after the last record."""
        return self.physical_offsets[-1] + self.sizes[-1]

    def places(self) -> Iterator[tuple[int, int]]:
        """Returns (physical offset, size) of each record."""
        return zip(self.physical_offsets, self.sizes, strict=True)

    def behind(self, count: int) -> "Written":
        """Returns the run without its first `count` records; at least one must remain."""
        assert 0 <= count < len(self)
        if not count:
            return self
        return Written(
            self.destination,
            self.queue_offset + count if has_queue_offset(self.destination.system_flag) else 0,
            physical_offsets=self.physical_offsets[count:],
            sizes=self.sizes[count:],
            tags_codes=self.tags_codes[count:],
            store_time_ms=self.store_time_ms,
            unique_keys=self.unique_keys[count:],
            keys=self.keys[count:],
            tags=self.tags[count:],
            units=self.units[count * UNIT_BYTES :],
            entries=self._entries_from(self.physical_offsets[count]),
        )

    def _entries_from(self, physical_offset: int) -> bytes | None:
        entries = self.entries
        if entries is None:
            return None
        begin = 0
        while begin < len(entries):
            if int.from_bytes(entries[begin + 4 : begin + 12]) >= physical_offset:
                break
            begin += ENTRY_BYTES
        return entries[begin:]


class PutStatus(Enum):
    """Result of a put; with every member, the records are in the log (PutMessageStatus)."""

    OK = 1
    FLUSH_DISK_TIMEOUT = 2
    FLUSH_REPLICA_TIMEOUT = 3
    REPLICA_NOT_AVAILABLE = 4


class PutResult(NamedTuple):
    """Positions of the messages of one run.

    physical_offsets[i] and queue_offset + i belong to message i
    end                 physical offset after the last message
    """

    status: PutStatus
    physical_offsets: list[int]
    queue_offset: int
    store_timestamp_ms: int
    end: int
