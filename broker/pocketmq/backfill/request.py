"""Parses and checks the options of the data source `pocketmq`.

    path             the store                      topic        names, separated by commas
    table            messages, units or index       queue_id     of messages and units
    columns          names, separated by commas     begin, upto  physical offsets, upto excluded
    queue_begin, queue_upto   queue offsets of messages and units, queue_upto excluded
    on_damage        fail or skip                   since, until store times, until excluded
    schema           kafka: columns are named as those of Spark's Kafka source
    keys             keys or unique keys of messages, separated by commas
    find_by          queues (default) or log  check_crc   whether to check the CRCs of bodies
    workers          number of concurrent tasks for which the log is cut
    piece_size       bytes at which files of the log are cut
    maxHashSlotNum, maxIndexNum   geometry of index files, unless the files' length shows it

Names of options are case-insensitive, as in Spark.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pocketmq.backfill.arrow_views import ENTRY_SCHEMA, UNIT_SCHEMA
from pocketmq.backfill.places import refuse_address
from pocketmq.backfill.row_filter import RowFilter, time_from_text
from pocketmq.format.arrow_messages import MOMENT_TYPE, moment_names, schema_of
from pocketmq.format.index_layout import IndexGeometry
from pocketmq.format.message_columns import MESSAGE_COLUMNS
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from pocketmq.model.errors import NotAStore

MESSAGES: Final = "messages"
UNITS: Final = "units"
INDEX: Final = "index"
FAIL: Final = "fail"
"""Damage raises an error."""
SKIP: Final = "skip"
"""Damage becomes a row: its text is in the column `damage`, all other columns are null."""
ON_DAMAGE: Final = (FAIL, SKIP)
DAMAGE: Final = "damage"
"""Column that describes damage if damage becomes rows (`SKIP`)."""


@dataclass(frozen=True, slots=True)
class Table:
    """One of the tables of a store.

    directories   directories of the store; at least one of them must exist
    schema        columns that the files contain
    moments       names of timestamp columns, each with the column of ms from which it is computed
    numbers       columns by which rows can be selected
    time          column of the store time; "" if the table has none
    has_queues    whether rows belong to a topic and a queue
    shown         schema of the columns that can be read; None: those of `schema` and `moments`
    """

    directories: tuple[str, ...]
    schema: Any
    moments: Mapping[str, str]
    numbers: tuple[str, ...]
    time: str
    has_queues: bool
    shown: Any = None

    @property
    def full_schema(self) -> Any:
        """The schema of all columns."""
        if self.shown is not None:
            return self.shown
        moments = [pa.field(name, MOMENT_TYPE) for name in self.moments]
        return pa.schema([*self.schema, *moments])


_MESSAGE_SCHEMA: Final = schema_of(MESSAGE_COLUMNS)
TABLES: Final[Mapping[str, Table]] = {
    MESSAGES: Table(
        (COMMIT_LOG_DIRECTORY,), _MESSAGE_SCHEMA, moment_names(_MESSAGE_SCHEMA),
        ("queue_id", "queue_offset", "physical_offset", "store_timestamp_ms"),
        "store_timestamp_ms", True,
    ),
    UNITS: Table(
        (CONSUME_QUEUE_DIRECTORY, COMMIT_LOG_DIRECTORY), UNIT_SCHEMA, {},
        ("queue_id", "queue_offset", "physical_offset"), "", True,
    ),
    INDEX: Table(
        (INDEX_DIRECTORY, COMMIT_LOG_DIRECTORY), ENTRY_SCHEMA, moment_names(ENTRY_SCHEMA),
        ("physical_offset", "store_time_ms"), "store_time_ms", False,
    ),
}  # fmt: skip
QUEUES: Final = "queues"
FIND_BY: Final = (QUEUES, "log")
KAFKA: Final = "kafka"
SCHEMAS: Final = ("pocketmq", KAFKA)
KAFKA_TABLE: Final = replace(
    TABLES[MESSAGES],
    moments={
        "key": "keys", "value": "body", "partition": "queue_id", "offset": "queue_offset",
        "timestamp": "store_timestamp_ms", "headers": "properties",
    },
    shown=pa.schema(
        [
            ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()),
            ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", MOMENT_TYPE),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    ),
)  # fmt: skip
"""Messages with the column names of Spark's Kafka source."""
OF_SPARK: Final = ("owner", "provider", "external", "is_managed_location", "location")
"""Options that Spark adds for tables of its catalog. It also adds a copy of each option, with the
name `option.NAME`."""
_SCHEME: Final = "file:"
OPTIONS: Final = (
    "path", "table", "schema", "keys", "find_by", "columns",
    "topic", "queue_id", "queue_begin", "queue_upto",
    "begin", "upto", "since", "until",
    "on_damage", "check_crc", "workers", "piece_size", "maxHashSlotNum", "maxIndexNum", "ranges",
)  # fmt: skip
"""All options; the driver adds `ranges`, the planned ranges of the log."""


@dataclass(frozen=True, slots=True)
class Request:
    """Parsed options; `kind` is the table's name, `names` are the columns in order.

    is_open   whether a process on this machine has the store open
    """

    store: Path
    table: Table
    kind: str
    names: tuple[str, ...]
    wanted: RowFilter
    on_damage: str
    check_crc: bool
    workers: int
    piece_size: int
    geometry: IndexGeometry | None
    ranges: Sequence[Any] | None
    by_queues: bool
    is_open: bool = False

    @property
    def schema(self) -> Any:
        """The `pyarrow.Schema` of the rows."""
        full = self.table.full_schema
        chosen = [full.field(name) for name in self.names]
        return pa.schema(chosen + [pa.field(DAMAGE, pa.string())] * (self.on_damage == SKIP))


def store_at(path: "str | Path", kind: str) -> Path:
    """Returns the directory of a store that may contain the table `kind`.

    Errors   NotAStore; PlaceUnusable: a URL
    """
    path = str(path).removeprefix(_SCHEME)
    refuse_address(path)
    store = Path(path).expanduser().resolve()
    if not store.is_dir():
        raise NotAStore(path=str(store), why="there is no such directory")
    names = TABLES[kind].directories
    if not any((store / name).is_dir() for name in names):
        raise NotAStore(path=str(store), why=f"it has no {'/ and no '.join(names)}/")
    return store


def without_sparks_own(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options without those that Spark adds for tables of its catalog."""
    return {
        name: text
        for name, text in options.items()
        if name.lower() not in OF_SPARK and not name.lower().startswith("option.")
    }


def request_from(options: Mapping[str, str], *, is_local: bool = True) -> Request:
    """Parses the options.

    is_local   whether the rows are in a directory; if not, there is no path
    Errors     ValueError: an unknown option, or an invalid value; NotAStore; PlaceUnusable: a URL
    """
    known = {name.lower(): name for name in OPTIONS}
    options = without_sparks_own(options)
    unknown = [name for name in options if name.lower() not in known]
    if unknown:
        raise ValueError(f"there is no option {unknown[0]!r}; there are {', '.join(OPTIONS[:-1])}")
    given = {known[name.lower()]: text for name, text in options.items()}
    kind = one_of("table", given.get("table", MESSAGES), tuple(TABLES))
    if is_local and not given.get("path"):
        raise ValueError(
            "no store is named: .load('/path/of/the/store'), or in SQL CREATE TEMPORARY VIEW v "
            "USING pocketmq OPTIONS (path '/path/of/the/store'); of CREATE TABLE Spark passes none"
        )
    table = TABLES[kind]
    if one_of("schema", given.get("schema", SCHEMAS[0]), SCHEMAS) == KAFKA:
        if kind != MESSAGES:
            raise ValueError(f"schema {KAFKA} applies to {MESSAGES}, not to {kind}")
        table = KAFKA_TABLE
    ranges = given.get("ranges")
    return Request(
        store=store_at(given["path"], kind) if is_local else Path(),
        table=table,
        kind=kind,
        names=_column_names(kind, table, given.get("columns", "")),
        wanted=_wanted(kind, table, given),
        on_damage=one_of("on_damage", given.get("on_damage", FAIL), ON_DAMAGE),
        check_crc=one_of("check_crc", given.get("check_crc", "false"), TRUTHS) == "true",
        workers=max(number_in(given, "workers", os.cpu_count() or 1), 1),
        piece_size=number_in(given, "piece_size", 0),
        geometry=_geometry(given),
        ranges=None if ranges is None else json.loads(ranges),
        by_queues=one_of("find_by", given.get("find_by", QUEUES), FIND_BY) == QUEUES,
    )


TRUTHS: Final = ("true", "false")
_OFFSETS: Final = (
    ("queue_offset", "queue_begin", "queue_upto"),
    ("physical_offset", "begin", "upto"),
)
"""(Column, option of the first value, option of the excluded end)."""


def _column_names(kind: str, table: Table, text: str) -> tuple[str, ...]:
    there = table.full_schema.names
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in there:
            raise ValueError(f"{kind} have no column {name!r}; there are {', '.join(there)}")
    return names or tuple(there)


def _wanted(kind: str, table: Table, given: Mapping[str, str]) -> RowFilter:
    lacking = () if table.has_queues else ("topic", "queue_id", "queue_begin", "queue_upto")
    for name in (*lacking, *(() if table.time else ("since", "until"))):
        if name in given:
            raise ValueError(f"{kind} cannot be selected by {name}")
    wanted = RowFilter()
    topics = [name.strip() for name in given.get("topic", "").split(",") if name.strip()]
    if topics:
        wanted = wanted.of_topics(topics)
    keys = [key.strip() for key in given.get("keys", "").split(",") if key.strip()]
    if keys:
        if kind != MESSAGES:
            raise ValueError(f"{kind} cannot be selected by keys")
        wanted = replace(wanted, keys=frozenset(keys))
    if "queue_id" in given:
        queue_id = number_in(given, "queue_id", 0)
        wanted = wanted.within("queue_id", queue_id, queue_id)
    for name, begin, upto in _OFFSETS:
        if begin in given:
            wanted = wanted.within(name, number_in(given, begin, 0))
        if upto in given:
            wanted = wanted.within(name, largest=number_in(given, upto, 0) - 1)
    if "since" in given:
        wanted = wanted.within(table.time, time_in(given, "since"))
    if "until" in given:
        wanted = wanted.within(table.time, largest=time_in(given, "until") - 1)
    return wanted


def _geometry(given: Mapping[str, str]) -> IndexGeometry | None:
    numbers = [number_in(given, name, 0) for name in ("maxHashSlotNum", "maxIndexNum")]
    if any(numbers) and not all(number > 0 for number in numbers):
        raise ValueError("maxHashSlotNum and maxIndexNum are given both or not at all, above 0")
    return IndexGeometry(*numbers) if all(numbers) else None


def one_of(name: str, text: str, values: Sequence[str]) -> str:
    """Returns the value of an option in lower case.

    Errors   ValueError: it is not one of the values
    """
    if text.lower() not in values:
        raise ValueError(f"{name} is {text!r}, not one of {', '.join(values)}")
    return text.lower()


def number_in(given: Mapping[str, str], name: str, otherwise: int) -> int:
    """Returns the whole number of an option, or a default.

    Errors   ValueError
    """
    try:
        return int(given.get(name, otherwise))
    except ValueError as error:
        raise ValueError(f"{name} is {given[name]!r}, which is no whole number") from error


def time_in(given: Mapping[str, str], name: str) -> int:
    """Returns the time (ms) of an option.

    Errors   ValueError
    """
    try:
        return time_from_text(given[name])
    except ValueError as error:
        raise ValueError(f"{name} is no time: {error}") from error
