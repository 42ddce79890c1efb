"""Pure-Python replacements of librt and mypy_extensions; see `machine`.

Callers must not rely on two differences: `append` returns the vector that it was given, where librt
may return a copy, and some error texts differ.
"""

from array import array
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final, Self

i64 = i32 = i16 = u8 = int

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")


class BytesWriter(bytearray):
    """Growing byte buffer; `append(byte)`, `[position]` and `len` are bytearray's."""

    write = bytearray.__iadd__

    def getvalue(self) -> bytes:
        """Returns the written bytes."""
        return bytes(self)

    def truncate(self, size: int) -> None:
        """Keeps the first `size` bytes.

        Errors   ValueError: there are fewer bytes
        """
        if not 0 <= size <= len(self):
            raise ValueError(f"{len(self)} bytes cannot be cut to {size}")
        del self[size:]


def mypyc_attr(**_attributes: object) -> Callable[[type], type]:
    """Decorates a class with attributes for the compiler only."""
    return lambda decorated: decorated


def _writer(layout: Struct) -> Any:
    def write(writer: BytesWriter, number: int) -> None:
        try:
            writer += layout.pack(number)
        except Exception as error:
            raise ValueError(f"{number} does not fit") from error

    return write


def _reader(layout: Struct) -> Any:
    def read(data: bytes, place: int) -> int:
        if place < 0:
            raise ValueError("index must be non-negative")
        if layout.size > len(data) - place:
            raise IndexError(f"index {place} out of range for bytes of length {len(data)}")
        value: int = layout.unpack_from(data, place)[0]
        return value

    return read


write_i16_be, write_i32_be, write_i64_be = _writer(_I16), _writer(_I32), _writer(_I64)
read_i16_be, read_i32_be, read_i64_be = _reader(_I16), _reader(_I32), _reader(_I64)


class _Numbers(array):  # type: ignore[type-arg]
    def __new__(cls, items: Iterable[int] = (), /, *, capacity: int = 0) -> Self:
        return super().__new__(cls, "q", items)  # type: ignore[return-value]


class _Objects(list[Any]):
    def __init__(self, items: Iterable[Any] = (), /, *, capacity: int = 0) -> None:
        super().__init__(items)


class vec:  # noqa: N801 - librt's name
    """Generic type of vectors: `vec[i64]` is a type, `vec` itself has no instances."""

    def __class_getitem__(cls, kind: object) -> type:
        return _Numbers if kind is int else _Objects


def append(vector: Any, item: Any, /) -> Any:
    """Appends an item and returns the vector."""
    vector.append(item)
    return vector


def extend(vector: Any, items: Iterable[Any], /) -> Any:
    """Appends items and returns the vector."""
    vector.extend(items)
    return vector


def pop(vector: Any, place: int = -1, /) -> tuple[Any, Any]:
    """Removes an item; returns (vector, item)."""
    return vector, vector.pop(place)
