"""Streams a broker: each batch is a range of offsets of each queue, kept in the checkpoint."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pocketmq.backfill.request import Request
from pocketmq.backfill.row_filter import RowFilter
from pocketmq.backfill.source import StoreReader, record_rows
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.message_columns import columns_of
from pocketmq.spark.broker_queues import BrokerQueues
from pocketmq.spark.queue_offsets import (
    Held,
    Offsets,
    QueueSpan,
    check_losses,
    count_from,
    first_offsets,
    later_offsets,
    shared,
    spans_between,
)
from pocketmq.spark.stream_request import (
    BatchMinimum,
    StreamRequest,
    document_of,
    offsets_from,
)


class _Rows:
    """Makes rows of spans, and plans the first ones."""

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self.request = request
        self.queues = BrokerQueues(request)
        self._reader = StoreReader(request.rows, schema)

    def first(self, held: Held) -> Offsets:
        """Returns the offsets at which a read without a checkpoint begins."""
        time_ms = self.request.starting_ms
        if time_ms is None:
            return first_offsets(self.request.starting, held)
        find = self.queues.offset_at
        return {key: find(key, time_ms) if one else one.stop for key, one in held.items()}

    def partitions(self, spans: Sequence[QueueSpan]) -> list[InputPartition]:
        """Returns the partitions of a batch."""
        return [InputPartition(lot) for lot in shared(spans, self.request.rows.workers)]

    def read(self, spans: Sequence[QueueSpan]) -> Iterator[Any]:
        """Yields the rows of spans as `pyarrow.RecordBatch`es."""
        try:
            yield from self._reader.rows_of(spans, self.request.rows.wanted, self._batches)
        finally:
            self.queues.close()

    def _batches(
        self, span: QueueSpan, request: Request, wanted: RowFilter, names: Sequence[str]
    ) -> Iterator[Any]:
        columns, table = columns_of(names), QueueTable()
        for buffer, heads in self.queues.records(span):
            yield from record_rows(buffer, heads, wanted, table, columns)


class BrokerReader(DataSourceReader):
    """Reads the messages that a broker has when the query is planned."""

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self._rows = _Rows(request, schema)

    def partitions(self) -> list[InputPartition]:
        """Returns the partitions of the messages that are visible now.

        Errors   ClientError, ValueError
        """
        held = self._rows.queues.held()
        end = {key: one.stop for key, one in held.items()}
        return self._rows.partitions(spans_between(self._rows.first(held), end, held))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows of a partition as `pyarrow.RecordBatch`es.

        Errors   ClientError, MessagesLost
        """
        yield from self._rows.read(partition.value or ())


class BrokerStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a broker batch by batch."""

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self._request = request
        self._rows = _Rows(request, schema)
        self._minimum = BatchMinimum(request.count_min, request.delay_ms)
        self._target: Held | None = None
        self._last: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Returns the offset of a stream without a checkpoint.

        Errors   ClientError, ValueError
        """
        return document_of(self._rows.first(self._rows.queues.held()))

    def latestOffset(  # noqa: N802 - the name is Spark's
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        """Returns the end of the next batch; `start` if there is none yet.

        Errors   ClientError, MessagesLost
        """
        begin, held = offsets_from(start), self._held()
        self._check(begin, held)
        self._last = {**begin, **{key: one.stop for key, one in held.items()}}
        if self._target is None and not self._minimum.is_due(count_from(begin, held)):
            return start
        count_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = later_offsets(begin, held, count_max)
        assert end.keys() >= begin.keys(), "a batch forgets queues"
        return document_of(end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """Returns the limit of a batch."""
        count_max = self._request.count_max
        return ReadAllAvailable() if count_max is None else ReadMaxRows(count_max)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - the name is Spark's
        """Returns the ends of the queues, for the progress that Spark reports."""
        return None if self._last is None else document_of(self._last)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """Limits the stream to the messages that the broker has now.

        Errors   ClientError
        """
        self._target = self._rows.queues.held()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the partitions of a batch.

        Errors   ClientError, MessagesLost
        """
        held, begin = self._rows.queues.held(), offsets_from(start)
        self._check(begin, held)
        return self._rows.partitions(spans_between(begin, offsets_from(end), held))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows of a partition as `pyarrow.RecordBatch`es.

        Errors   ClientError, MessagesLost
        """
        yield from self._rows.read(partition.value)

    def stop(self) -> None:
        """Ends the connection."""
        self._rows.queues.close()

    def _held(self) -> Held:
        """Returns the readable offsets; with Trigger.AvailableNow, those at the stream's start."""
        if self._target is None:
            return self._rows.queues.held()
        return self._target

    def _check(self, begin: Offsets, held: Held) -> None:
        if self._request.fails_on_loss:
            check_losses(begin, held)
