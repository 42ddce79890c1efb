"""The columns of a lake's files: those that Spark's reader of a store has.

Each column has the id that Iceberg gives it, so that a table's readers need no mapping of names.
"""

from typing import Any, Final

import pyarrow as pa

from pocketmq.format.arrow_messages import MOMENT_TYPE, moment_names, schema_of
from pocketmq.format.message_columns import MESSAGE_COLUMNS

FIELD_ID: Final = b"PARQUET:field_id"
"""Key of a field's id in its metadata, by which pyarrow writes it to Parquet files."""
_STORED: Final = schema_of(MESSAGE_COLUMNS)
MOMENTS: Final = moment_names(_STORED)
"""Columns with moments -> the columns of milliseconds they are made of."""


def _numbered(schema: Any) -> Any:
    """Returns a schema with ids, ascending: the columns first, then the parts of lists and maps."""
    count = len(schema)

    def with_id(field: Any, number: int) -> Any:
        return field.with_metadata({FIELD_ID: str(number).encode()})

    def part(field: Any) -> Any:
        nonlocal count
        count += 1
        return with_id(field, count)

    fields = []
    for number, field in enumerate(schema, 1):
        kind = field.type
        if pa.types.is_list(kind):
            field = field.with_type(pa.list_(part(kind.value_field)))
        elif pa.types.is_map(kind):
            field = field.with_type(pa.map_(part(kind.key_field), part(kind.item_field)))
        fields.append(with_id(field, number))
    return pa.schema(fields)


SCHEMA: Final = _numbered(pa.schema([*_STORED, *(pa.field(name, MOMENT_TYPE) for name in MOMENTS)]))
