"""A byte layout as a table: one row a field, everything else derived from the rows.

From one `Layout` come the compiled `struct`, field positions, the byte map that docstrings show,
the decoded form that `store dump` prints, and column types of vectorised readers.
All integers are big-endian, two's complement.
"""

import struct
from typing import NamedTuple

from broker.format.buffers import Buffer


class Field(NamedTuple):
    """One row: a name, a `struct` code and what the bytes mean."""

    name: str
    code: str
    meaning: str


class Layout:
    """A fixed sequence of fields."""

    __slots__ = ("fields", "positions", "size", "struct")

    def __init__(self, *rows: tuple[str, str, str]) -> None:
        self.fields = tuple(Field(*row) for row in rows)
        self.struct = struct.Struct(">" + "".join(field.code for field in self.fields))
        self.size = self.struct.size
        self.positions: dict[str, int] = {}
        position = 0
        for field in self.fields:
            self.positions[field.name] = position
            position += struct.calcsize(">" + field.code)

    def decode(self, buffer: Buffer, position: int = 0) -> dict[str, int | bytes]:
        """Return the fields at a position by name."""
        values = self.struct.unpack_from(buffer, position)
        return dict(zip((field.name for field in self.fields), values, strict=True))

    def byte_map(self) -> str:
        """Return one line a field: position, width, name, meaning."""
        lines = []
        for field in self.fields:
            width = struct.calcsize(">" + field.code)
            position = self.positions[field.name]
            lines.append(f"{position:>4}  {width:>2}  {field.name:<29} {field.meaning}")
        return "\n".join(lines)
