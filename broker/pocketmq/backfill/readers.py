"""A store's bytes as Spark DataFrames: messages, consume units, index entries.

    register(session)                     spark.read.format("pocketmq") from here on
    read_messages(session, store)         one row a record of the log, in any order
    read_consume_queue(session, store)    one row a unit, pre-blank ones left out
    read_index(session, store)            one row an entry

Partitions are ranges of the log, files of queues, index files. Rows are made by column in the
workers and go to Spark as Arrow batches; name the columns you want, as Spark does not pass them on.
Options for topic, queue, offsets and store time leave files and rows out.
Damage ends the reading with the error that `store verify` reports, or, with on_damage="skip", is a
row of its own whose column `damage` describes it and whose other columns are null.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pocketmq.backfill.request import INDEX, MESSAGES, UNITS, request_from
from pocketmq.backfill.session import equip, spark_mapper, worker_count
from pocketmq.backfill.source import StoreSource, planned_log
from pocketmq.format.index_layout import IndexGeometry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pocketmq.rebuild.plan import Mapper


def register(session: "SparkSession") -> None:
    """Registers the data source: `session.read.format("pocketmq").load(path)` then reads stores.

    Works also for a session that `open_session` did not make: its workers get this Python and this
    package.
    """
    equip(session)
    session.dataSource.register(StoreSource)


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

    columns     to read; all when none is named
    upto        records that start below this physical offset; None: all
    piece_size  cut files at about this many bytes; 0: only where there are few files
    check_crc   a body that does not fit its CRC is damage, too
    Errors      ValueError, NotAStore, WrongFileSize, StoreGap now; Corruption, inside Spark's own
                error, when rows are read
    Cost        0.1 to 1 µs a record and column, apart from Spark's own work
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

    topic, queue_id   only this topic's, only this queue's; all where not given
    Errors            ValueError, NotAStore now; Corruption, inside Spark's own error, when rows are
                      read
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

    geometry   as the store was made with, which `pocketmq store info` reports; None: as the
              files' lengths show it, where they are well known
    Errors     as `read_consume_queue`
    """
    options = {"on_damage": on_damage}
    if geometry is not None:
        options |= {"maxHashSlotNum": str(geometry[0]), "maxIndexNum": str(geometry[1])}
    return _load(session, INDEX, store, options)


def _load(
    session: "SparkSession", kind: str, store: "str | Path", options: dict[str, str]
) -> "DataFrame":
    """Loads a table; reports wrong options or a wrong store before Spark is asked."""
    register(session)
    options |= {"path": str(store), "table": kind, "workers": str(worker_count(session))}
    options = plan(options, spark_mapper(session))
    return session.read.format(StoreSource.name()).options(**options).load()


def plan(options: dict[str, str], mapper: "Mapper") -> dict[str, str]:
    """Returns options that were checked, for messages with the ranges of the log.

    Errors   ValueError, NotAStore, WrongFileSize, StoreGap
    """
    request = request_from(options)
    checked = options | {"path": str(request.store)}
    if request.kind == MESSAGES:
        stretches = planned_log(request, mapper)
        checked["ranges"] = json.dumps([asdict(stretch) for stretch in stretches])
    return checked
