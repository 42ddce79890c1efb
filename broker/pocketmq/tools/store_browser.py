"""Reads topics, messages and groups of a store directory, for pages that show it.

Each call reads the files. Only the queue offsets at which queues begin and end are cached, for a
few seconds, as a store in use changes.
"""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.format.addresses import parse_offset_message_id
from pocketmq.format.names import GROUPS_FILE
from pocketmq.format.record import BadRecord, decode_record
from pocketmq.format.table_json import GROUPS_MEMBER
from pocketmq.log.table_files import read_table, read_topics
from pocketmq.model.administration import QueueState
from pocketmq.model.message import StoredMessage
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_readable_files
from pocketmq.tools.dump import Unit, queue_units, records_of
from pocketmq.tools.lag import GroupLag, QueueRanges, group_lags, queue_ranges
from pocketmq.tools.selection import LogSearch, Selection

KEPT_S: Final = 5.0
"""Time for which the begins and ends of queues are cached."""


class StoreBrowser:
    """A store directory that passed the checks of access.

    Errors   of every method: WrongFileSize, StoreGap, StrayFile, TableUnreadable, ReadFailed
    """

    def __init__(self, disk: Disk, directory: Path, sizes: KnownShape) -> None:
        self._disk = disk
        self.directory = directory
        self.sizes = sizes
        self._ranges: tuple[float, QueueRanges] = (0.0, {})

    @property
    def disk(self) -> Disk:
        """The disk of the store."""
        return self._disk

    def forget(self) -> None:
        """Clears the cache after the store was changed."""
        self._ranges = (0.0, {})

    def files(self) -> list[LogFile]:
        """Returns the readable files of the log, in order."""
        return find_readable_files(self.directory, self.sizes.commit_log_file_size_bytes).files

    def ranges(self) -> QueueRanges:
        """Returns the range [first, end) of queue offsets of each queue with messages."""
        read_s, found = self._ranges
        assert read_s >= 0, "ends were read before the clock's begin"
        if not read_s or time.monotonic() - read_s > KEPT_S:
            search = LogSearch(self.files())
            found = queue_ranges(self._disk, self.directory, self.sizes, search)
            self._ranges = (time.monotonic(), found)
        return found

    def topics(self) -> dict[str, dict[str, Any]]:
        """Returns the rows of the topic table; a topic that only has queues has an empty row."""
        rows = dict(read_topics(self._disk, self.directory) or {})
        for topic, _ in self.ranges():
            rows.setdefault(topic, {})
        return dict(sorted(rows.items()))

    def queues(self, topic: str) -> list[QueueState]:
        """Returns the queues of a topic that have messages, with the store times of their ends."""
        found = []
        for (name, queue_id), (first, end) in sorted(self.ranges().items()):
            if name != topic:
                continue
            edges = [
                message.store_timestamp_ms
                for at in (first, end - 1)
                for message in self.messages(topic, queue_id, at, 1)
            ]
            times = (edges[0], edges[-1]) if edges else (0, 0)
            found.append(QueueState(queue_id, first, end, *times))
        return found

    def messages(
        self, topic: str, queue_id: int, queue_offset: int, count: int
    ) -> list[StoredMessage]:
        """Returns messages of a queue from an offset on; damaged ones are left out.

        Cost     about 30 µs, and 15 µs a message
        """
        units = list(self._units(topic, queue_id, queue_offset, count))
        found = []
        for _, record in records_of(self.files(), units):
            if record is not None:
                found.append(decode_record(record))
        return found

    def _units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> Iterator[Unit]:
        least, _ = self.ranges().get((topic, queue_id), (0, 0))
        if (topic, queue_id) not in self.ranges():
            return iter(())
        begin = max(queue_offset, least)
        return queue_units(
            self._disk, self.directory, self.sizes, topic, queue_id, begin, max(count, 0)
        )

    def at(self, physical_offset: int) -> StoredMessage | None:
        """Returns the message whose record begins at an offset of the log; None for none."""
        for file in self.files():
            if file.base <= physical_offset < file.end:
                with file.opened() as source:
                    try:
                        found = decode_record(source.view, physical_offset - file.base)
                    except (BadRecord, ValueError, IndexError):
                        return None
                    return found if found.physical_offset == physical_offset else None
        return None

    def by_id(self, topic: str, message_id: str) -> StoredMessage | None:
        """Returns the message with a unique key or an offset message id; None if there is none.

        topic    topic of the message; "": any topic
        Cost     a unique key: a walk over the log up to the message
        """
        parsed = parse_offset_message_id(message_id)
        if parsed is not None and (found := self.at(parsed[1])) is not None:
            # Another broker's id may have the offset of a record here.
            if found.store_host == parsed[0] and topic in ("", found.topic):
                return found
        named = (topic,) if topic else ()
        return next(self._with_key(Selection(named, key=message_id, with_system=bool(topic))), None)

    def by_key(self, topic: str, key: str, count: int) -> tuple[list[StoredMessage], bool]:
        """Returns the first messages of a topic with a key, and whether there are more.

        Cost     a walk over the log, about 1 s/GiB
        """
        found = list(islice(self._with_key(Selection((topic,), key=key)), count + 1))
        return found[:count], len(found) > count

    def _with_key(self, wanted: Selection) -> Iterator[StoredMessage]:
        if not wanted.key:
            return
        for message in LogSearch(self.files(), wanted).messages():
            # Patterns of names with * and ? match other topics.
            if not wanted.topics or message.topic == wanted.topics[0]:
                yield message

    def groups(self) -> dict[str, dict[str, Any]]:
        """Returns the rows of the group table; a group that only has offsets has an empty row."""
        table = read_table(self._disk, self.directory, GROUPS_FILE)
        rows = table.get(GROUPS_MEMBER)
        found = dict(rows) if isinstance(rows, dict) else {}
        for lag in self.lags():
            found.setdefault(lag.group, {})
        return dict(sorted(found.items()))

    def lags(self) -> list[GroupLag]:
        """Returns the lag of every group in every queue in which it has an offset."""
        return group_lags(self._disk, self.directory, self.ranges())
