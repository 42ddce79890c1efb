"""Verifies a store's small files: they must parse, and refer only to offsets within the log."""

from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import CHECKPOINT_FILE_SIZE, decode_checkpoint
from pocketmq.format.json_text import NotJson
from pocketmq.format.names import (
    BACKUP_SUFFIX,
    CHECKPOINT_FILE,
    CONFIG_DIRECTORY,
    MARK_FILE,
    OWN_DIRECTORY,
)
from pocketmq.format.table_json import decode_file
from pocketmq.log.store_directory import MANIFEST_FILE, ManifestFile
from pocketmq.model.errors import StoreTooNew
from pocketmq.model.message import OFFSET_MAX
from pocketmq.tools.verify.collector import Collector

TABLE_SUFFIX: Final = ".json"
WITH_BACKUP: Final = "a repair replaces it with its valid .bak"
WITHOUT_BACKUP: Final = (
    "no valid .bak: restore the file from a backup; without one, a repair moves it away"
)
CHECKPOINT_TIMES: Final = ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp")
_PLACES: Final = ("confirm_physical_offset", "logics_physical_offset")


class TableCheck:
    """Verifies checkpoint, flushed mark, manifest and tables of one store."""

    __slots__ = ("_collector", "_directory", "_disk")

    def __init__(self, disk: Disk, directory: Path, collector: Collector) -> None:
        self._disk = disk
        self._directory = directory
        self._collector = collector

    def look(
        self, *, log_end: int, last_time_ms: int, flushed: int | None, is_part: bool = False
    ) -> None:
        """Verifies all small files against the log.

        log_end        physical offset after the last valid record
        last_time_ms   store time of the last valid record
        flushed        durable offset when the verification began; None if unknown
        is_part        whether only a part of the log was read: small files may refer to the rest
        """
        limits = (OFFSET_MAX, OFFSET_MAX) if is_part else (log_end, last_time_ms)
        self._checkpoint(*limits)
        self._mark(flushed)
        self._manifest()
        for path in sorted((self._directory / CONFIG_DIRECTORY).glob(f"*{TABLE_SUFFIX}")):
            self._table(path)

    def _checkpoint(self, log_end: int, last_time_ms: int) -> None:
        path = self._directory / CHECKPOINT_FILE
        if not self._disk.exists(path):
            return
        content = self._disk.read_file(path)
        if len(content) != CHECKPOINT_FILE_SIZE:
            self._report(path, 0, f"{CHECKPOINT_FILE_SIZE} bytes", f"{len(content)} bytes")
            return
        values = decode_checkpoint(content)._asdict()
        for number, (name, value) in enumerate(values.items()):
            limit = (
                last_time_ms if name in CHECKPOINT_TIMES else log_end if name in _PLACES else value
            )
            if value < 0 or value > max(limit, 0):
                self._report(path, 8 * number, f"{name} at most {limit}", str(value))
        if content[8 * len(values) :].strip(b"\0"):
            self._report(path, 8 * len(values), "zeros", "other bytes")

    def _mark(self, upto: int | None) -> None:
        own, path = self._directory / OWN_DIRECTORY, self._directory / OWN_DIRECTORY / MARK_FILE
        if not self._disk.exists(path):
            return
        if upto is None:
            has_checkpoint = self._disk.exists(self._directory / CHECKPOINT_FILE)
            why = "another broker wrote later" if has_checkpoint else "the checkpoint is absent"
            self._collector.remark(f"{own.name}/{MARK_FILE} is not used: {why}")

    def _manifest(self) -> None:
        own = self._directory / OWN_DIRECTORY
        try:
            ManifestFile(self._disk, own).read()
        except (ValueError, StoreTooNew) as error:
            self._report(own / MANIFEST_FILE, 0, "a manifest", str(error))

    def _table(self, path: Path) -> None:
        try:
            decode_file(path.name, self._disk.read_file(path))
        except ValueError as error:
            backup = path.with_name(path.name + BACKUP_SUFFIX)
            is_kept = parses(self._disk, backup)
            then = WITH_BACKUP if is_kept else WITHOUT_BACKUP
            position = error.byte_position if isinstance(error, NotJson) else 0
            self._report(path, position, "a table", f"{error}; {then}")

    def _report(self, path: Path, position: int, expected: str, found: str) -> None:
        self._collector.add("table", path, position, expected=expected, found=found)


def parses(disk: Disk, path: Path) -> bool:
    """Returns whether a table or its .bak exists and can be parsed."""
    try:
        decode_file(path.name.removesuffix(BACKUP_SUFFIX), disk.read_file(path))
    except (OSError, ValueError):
        return False
    return True
