"""Reads a store as Spark DataFrames: messages, consume units, index entries.

    register(session)                     enables session.read.format("pocketmq")
    read_messages(session, store)         one row for each record of the log, in any order
    read_consume_queue(session, store)    one row for each unit that is not pre-blank
    read_index(session, store)            one row for each entry

A partition is a range of the log, or some queue or index files. Workers build rows column by column
and pass them to Spark as Arrow batches. The option `columns` names the columns to build, as Spark
does not report to a data source which columns a query selects. Options for topic, queue, offsets
and store time skip files and rows. Damage raises Corruption. With on_damage="skip" it becomes a row
instead: the column `damage` describes the damage, and all other columns are null.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pocketmq.backfill.message_plan import planned_log
from pocketmq.backfill.request import INDEX, MESSAGES, UNITS, request_from
from pocketmq.backfill.session import equip, has_context, spark_mapper, worker_count
from pocketmq.format.index_layout import IndexGeometry
from pocketmq.spark.data_source import PocketSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pocketmq.rebuild.plan import Mapper


def register(session: "SparkSession") -> None:
    """Registers the data source: `session.read.format("pocketmq").load(path)` then reads stores.

    Any session can be used, not only one of `open_session`: its workers get this Python and this
    package. The call is not needed if Spark's own Python has this package: Spark then finds the
    module `pyspark_pocketmq`.
    """
    equip(session)
    session.dataSource.register(PocketSource)


def read_messages(
    session: "SparkSession",
    store: "str | Path",
    *,
    columns: Sequence[str] = (),
    upto: int | None = None,
    piece_size: int = 0,
    check_crc: bool = False,
    on_damage: str = "fail",
) -> "DataFrame":
    """Returns the messages of a store's log.

    columns     names of the columns to read; empty: all
    upto        physical offset; only records that start below it are read; None: all records
    piece_size  approximate bytes of a piece of a file; 0: files are cut only if there are few
    check_crc   whether a body with a wrong CRC counts as damage
    Errors      ValueError, NotAStore, WrongFileSize, StoreGap at the call; Corruption, in Spark's
                error, when rows are read
    Cost        0.1 to 1 µs a record and column, without Spark's work
    """
    options = {
        "columns": ",".join(columns),
        "piece_size": str(piece_size),
        "check_crc": json.dumps(check_crc),
        "on_damage": on_damage,
    }
    if upto is not None:
        options["upto"] = str(upto)
    return _load(session, MESSAGES, store, options)


def read_consume_queue(
    session: "SparkSession",
    store: "str | Path",
    *,
    topic: str = "",
    queue_id: int | None = None,
    on_damage: str = "fail",
) -> "DataFrame":
    """Returns the units of a store's queues.

    topic      names, separated by commas; "": all topics
    queue_id   None: all queues
    Errors     ValueError, NotAStore at once; Corruption, inside Spark's error, when rows are read
    """
    options = {"topic": topic, "on_damage": on_damage}
    if queue_id is not None:
        options["queue_id"] = str(queue_id)
    return _load(session, UNITS, store, options)


def read_index(
    session: "SparkSession",
    store: "str | Path",
    geometry: IndexGeometry | None = None,
    *,
    on_damage: str = "fail",
) -> "DataFrame":
    """Returns the entries of a store's index files.

    geometry   slots and entries of the store's index files, as `pocketmq store info` reports them;
               None: the files' lengths show them, if they are defaults of RocketMQ or PocketMQ
    Errors     ValueError, NotAStore at once; Corruption, inside Spark's error, when rows are read
    """
    options = {"on_damage": on_damage}
    if geometry is not None:
        options |= {"maxHashSlotNum": str(geometry[0]), "maxIndexNum": str(geometry[1])}
    return _load(session, INDEX, store, options)


def _load(
    session: "SparkSession", kind: str, store: "str | Path", options: dict[str, str]
) -> "DataFrame":
    register(session)
    options |= {"path": str(store), "table": kind}
    if has_context(session):  # The server of Spark Connect has the store, so it makes the plan.
        options |= {"workers": str(worker_count(session))}
        options = plan(options, spark_mapper(session))
    return session.read.format(PocketSource.name()).options(**options).load()


def plan(options: dict[str, str], mapper: "Mapper") -> dict[str, str]:
    """Checks options and returns them; for messages it adds the ranges of the log.

    Errors   ValueError, NotAStore, WrongFileSize, StoreGap
    """
    request = request_from(options)
    checked = options | {"path": str(request.store)}
    if request.kind == MESSAGES:
        stretches = planned_log(request, mapper)
        checked["ranges"] = json.dumps([asdict(stretch) for stretch in stretches])
    return checked
