"""The columns of a stored message, one table: name, type, and how records give it.

    record ─► decode_record ─► StoredMessage ─► `value`    one message
    chunk  ─► heads, spans ─► MessageColumns ─► `read`     some thousand at once, far quicker

Both give the same values. The names are those of the API's StoredMessage and of the command line's
JSON, so that files made anywhere can be read together; times are milliseconds since 1970. Types are
written as Arrow writes them; nothing here needs Arrow.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from broker.format.addresses import offset_message_id, text_from_host
from broker.format.columns.messages import Column, MessageColumns
from broker.model.message import DELAY, DELIVER_AT, SHARDING_KEY, StoredMessage

STRING: Final = "string"
BINARY: Final = "binary"
INT32: Final = "int32"
INT64: Final = "int64"
STRINGS: Final = "list<string>"
STRING_BY_STRING: Final = "map<string, string>"
BODY: Final = "body"

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
NUMBER_SIZE_MAX: Final = 20
"""Characters of a property that is a number; no column could hold a longer one."""


class MessageColumn(NamedTuple):
    """One column: `value` takes it from a decoded record, `read` from many records.

    A value that a message lacks is None.
    """

    name: str
    type: str
    value: Callable[[StoredMessage], Any]
    read: Callable[[MessageColumns], Column]


def columns_of(names: Sequence[str]) -> list[MessageColumn]:
    """Return the columns with these names, all of them when none is given.

    Errors   ValueError: there is no such column
    """
    unknown = [name for name in names if name not in _BY_NAME]
    if unknown:
        raise ValueError(f"messages have no column {unknown[0]!r}; there are {', '.join(_BY_NAME)}")
    return [_BY_NAME[name] for name in names] or list(MESSAGE_COLUMNS)


def _head(name: str, arrow_type: str, part: str = "") -> MessageColumn:
    """Return a number that stands in the head; `part` is its name there."""

    def value(message: StoredMessage) -> Any:
        return getattr(message, name)

    return MessageColumn(name, arrow_type, value, lambda columns: columns.head(part or name))


def _integer_property(name: str, arrow_type: str, stored_as: str, largest: int) -> MessageColumn:
    """Return a number that stands in a property, where it is one that the column can hold."""

    def parse(text: str | None) -> int | None:
        if text is None or len(text) > NUMBER_SIZE_MAX:
            return None
        try:
            number = int(text)
        except ValueError:
            return None
        return number if -largest - 1 <= number <= largest else None

    return MessageColumn(
        name,
        arrow_type,
        lambda message: parse(message.properties.get(stored_as)),
        lambda columns: columns.property_integers(stored_as, parse),
    )


MESSAGE_COLUMNS: Final = (
    MessageColumn("topic", STRING, lambda message: message.topic, MessageColumns.topics),
    _head("queue_id", INT32),
    _head("queue_offset", INT64),
    _head("physical_offset", INT64),
    _head("store_size", INT32, "size"),
    MessageColumn(
        "message_id",
        STRING,
        lambda message: message.unique_key or None,
        MessageColumns.unique_keys,
    ),
    MessageColumn(
        "offset_message_id",
        STRING,
        lambda message: offset_message_id(message.store_host, message.physical_offset),
        MessageColumns.offset_message_ids,
    ),
    MessageColumn("tag", STRING, lambda message: message.tag, MessageColumns.tags),
    MessageColumn("keys", STRINGS, lambda message: message.keys, MessageColumns.keys),
    MessageColumn(
        "message_group",
        STRING,
        lambda message: message.properties.get(SHARDING_KEY),
        lambda columns: columns.property_texts(SHARDING_KEY),
    ),
    MessageColumn(
        "properties",
        STRING_BY_STRING,
        lambda message: list(message.properties.items()),
        MessageColumns.properties,
    ),
    MessageColumn(BODY, BINARY, lambda message: message.body, MessageColumns.bodies),
    _head("body_crc", INT32),
    _head("system_flag", INT32),
    MessageColumn("flag", INT32, lambda message: message.flag, MessageColumns.flags),
    MessageColumn(
        "reconsume_times",
        INT32,
        lambda message: message.reconsume_times,
        MessageColumns.reconsume_times,
    ),
    _head("born_timestamp_ms", INT64),
    MessageColumn(
        "born_host",
        STRING,
        lambda message: text_from_host(message.born_host),
        MessageColumns.born_hosts,
    ),
    _head("store_timestamp_ms", INT64),
    MessageColumn(
        "store_host",
        STRING,
        lambda message: text_from_host(message.store_host),
        MessageColumns.store_hosts,
    ),
    MessageColumn(
        "prepared_transaction_offset",
        INT64,
        lambda message: message.prepared_transaction_offset,
        MessageColumns.prepared_offsets,
    ),
    _integer_property("delay_level", INT32, DELAY, INT32_MAX),
    _integer_property("deliver_at_ms", INT64, DELIVER_AT, INT64_MAX),
)
_BY_NAME: Final = {column.name: column for column in MESSAGE_COLUMNS}
