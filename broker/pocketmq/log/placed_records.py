"""Reads single records of a store's log by physical offset, before the store is opened.

Only one file at a time is mapped, so the log may have any size.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import MappedFile
from pocketmq.format.names import offset_from_file_name
from pocketmq.format.record import SIZE_AND_MAGIC, BadRecord, check_record
from pocketmq.format.record_scan import RecordScan, written_at
from pocketmq.model.batch import Written
from pocketmq.model.store_shape import DEFAULT_DELAY_LEVELS, DelayLevels

_LEVELS: Final = DelayLevels(DEFAULT_DELAY_LEVELS)
"""Delay levels for decoding; they affect only tags codes, which callers do not use."""


class PlacedRecords:
    """Records of a log; missing files, and files of another length, are treated as empty."""

    __slots__ = ("_bases", "_file", "_files", "min_offset")

    def __init__(self, disk: Disk, directory: Path, file_bytes: int) -> None:
        found = []
        for name in disk.names(directory):
            base = offset_from_file_name(name)
            if base is not None and disk.file_size(directory / name) == file_bytes:
                found.append(MappedFile(disk, directory / name, base, file_bytes))
        self._files = sorted(found, key=lambda file: file.base)
        self._bases = [file.base for file in self._files]
        self._file: MappedFile | None = None
        self.min_offset = self._bases[0] if self._bases else 0

    def record_at(self, physical_offset: int) -> Written | None:
        """Returns the record that starts at an offset, CRC unchecked; None if none starts there."""
        file = self._file_at(physical_offset)
        if file is None or physical_offset + SIZE_AND_MAGIC.size > file.base + file.size:
            return None
        position = physical_offset - file.base
        try:
            is_record = check_record(file.view, position, physical_offset, crc=False)
            return written_at(file.view, position, _LEVELS) if is_record else None
        except BadRecord:
            return None

    def records_between(self, begin: int, end: int) -> Iterator[Written]:
        """Yields the records from a record's start up to an offset, or up to the first damage."""
        while begin < end:
            file = self._file_at(begin)
            if file is None:
                return
            scan = RecordScan(file.view, file.base, begin - file.base)
            for position, _ in scan:
                if file.base + position >= end:
                    return
                yield written_at(file.view, position, _LEVELS)
            if not scan.blank and scan.position + SIZE_AND_MAGIC.size <= file.size:
                return
            begin = file.base + file.size

    def close(self) -> None:
        """Closes the open file, if there is one."""
        if self._file is not None:
            self._file.close()

    def _file_at(self, physical_offset: int) -> MappedFile | None:
        number = bisect_right(self._bases, physical_offset) - 1
        file = self._files[number] if number >= 0 else None
        if file is None or physical_offset >= file.base + file.size:
            return None
        if file is not self._file:
            self.close()
            self._file = file.open(read_only=True)
        assert file.base <= physical_offset
        return file
