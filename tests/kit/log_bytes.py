"""Logs with chosen records, and their views as the broker's own dispatch builds them.

log = LogBytes(tmp_path / "s", file_size=4096)
log.add("T", queue_offset=0, keys="a b"); log.add("T", queue_offset=1); log.close()
dispatched(log.store, settings, 4096, tmp_path / "views")     a rebuild must equal it

log.damage(log.places[1], b"\0"); log.close()
applied(log.without([1]), settings, tmp_path / "views")       … without that record
"""

from collections.abc import Collection, Iterable
from pathlib import Path

from pocketmq.format.addresses import host_from_text
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    offset_file_name,
    zone_from_name,
)
from pocketmq.format.record import BLANK_SIZE, encode_blank, encode_records, record_sizes
from pocketmq.format.record_scan import written_at
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue_table import ConsumeQueueTable
from pocketmq.log.hash_index import HashIndex
from pocketmq.model.batch import Destination, Written, batch_of
from pocketmq.model.message import TRANSACTION_ROLLBACK
from pocketmq.model.store_shape import DelayLevels
from pocketmq.model.topic import QUARANTINE_TOPIC
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_log_files
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below
from tests.sim.quick_disk import QuickDisk

TIME_MS = 1_795_000_000_000
IPV4 = host_from_text("127.0.0.1:10911")
IPV6 = host_from_text("[2001:db8::7]:10911")
SMALL = KnownShape(
    consume_queue_file_size_bytes=200, index_slot_count=7, index_entry_count_max=10, time_zone="UTC"
)
"""Ten units a queue file, nine entries an index file."""
EVERYTHING = 1 << 62


class LogBytes:
    """A commit log to which a test appends records."""

    def __init__(self, store: Path, file_size: int = 4096, *, base: int = 0) -> None:
        self.store = store
        self.file_size = file_size
        self.files: list[bytearray] = [bytearray()]
        self.base = base
        self.places: list[int] = []
        self.entries: list[Written] = []

    @property
    def end(self) -> int:
        return self.base + (len(self.files) - 1) * self.file_size + len(self.files[-1])

    def add(
        self,
        topic: str = "T",
        queue_id: int = 0,
        *,
        queue_offset: int = 0,
        body: bytes = b"body",
        block: bytes = b"",
        keys: str = "",
        time_ms: int = TIME_MS,
        flags: int = 0,
        born: bytes = IPV4,
        host: bytes = IPV4,
    ) -> int:
        """Appends a record; returns its physical offset."""
        block += f"KEYS\x01{keys}\x02".encode() if keys else b""
        batch = batch_of(body, property_block=block, born_ms=time_ms, born_host=born)
        destination = Destination(topic, queue_id, host, flags)
        sizes = record_sizes(destination, batch)
        left = self.file_size - len(self.files[-1])
        if sizes[0] + BLANK_SIZE > left:
            self.roll()
        place = self.end
        record = encode_records(
            destination, batch, sizes, queue_offset=queue_offset, physical_offset=place,
            store_timestamp_ms=time_ms,
        )  # fmt: skip
        self.files[-1] += record
        self.places.append(place)
        self.entries.append(written_at(record, 0, DelayLevels()))
        return place

    def roll(self) -> None:
        """Ends the current file with a BLANK record."""
        left = self.file_size - len(self.files[-1])
        self.files[-1] += encode_blank(left) + bytes(left - BLANK_SIZE)
        self.files.append(bytearray())

    def end_of(self, number: int) -> int:
        """Physical offset after a record, by its number."""
        return self.entries[number].end

    def without(self, lost: Collection[int]) -> list[Written]:
        """The records as dispatch gives them to views; fillers of a repair replace some."""
        return [
            _stand_in(entry) if number in lost else entry
            for number, entry in enumerate(self.entries)
        ]

    def damage(self, place: int, content: bytes) -> None:
        """Overwrites bytes at a physical offset."""
        number, position = divmod(place - self.base, self.file_size)
        self.files[number][position : position + len(content)] = content

    def close(self) -> "LogBytes":
        """Writes all files at their full length."""
        directory = self.store / COMMIT_LOG_DIRECTORY
        directory.mkdir(parents=True)
        for number, content in enumerate(self.files):
            path = directory / offset_file_name(self.base + number * self.file_size)
            path.write_bytes(bytes(content).ljust(self.file_size, b"\0"))
        return self

    def found(self) -> list[LogFile]:
        """The files in the form that a rebuild takes."""
        return find_log_files(self.store, self.file_size)


def _stand_in(entry: Written) -> Written:
    return Written(
        Destination(QUARANTINE_TOPIC, 0, system_flag=TRANSACTION_ROLLBACK),
        0,
        physical_offsets=entry.physical_offsets,
        sizes=entry.sizes,
        tags_codes=[0],
        store_time_ms=entry.store_time_ms,
        unique_keys=[""],
        keys=[""],
        tags=[""],
    )


def golden_settings(golden: GoldenStores, name: str, *, check_crc: bool = False) -> KnownShape:
    """Returns the settings that a golden store's views were built with."""
    return KnownShape(**golden.shape(name), check_crc=check_crc)


def golden_files(golden: GoldenStores, name: str) -> list[LogFile]:
    """The log of a golden store."""
    size = golden.shape(name)["commit_log_file_size_bytes"]
    return find_log_files(golden.store(name), size)


def views(directory: Path) -> dict[str, bytes]:
    """Every file of the views below a directory, index files by their order."""
    found = {
        f"queue {name}": content
        for name, content in files_below(directory / CONSUME_QUEUE_DIRECTORY).items()
    }
    contents = files_below(directory / INDEX_DIRECTORY).values()
    return found | {f"index {number}": content for number, content in enumerate(contents)}


def dispatched(store: Path, settings: KnownShape, file_size: int, out: Path) -> dict[str, bytes]:
    """The views of a log as the broker builds them record by record; names of files included."""
    levels = settings.levels
    log = CommitLog(QuickDisk(), store / COMMIT_LOG_DIRECTORY, file_size)
    log.load(read_only=True)
    entries = [
        written_at(file.view, position, levels) for _, file, position, _ in log.scan(log.min_offset)
    ]
    log.close()
    return applied(entries, settings, out)


def applied(entries: Iterable[Written], settings: KnownShape, out: Path) -> dict[str, bytes]:
    """The views of these records as the broker builds them one by one."""
    disk = QuickDisk()
    queues = ConsumeQueueTable(
        disk, out / CONSUME_QUEUE_DIRECTORY, settings.consume_queue_file_size_bytes
    )
    index = HashIndex(
        disk, out / INDEX_DIRECTORY, settings.geometry, style=settings.index_style,
        zone=zone_from_name(settings.time_zone),
    )  # fmt: skip
    for entry in entries:
        queues.apply([entry])
        index.apply([entry])
    queues.close()
    index.close()
    return rebuilt_files(out)


def rebuilt_files(out: Path) -> dict[str, bytes]:
    """The files of the views below a directory, by their names."""
    return files_below(out / CONSUME_QUEUE_DIRECTORY) | files_below(out / INDEX_DIRECTORY)
