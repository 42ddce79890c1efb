"""The data source `pocketmq`: reads and streams stores and brokers, writes to brokers.

A DataFrame of directories is a snapshot. `load` finds the durable end of each store that a process
is writing, and every action on the DataFrame reads up to that end.
"""

from collections.abc import MutableMapping
from dataclasses import replace

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pocketmq.backfill.request import MESSAGES, Request, request_from
from pocketmq.backfill.source import StoreReader, StoreSource
from pocketmq.files.directory_lock import held_by
from pocketmq.format.names import LOCK_FILE
from pocketmq.model.message import OFFSET_MAX
from pocketmq.spark.archive_reader import ArchiveReader
from pocketmq.spark.durable_end import snapshot_end
from pocketmq.spark.log_stream import LogStream
from pocketmq.spark.queue_stream import BrokerReader, BrokerStream
from pocketmq.spark.sink import BatchSink, StreamSink
from pocketmq.spark.stores import (
    ARCHIVE,
    StoresReader,
    archive_option,
    each_store,
    has_path,
)
from pocketmq.spark.stream_request import parted_options, stream_request_from


class PocketSource(StoreSource):
    """Messages of stores and brokers, selected by options; also units and entries of stores."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._ends: dict[str, int] | None = None
        """Physical end of the snapshot, by directory; set by `schema`."""

    def schema(self) -> StructType:
        """Returns the schema of the rows.

        Effects  finds the ends of the directories; Spark calls this at `load`
        Errors   ValueError, NotAStore
        """
        streams, others = parted_options(self.options)
        target, others = archive_option(others)
        if "endpoint" in streams or (target and not has_path(others)):
            return from_arrow_schema(request_from(others, is_local=False).schema)
        requests = [request_from(one) for one in each_store(others)]
        assert requests, "no store is read"
        self._ends = {str(request.store): snapshot_end(request.store) for request in requests}
        return from_arrow_schema(requests[0].schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a batch.

        Errors   ValueError, NotAStore
        """
        streams, others = parted_options(self.options)
        if "endpoint" in streams:
            return BrokerReader(stream_request_from(self.options), schema)
        if streams:
            raise ValueError(f"{next(iter(streams))} is an option of streams (readStream)")
        target, others = archive_option(others)
        if target:
            return self._archive_reader(target, others, schema)
        readers = [
            StoreReader(self._as_loaded(request_from(one)), schema) for one in each_store(others)
        ]
        return readers[0] if len(readers) == 1 else StoresReader(readers)

    def _archive_reader(
        self, target: str, options: dict[str, str], schema: StructType
    ) -> DataSourceReader:
        stores = each_store(options)
        if len(stores) > 1:
            raise ValueError(f"option {ARCHIVE} applies to one store, not to {len(stores)}")
        has_log = has_path(options)
        request = request_from(stores[0], is_local=has_log)
        if request.kind != MESSAGES:
            raise ValueError(f"option {ARCHIVE} applies to {MESSAGES}, not to {request.kind}")
        if has_log:
            request = self._as_loaded(request)
        return ArchiveReader(target, request, schema, has_log=has_log)

    def _as_loaded(self, request: Request) -> Request:
        request = replace(request, is_open=bool(held_by(request.store / LOCK_FILE)))
        end = (self._ends or {}).get(str(request.store), OFFSET_MAX)
        if end == OFFSET_MAX:
            return request
        return replace(request, wanted=request.wanted.within("physical_offset", largest=end - 1))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Returns the reader of a stream.

        Errors   ValueError, NotAStore
        """
        request = stream_request_from(self.options)
        return BrokerStream(request, schema) if request.endpoint else LogStream(request, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Returns the writer of a batch query.

        Errors   ValueError
        """
        return BatchSink(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802 - the name is Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Returns the writer of a stream.

        Errors   ValueError
        """
        return StreamSink(self.options, schema, overwrite)
