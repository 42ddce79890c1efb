"""Replaces librt and mypy_extensions where they are not installed; see `machine`.

Results and calls are the same, with two differences that callers must not rely on. A vector that
was appended to is the same object as before (librt may copy). The text of some errors differs.
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
    """Bytes that grow; `append(byte)`, `[place]` and `len` are bytearray's own."""

    write = bytearray.__iadd__

    def getvalue(self) -> bytes:
        """Returns the written bytes."""
        return bytes(self)

    def truncate(self, size: int) -> None:
        """Drops the bytes behind the first `size`.

        Errors   ValueError: fewer are there
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
    """Numbers of 64 bits in a row, as `vec[i64]` has them; numpy reads them through the buffer."""

    def __new__(cls, items: Iterable[int] = (), /, *, capacity: int = 0) -> Self:
        return super().__new__(cls, "q", items)  # type: ignore[return-value]


class _Objects(list[Any]):
    """Objects in a row."""

    def __init__(self, items: Iterable[Any] = (), /, *, capacity: int = 0) -> None:
        super().__init__(items)


class vec:  # noqa: N801 - librt's name
    """`vec[i64]` and the like are the types; this itself has no instances."""

    def __class_getitem__(cls, kind: object) -> type:
        return _Numbers if kind is int else _Objects


def append(vector: Any, item: Any, /) -> Any:
    """Returns the vector with one more behind it."""
    vector.append(item)
    return vector


def extend(vector: Any, items: Iterable[Any], /) -> Any:
    """Returns the vector with more behind it."""
    vector.extend(items)
    return vector


def pop(vector: Any, place: int = -1, /) -> tuple[Any, Any]:
    """Returns the vector without one item, and the item."""
    return vector, vector.pop(place)
