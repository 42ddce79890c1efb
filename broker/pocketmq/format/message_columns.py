"""The columns of stored messages as one table: name, type, and how to read the values.

The values equal those of `message_fields`. The names are those of the API's StoredMessage and of
the command line's JSON: exports have the same names in all formats. Times are milliseconds since
1970.
Types are written in Arrow's notation, but Arrow is not needed here.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pocketmq.format.columns.messages import Column, MessageColumns
from pocketmq.format.record import property_number
from pocketmq.model.message import DELAY, DELIVER_AT, INT32_MAX, OFFSET_MAX, SHARDING_KEY

STRING: Final = "string"
BINARY: Final = "binary"
INT32: Final = "int32"
INT64: Final = "int64"
STRINGS: Final = "list<string>"
STRING_BY_STRING: Final = "map<string, string>"
BODY: Final = "body"


class MessageColumn(NamedTuple):
    """One column; missing values are None."""

    name: str
    type: str
    read: Callable[[MessageColumns], Column]


def columns_of(names: Sequence[str]) -> list[MessageColumn]:
    """Returns the columns with these names, or all columns if no name is given.

    Errors   ValueError: a column does not exist
    """
    unknown = [name for name in names if name not in _BY_NAME]
    if unknown:
        raise ValueError(f"messages have no column {unknown[0]!r}; there are {', '.join(_BY_NAME)}")
    return [_BY_NAME[name] for name in names] or list(MESSAGE_COLUMNS)


def _head(name: str, arrow_type: str, part: str = "") -> MessageColumn:
    return MessageColumn(name, arrow_type, lambda columns: columns.head(part or name))


def _integer_property(name: str, arrow_type: str, stored_as: str, largest: int) -> MessageColumn:

    def read(columns: MessageColumns) -> Column:
        return columns.property_integers(stored_as, lambda text: property_number(text, largest))

    return MessageColumn(name, arrow_type, read)


def _message_group(columns: MessageColumns) -> Column:
    return columns.property_texts(SHARDING_KEY)


MESSAGE_COLUMNS: Final = (
    MessageColumn("topic", STRING, MessageColumns.topics),
    _head("queue_id", INT32),
    _head("queue_offset", INT64),
    _head("physical_offset", INT64),
    _head("store_size", INT32, "size"),
    MessageColumn("message_id", STRING, MessageColumns.message_ids),
    MessageColumn("offset_message_id", STRING, MessageColumns.offset_message_ids),
    MessageColumn("tag", STRING, MessageColumns.tags),
    MessageColumn("keys", STRINGS, MessageColumns.keys),
    MessageColumn("message_group", STRING, _message_group),
    MessageColumn("properties", STRING_BY_STRING, MessageColumns.properties),
    MessageColumn(BODY, BINARY, MessageColumns.bodies),
    _head("body_crc", INT32),
    _head("system_flag", INT32),
    MessageColumn("flag", INT32, MessageColumns.flags),
    MessageColumn("reconsume_times", INT32, MessageColumns.reconsume_times),
    _head("born_timestamp_ms", INT64),
    MessageColumn("born_host", STRING, MessageColumns.born_hosts),
    _head("store_timestamp_ms", INT64),
    MessageColumn("store_host", STRING, MessageColumns.store_hosts),
    MessageColumn("prepared_transaction_offset", INT64, MessageColumns.prepared_offsets),
    _integer_property("delay_level", INT32, DELAY, INT32_MAX),
    _integer_property("deliver_at_ms", INT64, DELIVER_AT, OFFSET_MAX),
)
_BY_NAME: Final = {column.name: column for column in MESSAGE_COLUMNS}
