"""A store's bytes as Spark DataFrames: messages, consume units, index entries.

    read_messages(session, store)         one row a record of the log, in any order
    read_consume_queue(session, store)    one row a unit, pre-blank ones left out
    read_index(session, store, geometry)  one row an entry

Partitions are ranges of the log, files of queues, index files. Rows are made by column in the
workers and go to Spark as Arrow batches; name the columns that are wanted, as Spark does not tell.
Damage ends the reading with the error `store verify` tells, or, with on_damage="skip", is a row of
its own whose column `damage` tells it and whose other columns are null.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.backfill.arrow_views import find_index_files, find_queue_files
from broker.backfill.log_walk import survey
from broker.backfill.session import spark_mapper, worker_count
from broker.backfill.source import ENTRIES, FAIL, MESSAGES, ON_DAMAGE, UNITS, StoreSource
from broker.format.index_layout import IndexGeometry
from broker.format.message_columns import columns_of
from broker.rebuild.log_files import find_log_files
from broker.rebuild.plan import plan_ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS_PER_WORKER: Final = 4
"""Into how many partitions many small files are put for each task that runs at once."""


def read_messages(
    session: "SparkSession",
    store: Path,
    *,
    columns: Sequence[str] = (),
    upto: int | None = None,
    piece_size: int = 0,
    check_crc: bool = False,
    on_damage: str = FAIL,
) -> "DataFrame":
    """Return the messages of a store's log, with the columns of `source.spark_schema`.

    columns     what to read; all when none is named
    upto        records that start below this physical offset; None: all
    piece_size  cut files at about this many bytes; 0: only where there are few files
    check_crc   a body that does not fit its CRC is damage, too
    Errors      ValueError, NotAStore, WrongFileSize, StoreGap now; Corruption, inside Spark's own
                error, when rows are read
    Cost        0.1 to 1 µs a record and column, and what Spark does with the rows
    """
    names = [column.name for column in columns_of(columns)]
    files = find_log_files(store.resolve())
    end = files[-1].end if files else 0
    ranges = plan_ranges(
        files, end if upto is None else min(upto, end), spark_mapper(session),
        workers=worker_count(session), piece_size=piece_size,
    )  # fmt: skip
    options = {
        "columns": json.dumps(names),
        "check_crc": json.dumps(check_crc),
        **_options([[asdict(stretch)] for stretch in survey(ranges)], on_damage),
    }
    return _load(session, MESSAGES, options)


def read_consume_queue(
    session: "SparkSession",
    store: Path,
    *,
    topic: str = "",
    queue_id: int | None = None,
    on_damage: str = FAIL,
) -> "DataFrame":
    """Return the units of a store's queues, with the columns of `source.spark_schema`.

    topic, queue_id   only this topic's, only this queue's; all where not given
    """
    files = [
        file
        for file in find_queue_files(store.resolve())
        if topic in ("", file.topic) and queue_id in (None, file.queue_id)
    ]
    tasks = [asdict(file) for file in files]
    return _load(session, UNITS, _options(_shared(session, tasks), on_damage))


def read_index(
    session: "SparkSession", store: Path, geometry: IndexGeometry, *, on_damage: str = FAIL
) -> "DataFrame":
    """Return the entries of a store's index files, with the columns of `source.spark_schema`.

    geometry   as the store was made with; `pocketmq store info` tells it
    """
    tasks = _shared(session, find_index_files(store.resolve()))
    options = {"geometry": json.dumps(geometry), **_options(tasks, on_damage)}
    return _load(session, ENTRIES, options)


def _shared(session: "SparkSession", tasks: Sequence[Any]) -> list[Sequence[Any]]:
    """Return tasks in a few lots, neighbours together."""
    count = min(len(tasks), PARTITIONS_PER_WORKER * worker_count(session))
    borders = [len(tasks) * number // count for number in range(count + 1)] if count else [0]
    return [tasks[begin:end] for begin, end in pairwise(borders)]


def _options(partitions: Sequence[Sequence[Any]], on_damage: str) -> dict[str, str]:
    if on_damage not in ON_DAMAGE:
        raise ValueError(f"on_damage is {on_damage!r}, not one of {', '.join(ON_DAMAGE)}")
    return {"partitions": json.dumps(partitions), "on_damage": on_damage}


def _load(session: "SparkSession", kind: str, options: dict[str, str]) -> "DataFrame":
    session.dataSource.register(StoreSource)
    return session.read.format(StoreSource.name()).options(kind=kind, **options).load()
