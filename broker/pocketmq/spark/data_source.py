"""The data source `pocketmq`: reads and streams stores and brokers, writes to brokers."""

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pocketmq.backfill.request import request_from
from pocketmq.backfill.source import StoreReader, StoreSource
from pocketmq.spark.log_stream import LogStream
from pocketmq.spark.queue_stream import BrokerReader, BrokerStream
from pocketmq.spark.sink import BatchSink, StreamSink
from pocketmq.spark.stream_request import parted_options, stream_request_from


class PocketSource(StoreSource):
    """Messages of stores and brokers, selected by options; also units and entries of stores."""

    def schema(self) -> StructType:
        """Returns the schema of the rows.

        Errors   ValueError, NotAStore
        """
        streams, others = parted_options(self.options)
        request = request_from(others, is_local="endpoint" not in streams)
        return from_arrow_schema(request.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a batch.

        Errors   ValueError, NotAStore
        """
        streams, others = parted_options(self.options)
        if "endpoint" in streams:
            return BrokerReader(stream_request_from(self.options), schema)
        if streams:
            raise ValueError(f"{next(iter(streams))} is an option of streams (readStream)")
        return StoreReader(request_from(others), schema)

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
