"""Verifies consume queues against the log, unit by unit.

The units that a rebuild would write are compared with the files. The files must have no further
units: neither after a queue's last unit nor in files that a rebuild would not write.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.consume_unit import (
    EXTENSION_ADDRESS_MAX,
    EXTENSION_HEAD,
    PRE_BLANK,
    PRE_BLANK_SIZE,
    UNIT_SIZE,
    extension_position,
    first_file_position,
)
from pocketmq.format.names import (
    BACKUP_SUFFIX,
    BATCH_QUEUE_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    TOPICS_FILE,
    offset_file_name,
    offset_from_file_name,
    queue_directory,
    queue_id_from_name,
)
from pocketmq.log.deleted_topics import known_topics
from pocketmq.model.errors import IllegalTopic
from pocketmq.model.message import QueueKey
from pocketmq.model.topic import is_system_topic
from pocketmq.rebuild.unit_files import QueueFiles
from pocketmq.tools.verify.collector import Collector
from pocketmq.walk.log_walk import Hole

# -- skipped checks ----------------------------------------------------------------------------
# Topics whose records legitimately have no unit in consumequeue/.
#
# A topic missing in both config/topics.json and consumequeue/ was deleted. Its records remain in
# the log until they expire. The units of a topic with batch queues are under batchconsumequeue/.
# A light message queue never has a row in config/topics.json: without a directory, it was deleted.


MISSING_UNIT: Final = "missing_unit"
NO_TOPICS: Final = f"config/{TOPICS_FILE} is absent"
"""Begin of the note about a store without its topic table."""
OTHER_TAGS: Final = (
    "a unit has another tags code than its record: one of the two is damaged; if it is the "
    "record, its tag, keys or id may be lost, and a repair does not bring them back: compare it "
    "with a backup"
)


class SkippedChecks:
    """Topics whose queues are not verified, because their records need not have units."""

    __slots__ = ("_batch", "_has_table", "_known", "_met")

    def __init__(self, disk: Disk, directory: Path) -> None:
        table = directory / CONFIG_DIRECTORY / TOPICS_FILE
        self._has_table = any(map(disk.exists, (table, Path(f"{table}{BACKUP_SUFFIX}"))))
        self._batch = set(disk.names(directory / BATCH_QUEUE_DIRECTORY))
        self._known = known_topics(disk, directory)
        self._met: set[str] = set()

    def has(self, topic: str) -> bool:
        """Returns whether a topic's queues are not verified."""
        return topic in self._batch or (self._known is not None and topic not in self._known)

    def meet(self, topics: Iterable[str]) -> None:
        """Notes that the log contains records of these topics."""
        self._met.update(topic for topic in topics if not is_system_topic(topic))
        assert "" not in self._batch

    def tell(self, collector: Collector) -> None:
        """Reports the skipped topics, and an absent topic table, as notes."""
        if self._met and not self._has_table:
            collector.remark(
                f"{NO_TOPICS}: a start takes the topics from log and queues, "
                "without their types and attributes; restore the file from a backup if there is one"
            )
        for topic in sorted(self._batch):
            collector.remark(
                f"topic {topic} has batch queues: {BATCH_QUEUE_DIRECTORY}/ is not verified"
            )
        for topic in sorted(filter(self.has, self._met - self._batch)):
            collector.remark(
                f"topic {topic} was removed: config/{TOPICS_FILE} and {CONSUME_QUEUE_DIRECTORY}/ "
                "do not contain it; the log still contains messages of it"
            )


# -- consume queue extension -------------------------------------------------------------------
END_MARK: Final = -1
"""Size that marks the rest of the file as unused."""


class ExtensionVerification:
    """Verifies the consume queue extension of a store."""

    __slots__ = ("_collector", "_directory", "_files", "_queues", "_used")

    def __init__(self, directory: Path, queues: Path, collector: Collector) -> None:
        self._directory = directory
        self._queues = queues
        self._collector = collector
        self._files: dict[Path, list[tuple[int, bytes]]] = {}
        self._used: set[tuple[Path, int]] = set()

    def holds(self, queue_file: Path, address: int, tags_code: int) -> bool:
        """Returns whether a valid extension unit with this tags code is at an address.

        Two units must not share an extension unit: a second call with the same address returns
        False.
        """
        queue = queue_file.parent.relative_to(self._queues)
        position = extension_position(address)
        assert position >= 0
        for base, content in self._contents(self._directory / queue):
            if base <= position < base + len(content) - EXTENSION_HEAD.size:
                size, found, _, bitmap_size = EXTENSION_HEAD.unpack_from(content, position - base)
                is_new = (queue, position) not in self._used
                self._used.add((queue, position))
                return bool(
                    size == EXTENSION_HEAD.size + bitmap_size and found == tags_code and is_new
                )
        return False

    def _contents(self, directory: Path) -> list[tuple[int, bytes]]:
        if directory not in self._files:
            paths = sorted(directory.iterdir()) if directory.is_dir() else []
            bases = [(path, offset_from_file_name(path.name)) for path in paths]
            self._files[directory] = [
                (base, path.read_bytes()) for path, base in bases if base is not None
            ]
        return self._files[directory]

    def look(self) -> None:
        """Checks all files unit by unit; each file must end with zeros or the end mark."""
        for path in sorted(self._directory.rglob("*")):
            if path.is_file() and offset_from_file_name(path.name) is not None:
                self._walk(path)

    def _walk(self, path: Path) -> None:
        content, position = path.read_bytes(), 0
        while position + EXTENSION_HEAD.size <= len(content):
            size, _, _, bitmap_size = EXTENSION_HEAD.unpack_from(content, position)
            if size in (0, END_MARK):
                break
            if size != EXTENSION_HEAD.size + bitmap_size or size < EXTENSION_HEAD.size:
                self._collector.add(
                    "extension_unit", path, position, expected="a unit of the extension",
                    found=f"size {size} with a bitmap of {bitmap_size}",
                )  # fmt: skip
                return
            position += size
        rest = content[position + 2 :] if position + 2 <= len(content) else b""
        if rest.strip(b"\0"):
            self._collector.add(
                "extension_unit", path, position, expected="nothing", found="bytes after the end"
            )


# -- units -------------------------------------------------------------------------------------
PIECE: Final = 1024 * 1024
Unit = tuple[int, int, int]
Units = NDArray[np.void]


class ComparedFiles(QueueFiles):
    """Queue files that compare units, instead of writing them as a rebuild does.

    log_begin   units of records below this physical offset are not checked
    upto        units of records from this physical offset on are not checked
    """

    __slots__ = (
        "_collector", "_extension", "_held", "_holes", "_log_begin", "_size", "_unjudged", "_upto",
        "doubted", "old_count", "units",
    )  # fmt: skip

    def __init__(
        self, directory: Path, file_size_bytes: int, collector: Collector,
        extension: ExtensionVerification,
        unjudged: SkippedChecks, *, log_begin: int, upto: int,
    ) -> None:  # fmt: skip
        super().__init__(directory, file_size_bytes)
        self._size = file_size_bytes
        self._collector = collector
        self._extension = extension
        self._unjudged = unjudged
        self._log_begin = log_begin
        self._upto = upto
        self._held: dict[QueueKey, list[tuple[Path, int, bytes, bytes]]] = {}
        self._holes: Sequence[Hole] = ()
        self.units = 0
        self.old_count = 0
        """Units that refer to offsets below the log's begin."""
        self.doubted: set[int] = set()
        """Physical offsets of records with another tags code than their units."""

    def write(self, key: QueueKey, queue_offset: int, units: memoryview) -> None:
        """Compares expected units with the files; keeps differences for `judge`."""
        directory = self._directory_of(key)
        if directory is None:
            return
        for base, position, wanted in self.pieces(queue_offset, units):
            path = directory / offset_file_name(base)
            found = _read(path, position, len(wanted))
            self.units += len(wanted) // UNIT_SIZE if found else 0
            if found != wanted:
                held = (path, position, bytes(wanted), found)
                self._held.setdefault(key, []).append(held)

    def fill(self, key: QueueKey, first: int) -> None:
        """Compares the bytes before the first unit: pre-blank, or units of deleted records."""
        base = first_file_position(first, self._size)
        count = first - base // UNIT_SIZE
        directory = self._directory_of(key)
        if not count or directory is None:
            return
        path = directory / offset_file_name(base)
        found = _read(path, 0, count * UNIT_SIZE)
        units = np.frombuffer(found[: len(found) - len(found) % UNIT_SIZE], dtype=UNIT_TYPE)
        is_old = (units["size"] > 0) & (units["physical_offset"] >= 0)
        is_old &= units["physical_offset"] < self._log_begin
        self.old_count += int((is_old & (units["size"] != PRE_BLANK_SIZE)).sum())
        is_old |= (units["size"] == PRE_BLANK_SIZE) & (units["physical_offset"] == 0)
        if len(units) < count or not is_old.all():
            self._held.setdefault(key, []).append((path, 0, PRE_BLANK * count, found))

    def _directory_of(self, key: QueueKey) -> Path | None:
        """Returns the directory of a queue; None if its topic is illegal."""
        try:
            return queue_directory(self.directory, *key)
        except IllegalTopic:
            return None

    def forget(self, key: QueueKey) -> None:
        """Discards the differences of a queue, which the caller compares again by another rule."""
        self._held.pop(key, None)

    def leads_elsewhere(self, key: QueueKey) -> bool:
        """Returns whether a queue's units differ from the expected ones in offset or size.

        Tags codes are not compared, as they may be extension addresses.
        """
        for _, _, expected, found in self._held.get(key, ()):
            wanted = np.frombuffer(expected, dtype=UNIT_TYPE)
            there = np.frombuffer(found.ljust(len(expected), b"\0"), dtype=UNIT_TYPE)
            if any((wanted[name] != there[name]).any() for name in ("physical_offset", "size")):
                return True
        return False

    def judge(self, holes: Sequence[Hole]) -> None:
        """Reports differences as findings, except those that the log's holes explain."""
        self._holes = holes
        for (topic, _), differences in self._held.items():
            if self._unjudged.has(topic):
                continue
            for path, position, expected, found in differences:
                self._compare(path, position, expected, found)

    def _compare(self, path: Path, position: int, expected: bytes, found: bytes) -> None:
        if not path.exists():
            view = path.parent if self.directory.is_dir() else self.directory
            self._collector.add_absent(view, "units of the log", len(expected) // UNIT_SIZE)
            return
        assert len(found) <= len(expected)
        wanted = np.frombuffer(expected, dtype=UNIT_TYPE)
        there = np.frombuffer(found.ljust(len(expected), b"\0"), dtype=UNIT_TYPE)
        for number in np.flatnonzero(wanted != there).tolist():
            unit, other = wanted[number].item(), there[number].item()
            if not self._is_accounted_for(path, unit, other):
                if unit[:2] == other[:2] and other[2] > EXTENSION_ADDRESS_MAX:
                    self._collector.remark(OTHER_TAGS)
                    self.doubted.add(unit[0])
                if _kind(other) == MISSING_UNIT and self._collector.is_unbuilt(unit[0]):
                    continue
                at = position + number * UNIT_SIZE
                self._collector.add(
                    _kind(other), path, at, expected=_shown(unit), found=_shown(other)
                )

    def _is_accounted_for(self, path: Path, wanted: Unit, found: Unit) -> bool:
        """Returns whether a difference between an expected and a found unit is no fault.

        The found unit may belong to a damaged record, or contain an extension address.
        """
        if wanted[1] == PRE_BLANK_SIZE:
            return any(hole.begin <= found[0] < hole.end for hole in self._holes)
        if found[:2] == wanted[:2] and found[2] <= EXTENSION_ADDRESS_MAX:
            return self._extension.holds(path, found[2], wanted[2])
        return False

    # -- beyond the log's records ----------------------------------------------------------
    def look_beyond(self, queues: dict[QueueKey, tuple[int, int]], holes: Sequence[Hole]) -> None:
        """Checks all queue files for units without a record in the log.

        queues   (first, end) queue offsets of each queue in the log
        """
        self._holes = holes
        for key, directory in self._queue_directories():
            first, end = queues.get(key, (0, 0))
            for path in sorted(directory.iterdir()):
                self._look_at(path, first * UNIT_SIZE, end * UNIT_SIZE)

    def _queue_directories(self) -> Iterator[tuple[QueueKey, Path]]:
        topics = sorted(self.directory.iterdir()) if self.directory.is_dir() else []
        for topic in topics:
            if not topic.is_dir():
                self._stray(topic, "a directory of a topic")
                continue
            for path in sorted(topic.iterdir()):
                queue_id = queue_id_from_name(path.name)
                if queue_id is None or not path.is_dir():
                    self._stray(path, "a directory of a queue")
                else:
                    yield (topic.name, queue_id), path

    def _stray(self, path: Path, expected: str) -> None:
        self._collector.add("stray_file", path, 0, expected=expected, found="something else")

    def _look_at(self, path: Path, begin: int, end: int) -> None:
        base = offset_from_file_name(path.name)
        if base is None or base % self._size:
            self._stray(path, "a file of a queue")
            return
        size = path.stat().st_size
        if size != self._size:
            self._collector.add(
                "file_size", path, 0, expected=f"{self._size} bytes", found=f"{size} bytes"
            )
        for position in range(max(end, base) - base, size, PIECE):
            self._behind(path, position)
        if base + self._size <= first_file_position(begin // UNIT_SIZE, self._size):
            self._old(path)

    def _behind(self, path: Path, position: int) -> None:
        """Checks a piece of a file after the queue's last unit.

        The piece may contain zeros, and units of records that are damaged, deleted, or not below
        `upto`.
        """
        found = _read(path, position, PIECE)
        if not found.strip(b"\0"):
            return
        units = np.frombuffer(found[: len(found) - len(found) % UNIT_SIZE], dtype=UNIT_TYPE)
        used = (units["size"] != 0) | (units["physical_offset"] != 0) | (units["tags_code"] != 0)
        used &= ~((units["physical_offset"] >= self._upto) & (units["size"] > 0))
        for hole in self._holes:
            used &= (units["physical_offset"] < hole.begin) | (units["physical_offset"] >= hole.end)
        is_old = self._is_old(units)
        self.old_count += int((used & is_old).sum())
        for number in np.flatnonzero(used & ~is_old).tolist():
            self._dangling(path, position, units, number, "nothing")

    def _old(self, path: Path) -> None:
        """Checks a file before a queue's first message: all units must be of deleted records."""
        units = np.frombuffer(_read(path, 0, self._size), dtype=UNIT_TYPE)
        is_old = self._is_old(units)
        self.old_count += int((is_old & (units["size"] != PRE_BLANK_SIZE)).sum())
        if not is_old.all():
            first = int(np.flatnonzero(~is_old)[0])
            self._dangling(path, 0, units, first, "units of deleted records")

    def _is_old(self, units: Units) -> NDArray[np.bool_]:
        """Returns a mask of the units that refer to offsets below the log's begin."""
        is_old: NDArray[np.bool_] = units["physical_offset"] < self._log_begin
        return is_old & (units["size"] > 0)

    def _dangling(
        self, path: Path, position: int, units: Units, number: int, expected: str
    ) -> None:
        unit: Unit = units[number].item()
        place = position + number * UNIT_SIZE
        self._collector.add("dangling_unit", path, place, expected=expected, found=_shown(unit))


def _kind(found: Unit) -> str:
    if found == (0, 0, 0):
        return MISSING_UNIT
    return "pre_blank_unit" if found[1] == PRE_BLANK_SIZE and not found[0] else "unit"


def _shown(unit: Unit) -> str:
    if unit[1] == PRE_BLANK_SIZE and not unit[0]:
        return "a pre-blank unit"
    return f"record {unit[0]}, {unit[1]} bytes, tags code {unit[2]}"


def _read(path: Path, position: int, size: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    try:
        return os.pread(descriptor, size, position)
    except IsADirectoryError:
        return b""
    finally:
        os.close(descriptor)
