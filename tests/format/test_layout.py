"""Layouts: all that is derived from the rows, and the byte maps that the docstrings show."""

import re
from types import ModuleType

import pytest

from broker.format import checkpoint_layout, consume_unit, index_layout, record
from broker.format.layout import Layout

LAYOUT = Layout(
    ("number", "q", "a number"),
    ("host", "8s", "some bytes"),
    ("small", "h", "a small number; may be negative"),
)

ROW = re.compile(r"^ *(\d+) +(\d+) {2}(\w+) +(\S.*)$", re.MULTILINE)
"""Position, width, name, meaning."""

DOCUMENTED: list[tuple[ModuleType, list[Layout]]] = [
    (record, [record.RECORD_HEAD]),
    (consume_unit, [consume_unit.CONSUME_UNIT]),
    (checkpoint_layout, [checkpoint_layout.CHECKPOINT]),
    (index_layout, [index_layout.INDEX_HEADER, index_layout.INDEX_ENTRY]),
]


def rows(text: str) -> list[tuple[str, ...]]:
    return ROW.findall(text)


def test_sizes_and_positions_follow_from_the_rows() -> None:
    assert LAYOUT.size == 18
    assert LAYOUT.positions == {"number": 0, "host": 8, "small": 16}


def test_numbers_are_big_endian_and_not_padded() -> None:
    packed = LAYOUT.struct.pack(1, b"hosthost", -2)
    assert packed.hex() == "0000000000000001" + b"hosthost".hex() + "fffe"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_fields_are_read_by_name(kind: type[bytes | bytearray | memoryview]) -> None:
    buffer = kind(b"???" + LAYOUT.struct.pack(1, b"hosthost", -2))
    assert LAYOUT.decode(buffer, 3) == {"number": 1, "host": b"hosthost", "small": -2}


def test_a_byte_map_has_a_line_for_every_field() -> None:
    assert LAYOUT.byte_map().splitlines() == [
        "   0   8  number                        a number",
        "   8   8  host                          some bytes",
        "  16   2  small                         a small number; may be negative",
    ]


@pytest.mark.parametrize(
    ("module", "layouts"), DOCUMENTED, ids=[module.__name__ for module, _ in DOCUMENTED]
)
def test_a_docstring_shows_the_layout_as_it_is(module: ModuleType, layouts: list[Layout]) -> None:
    shown = rows(module.__doc__ or "")
    assert shown == rows("\n".join(layout.byte_map() for layout in layouts))
    assert len(shown) == sum(len(layout.fields) for layout in layouts)
