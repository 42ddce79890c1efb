"""Turns rows of a sink into messages; plain functions, without Spark or a broker.

topic           string; the option `topic` applies if the column is missing or null
body, or value  binary or string
keys            string, or array of strings
key             string or binary; only one of `keys` and `key` is allowed
tag, message_group, message_id   string
properties      map of strings; `headers`, those of Spark's Kafka source, instead
queue_id, or partition, delay_level, priority   integer
delay_ms, deliver_at_ms   integer; deliver_at   timestamp
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from pocketmq.backfill.request import MESSAGES
from pocketmq.client import Message
from pocketmq.model import errors
from pocketmq.model.names import is_reserved

SINK_OPTIONS: Final = ("endpoint", "access_key", "secret_key", "topic")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_CHECKED_BY: Final[Mapping[str, tuple[type[errors.BrokerError], ...]]] = {
    "topic": (
        errors.IllegalTopic, errors.SystemTopic, errors.TopicNotFound, errors.TopicNotWritable,
        errors.KindConflict, errors.AccessDenied,
    ),
    "body": (errors.BodyEmpty, errors.BodyTooLarge, errors.RecordTooLarge),
    "keys": (errors.IllegalKey,),
    "tag": (errors.IllegalTag,),
    "properties": (
        errors.IllegalProperty, errors.PropertiesTooLarge, errors.TooManyProperties,
    ),
    "message_group": (errors.IllegalMessageGroup, errors.AmbiguousKind),
    "message_id": (errors.IllegalMessageId,),
    "queue_id": (errors.QueueOutOfRange,),
    "deliver_at": (errors.IllegalDeliveryTime,),
}  # fmt: skip
"""Errors of a broker, by the column whose value it refuses."""


class RowRefused(Exception):
    """A row that cannot be a message, or whose message the broker refuses."""


@dataclass(frozen=True, slots=True)
class SinkRequest:
    """Parsed options of a sink; `topic` is for rows without a topic."""

    endpoint: str
    access_key: str
    secret_key: str
    topic: str


class SinkTask(NamedTuple):
    """A task of a sink: the seed of its message ids, and its description for errors."""

    seed: str
    place: str


def sink_request_from(options: Mapping[str, str]) -> SinkRequest:
    """Parses the options of a sink.

    Errors   ValueError: an unknown option, or no endpoint
    """
    known = {name.lower(): name for name in SINK_OPTIONS}
    for name in options:
        if name.lower() == "path":
            raise ValueError("messages are written to a broker (option endpoint), not to a path")
        if name.lower() not in (*known, "checkpointlocation"):
            raise ValueError(f"there is no option {name!r}; there are {', '.join(SINK_OPTIONS)}")
    given = {known[name.lower()]: text for name, text in options.items() if name.lower() in known}
    if not given.get("endpoint"):
        raise ValueError("no broker is named: .option('endpoint', 'host:port')")
    return SinkRequest(**{name: given.get(name, "") for name in SINK_OPTIONS})


# -- columns ---------------------------------------------------------------------------------------
def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else bytes(value).decode()


def _texts(value: Any) -> Sequence[str]:
    if isinstance(value, list):
        if None in value:
            raise ValueError("a key is null")
        return value
    return [_text(value)]


def _properties(headers: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns headers as properties, without those that belong to a broker.

    So rows that were read with `schema=kafka`, whose headers are all properties, can be written.

    Errors   ValueError: a name or value is null, a value is no UTF-8, or two have the same name
    """
    found: dict[str, str] = {}
    for header in headers:
        name, value = header["key"], header["value"]
        if name is None or value is None:
            raise ValueError("a header's key or value is null")
        if name in found:
            raise ValueError(f"two headers have the key {name!r}, properties have one each")
        if not is_reserved(name):
            found[name] = bytes(value).decode()
    return found


def _time_ms(value: datetime) -> int:
    return (value.astimezone(UTC) - _EPOCH) // _MILLISECOND


def _same(value: Any) -> Any:
    return value


_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
COLUMNS: Final[Mapping[str, tuple[str, Callable[[Any], Any], tuple[str, ...]]]] = {
    "topic": ("topic", _same, ("string",)),
    "body": ("body", _bytes, ("binary", "string")),
    "value": ("body", _bytes, ("binary", "string")),
    "keys": ("keys", _texts, ("array<string>", "string")),
    "key": ("keys", _texts, ("string", "binary")),
    "tag": ("tag", _same, ("string",)),
    "message_group": ("message_group", _same, ("string",)),
    "message_id": ("message_id", _same, ("string",)),
    "properties": ("properties", dict, ("map<string,string>",)),
    "headers": ("properties", _properties, ("array<struct<key:string,value:binary>>",)),
    "queue_id": ("queue_id", _same, _INTEGERS),
    "partition": ("queue_id", _same, _INTEGERS),
    "delay_level": ("delay_level", _same, _INTEGERS),
    "priority": ("priority", _same, _INTEGERS),
    "delay_ms": ("delay_ms", _same, _INTEGERS),
    "deliver_at_ms": ("deliver_at_ms", _same, _INTEGERS),
    "deliver_at": ("deliver_at_ms", _time_ms, ("timestamp",)),
}
"""Column -> (field of Message, conversion, types)."""


def check_columns(types: Mapping[str, str], topic: str) -> None:
    """Checks the columns of a sink, given as name -> type.

    Errors   ValueError
    """
    for name, found in types.items():
        if name not in COLUMNS:
            raise ValueError(f"{MESSAGES} to write have no column {name!r}; select from {_names()}")
        if found not in COLUMNS[name][2]:
            raise ValueError(f"column {name} is {found}, not {' or '.join(COLUMNS[name][2])}")
    fields = [COLUMNS[name][0] for name in types]
    for field in fields:
        if fields.count(field) > 1:
            both = [name for name in types if COLUMNS[name][0] == field]
            raise ValueError(f"columns {' and '.join(both)} exclude each other")
    if "body" not in fields:
        raise ValueError("there is no column body (or value)")
    if "topic" not in fields and not topic:
        raise ValueError("there is neither a column topic nor the option topic")


def _names() -> str:
    return ", ".join(COLUMNS)


def message_id(seed: str, number: int) -> str:
    """Returns the id of a row's message: the same when its task is repeated."""
    return blake2b(f"{seed}/{number}".encode(), digest_size=16).hexdigest().upper()


def messages_from(
    columns: Mapping[str, Sequence[Any]], topic: str, task: SinkTask, first: int
) -> Iterator[tuple[int, Message]]:
    """Yields (row number, message) for rows that are given as columns.

    topic    topic for rows without one
    first    number of the first row
    Errors   RowRefused, with column and row
    """
    fields = [(name, *COLUMNS[name][:2]) for name in columns]
    for number, values in enumerate(zip(*columns.values(), strict=True), first):
        given: dict[str, Any] = {"topic": topic, "body": None}
        for (name, field, convert), value in zip(fields, values, strict=True):
            if value is None:
                continue
            try:
                given[field] = convert(value)
            except (ValueError, TypeError, OverflowError) as error:
                raise RowRefused(f"{task.place}, row {number}, column {name}: {error}") from error
        if given["body"] is None or not given["topic"]:
            lacking = "body" if given["body"] is None else "topic"
            raise RowRefused(f"{task.place}, row {number}, column {lacking} is null")
        if not given.get("message_id"):
            given["message_id"] = message_id(task.seed, number)
        yield number, Message(**given)


def column_of(error: BaseException) -> str:
    """Returns the column whose value a broker's error concerns; "" if it concerns no column."""
    found = (name for name, kinds in _CHECKED_BY.items() if isinstance(error, kinds))
    return next(found, "")
