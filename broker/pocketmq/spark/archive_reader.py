"""Reads a store and its lake as one table: each message once.

    lake    ├──── messages up to the last one of each queue ────┤
    log          ├── what retention left ──┼── later messages ──┤
                                           └─ read from the log

Retention may remove files of the log while a query runs. These are in the lake by then, and a task
reads the rest of their messages from there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pocketmq.backfill.key_places import RecordPlaces
from pocketmq.backfill.log_walk import DamagedBytes, Stretch
from pocketmq.backfill.message_plan import plan_messages
from pocketmq.backfill.request import Request
from pocketmq.backfill.row_filter import RowFilter
from pocketmq.backfill.source import LogTask, StoreReader, bounded, record_rows, records_of
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.message_columns import columns_of
from pocketmq.model.message import OFFSET_MAX, QueueKey
from pocketmq.model.topic import is_system_topic
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.spark.lake_rows import (
    LakePart,
    check_own,
    lake_rows,
    last_offsets,
    manifest_of,
    parts_for,
)

LOOKS: Final = 16
"""Attempts at planning while archive and retention change lake and log."""


class ArchiveReader(DataSourceReader):
    """Reads the messages of a lake, and those of the log that the lake does not have."""

    def __init__(self, target: str, request: Request, schema: StructType, *, has_log: bool) -> None:
        """Creates a reader.

        target    the lake's directory or URL
        has_log   whether `request.store` is a store; if not, the lake alone is read
        """
        self._target, self._request, self._has_log = target, request, has_log
        self._rows = StoreReader(request, schema)
        assert target, "no lake is named"
        self._last: dict[QueueKey, int] = {}
        """Physical offset of each queue's last message in the lake, at the time of planning.

        Partitions contain it: Spark pickles the reader for the workers before it plans.
        """

    def partitions(self) -> list[InputPartition]:
        """Returns the partitions of lake and log.

        Errors   NotAStore: there is no lake, or it is another store's; Corruption, WrongFileSize,
                 StoreGap, OSError
        """
        wanted = self._request.wanted
        for look in range(LOOKS):
            manifest = manifest_of(self._target)
            begin = max(manifest.marks.upto, 0) if not self._has_system_topics() else 0
            try:
                lots = self._log_lots(begin)
                files = find_log_files(self._request.store) if self._has_log else []
                if files:
                    check_own(self._target, manifest.marks.last, files, files[-1].end)
            except FileNotFoundError:  # Retention removed it.
                if look == LOOKS - 1:
                    raise
                continue
            is_whole = not files or files[0].base <= begin
            if is_whole or manifest_of(self._target).run == manifest.run:
                break
        last = last_offsets(manifest, wanted.topics)
        return [InputPartition((found, last)) for found in (*parts_for(manifest, wanted), *lots)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows of a partition as `pyarrow.RecordBatch`es.

        Errors   Corruption, unless damage is reported as rows; NotAStore, OSError
        """
        wanted = self._request.wanted
        found, self._last = partition.value or ((), {})
        if isinstance(found, LakePart):
            yield from self._rows.rows_of([found], wanted, self._of_lake)
        else:
            yield from self._rows.rows_of(found, wanted, self._of_log)

    def _has_system_topics(self) -> bool:
        return any(map(is_system_topic, self._request.wanted.topics or ()))

    def _log_lots(self, begin: int) -> list[list[Any]]:
        if not self._has_log:
            return []
        wanted = self._request.wanted.within("physical_offset", least=begin)
        return plan_messages(replace(self._request, wanted=wanted), wanted)

    # -- rows ----------------------------------------------------------------------------------
    def _of_lake(
        self, part: LakePart, request: Request, wanted: RowFilter, names: Sequence[str]
    ) -> Iterator[Any]:
        yield from lake_rows(self._target, part, request, wanted, names, self._last)

    def _of_log(
        self, task: LogTask, request: Request, wanted: RowFilter, names: Sequence[str]
    ) -> Iterator[Any]:
        columns, queues = columns_of(names), QueueTable()
        begin, end = _span(task)
        try:
            for found in records_of(task, request.check_crc):
                if isinstance(found, DamagedBytes):
                    yield found
                    continue
                buffer, heads = found
                if not len(heads):
                    continue
                begin = int(heads.physical_offset[-1]) + 1
                numbers = queues.number(buffer, heads)
                last = np.array([self._last_of(key) for key in queues.keys], dtype=np.int64)
                heads = heads.take(heads.physical_offset > last[numbers])
                heads = heads.take(bounded(heads, request, wanted))
                yield from record_rows(buffer, heads, wanted, queues, columns)
        except FileNotFoundError:
            yield from self._archived_since(begin, end, request, wanted, names)

    def _last_of(self, key: QueueKey) -> int:
        """Returns the offset above which a queue's messages are read from the log."""
        if self._request.wanted.topics is None and is_system_topic(key[0]):
            return OFFSET_MAX
        return self._last.get(key, -1)

    def _archived_since(
        self, begin: int, end: int, request: Request, wanted: RowFilter, names: Sequence[str]
    ) -> Iterator[Any]:
        """Yields messages in [begin, end) that the lake got after the query was planned."""
        manifest = manifest_of(self._target)
        last = last_offsets(manifest, wanted.topics)
        for part in parts_for(manifest, wanted):
            if max(begin, part.begin) >= min(end, part.end):
                continue
            part = part._replace(begin=max(begin, part.begin), end=min(end, part.end))
            yield from lake_rows(self._target, part, request, wanted, names, last, self._last)


def _span(task: LogTask) -> tuple[int, int]:
    """Returns the physical offsets [begin, end) of a task's records."""
    if isinstance(task, Stretch):
        return task.part.begin, task.part.end
    if isinstance(task, RecordPlaces):
        return min(task.places, default=0), max(task.places, default=-1) + 1
    return task.begin, task.end
