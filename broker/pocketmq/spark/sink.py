"""Writes rows as messages: `df.write` and `df.writeStream.format("pocketmq")`.

    rows ──► messages ──► by topic, group, queue, kind ──► batches ──► broker
             (ids)        order of each group is kept      <= 1,024     each all or nothing

A task that is repeated sends the same batches with the same message ids. A broker with a
deduplication window answers a repeated batch without storing it again. Otherwise each message is
stored at least once, and consumers recognise a repeated one by its id.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pocketmq.spark.message_rows import SinkTask, check_columns, messages_from, sink_request_from
from pocketmq.spark.sending import BatchSender

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
RETRY_MS: Final = 30_000


@dataclass
class SentCount(WriterCommitMessage):
    """The number of messages that a task sent."""

    count: int


class _Sink:
    """Sends the rows of a task."""

    def __init__(self, options: Any, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ValueError("messages are only appended: .mode('append')")
        self._request = sink_request_from(options)
        types = {field.name: field.dataType.simpleString() for field in schema}
        check_columns(types, self._request.topic)
        self._run = uuid4().hex
        """Seed of ids in a batch query: one for all tasks and their repeats."""

    def write(self, iterator: Iterator[Any]) -> SentCount:
        """Sends the rows of a partition; returns when they are durable.

        Errors   RowRefused, ClientError
        """
        from pocketmq.client import Client

        task, request = self._task(), self._request
        with Client(
            request.endpoint, access_key=request.access_key, secret_key=request.secret_key,
            retry_ms=RETRY_MS,
        ) as client:  # fmt: skip
            sender, first = BatchSender(client.send_many, task.place), 0
            for batch in iterator:
                columns = {
                    name: column.to_pylist()
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                }
                for row in messages_from(columns, request.topic, task, first):
                    sender.add(*row)
                first += batch.num_rows
            sender.flush()
            assert sender.count == first, (sender.count, first)
        return SentCount(sender.count)

    def _task(self) -> SinkTask:
        context = TaskContext.get()
        if context is None:
            return SinkTask(self._run, "partition 0")
        partition = context.partitionId()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query and batch:
            seed = f"{query}/{batch}/{partition}"
            return SinkTask(seed, f"batch {batch}, partition {partition}")
        return SinkTask(f"{self._run}/{partition}", f"partition {partition}")


class BatchSink(_Sink, DataSourceArrowWriter):
    """Writes the rows of a batch query."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: messages are durable and visible when their task ends."""


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """Writes the rows of a stream's batches."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing: messages are durable and visible when their task ends."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing: sent messages stay; the repeated batch has the same message ids."""
