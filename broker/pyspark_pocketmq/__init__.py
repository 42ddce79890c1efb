"""Registers the data source `pocketmq` with Spark, without a call of `register`.

Spark 4 imports the packages of its driver's Python whose names begin with `pyspark_`, and registers
their `DefaultSource`. Without the extra `spark` there is none, and Spark passes over this package.
"""

from contextlib import suppress

with suppress(ImportError):
    from pocketmq.spark.data_source import PocketSource as DefaultSource

    __all__ = ["DefaultSource"]
