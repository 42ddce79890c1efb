"""The extension of one consume queue: data for which consume units have no room.

    consumequeue_ext/TOPIC/QUEUE/FILE

An extension is optional: a message without extension unit counts as a match of every filter. Units
are stored contiguously; a unit that does not fit the last file is stored in a new file.
Source: ConsumeQueueExt.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import Keeper, MappedFile
from pocketmq.files.mapped_file_queue import MappedFileQueue
from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.consume_unit import (
    EXTENSION_ADDRESS_MAX,
    EXTENSION_END_MARK,
    EXTENSION_END_SIZE,
    EXTENSION_HEAD,
    EXTENSION_SIZE_MIN,
    UNIT_SIZE,
    encode_extension,
    extension_address,
    extension_position,
)
from pocketmq.log.queue_units import FILL_UNITS, QueueUnits

_KEY_NAMES: Final = "mappedFileSizeConsumeQueueExt"


def no_bitmap(topic: str, physical_offset: int, size: int) -> bytes:
    """Returns an empty bitmap, for queues without subscriptions."""
    return b""


class ExtensionFiles(NamedTuple):
    """Directory of all queues' extensions, their file length, and whether new units are written.

    Existing extensions are read even if none is written. `bitmap_of` returns a record's bitmap,
    given its topic, physical offset and size (filter/subscriptions.py).
    """

    directory: Path | None
    file_size_bytes: int
    is_written: bool
    bitmap_of: Callable[[str, int, int], bytes] = no_bitmap


NO_EXTENSION: Final = ExtensionFiles(None, 0, False)


class QueueExtension:
    """The extension units of one queue."""

    __slots__ = ("_bitmap_of", "files", "flushed")

    def __init__(
        self, disk: Disk, directory: Path, file_size_bytes: int, keeper: Keeper | None = None,
        bitmap_of: Callable[[int, int], bytes] = lambda physical_offset, size: b"",
    ) -> None:  # fmt: skip
        self._bitmap_of = bitmap_of
        self.files = MappedFileQueue(
            disk, directory, file_size_bytes, _KEY_NAMES, keeper, is_mapped=False, is_view=True
        )
        self.flushed = 0
        """Bytes of the extension that are durable, from its begin."""

    def load(self, *, read_only: bool = False) -> None:
        """Finds the files; `cut` must follow before the first write.

        Errors   NotAStore, WrongFileSize, StoreGap
        """
        self.files.load(read_only=read_only)
        self.flushed = self.files.max_offset

    def put(self, physical_offset: int, size: int, tags_code: int, store_timestamp_ms: int) -> int:
        """Stores a record's extension unit; returns its address.

        Errors   DiskFull, AllocationFailed: no unit was stored
        """
        bitmap = self._bitmap_of(physical_offset, size)
        unit = encode_extension(tags_code, store_timestamp_ms, bitmap)
        file = self._file_for(len(unit))
        assert file.wrote + len(unit) <= file.size
        file.allocate(file.wrote + len(unit))
        address = extension_address(file.base + file.wrote)
        file.write(file.wrote, unit)
        file.wrote += len(unit)
        return address

    def _file_for(self, size: int) -> MappedFile:
        files = self.files.files
        if not files:
            return self.files.make_file(0)
        last = files[-1].open()
        last.was_used = True
        if last.wrote + size + EXTENSION_END_SIZE <= last.size:
            return last
        if last.wrote + len(EXTENSION_END_MARK) <= last.size:
            last.allocate(last.wrote + len(EXTENSION_END_MARK))
            last.write(last.wrote, EXTENSION_END_MARK)
        last.wrote = last.size
        return self.files.make_file(last.base + last.size)

    def tags_code(self, address: int) -> int | None:
        """Returns the tags code in the unit at an address; None if no valid unit is there."""
        position = extension_position(address)
        file = self.files.file_at(position)
        if file is None or position - file.base + EXTENSION_SIZE_MIN > file.size:
            return None
        size, tags_code, _, bitmap_size = EXTENSION_HEAD.unpack(
            file.read(position - file.base, EXTENSION_SIZE_MIN)
        )
        return int(tags_code) if size == EXTENSION_SIZE_MIN + bitmap_size else None

    def cut(self, last_address: int | None) -> None:
        """Drops all units after the one at an address (None: all units), and zeroes their bytes.

        Effects  the next unit is stored after the unit at the address
        """
        end = 0
        if last_address is not None:
            position = extension_position(last_address)
            file = self.files.file_at(position)
            if file is not None and position - file.base + EXTENSION_SIZE_MIN <= file.size:
                size = EXTENSION_HEAD.unpack(file.read(position - file.base, EXTENSION_SIZE_MIN))[0]
                end = position + max(size, EXTENSION_SIZE_MIN)
        while self.files.files and self.files.files[-1].base >= end:
            self.files.files.pop().remove()
        if self.files.files:
            last = self.files.files[-1].open()
            last.wrote = min(end - last.base, last.size)
            last.zero_from(last.wrote)
        self.flushed = min(self.flushed, self.files.max_offset)

    def trim(self, first_address: int) -> list[MappedFile]:
        """Drops the files before an address, except the last file; returns them for unlinking."""
        gone: list[MappedFile] = []
        files = self.files.files
        while len(files) > 1 and files[0].base + files[0].size <= extension_position(first_address):
            gone.append(self.files.drop_first())
        return gone

    def dirty_files(self) -> list[MappedFile]:
        """Returns the files with units that are not durable, oldest first."""
        return [f for f in self.files.files if f.base + f.wrote > self.flushed]

    def remove(self) -> None:
        """Removes all files."""
        self.cut(None)


def last_address(units: QueueUnits) -> int | None:
    """Returns the last extension address among the units of a queue; None if there is none.

    Cost     reads the unit with the address and all later units
    """
    lowest, end, count = units.files.min_offset // UNIT_SIZE, units.max_offset, 1
    while end > lowest:
        begin = max(lowest, end - count)
        codes = np.frombuffer(units.read(begin, end - begin), dtype=UNIT_TYPE)["tags_code"]
        addresses = codes[codes <= EXTENSION_ADDRESS_MAX]
        if len(addresses):
            return int(addresses[-1])
        end, count = begin, FILL_UNITS
    return None
