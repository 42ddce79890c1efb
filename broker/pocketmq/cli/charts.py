"""Charts of block characters for tables and terminals: bars, sparklines and histograms.

Where standard output cannot encode blocks, bars are of # and sparklines of digits.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from pocketmq.cli.output import GAP, Column, Columns, Document

BLOCKS: Final = " ▏▎▍▌▋▊▉█"
"""Bars of 0 to 8 eighths of a column."""
LEVELS: Final = "▁▂▃▄▅▆▇█"
"""Columns of a sparkline, from the smallest to the largest value."""
BAR_WIDTH: Final = 20
SPARK_COUNT: Final = 30
"""Upper limit of values in a sparkline, which shows the last ones."""


def can_draw_blocks() -> bool:
    """Returns whether standard output can encode block characters."""
    try:
        (BLOCKS + LEVELS).encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def bar(value: float, largest: float, width: int = BAR_WIDTH, *, blocks: bool = True) -> str:
    """Returns a bar whose length is the ratio of a value to the largest value.

    A value above 0 has a bar that can be seen. Trailing blanks are left out.
    """
    assert width > 0, "a bar without width"
    share = min(max(value / largest, 0.0), 1.0) if largest > 0 else 0.0
    if not blocks:
        return "#" * max(round(share * width), int(share > 0))
    eighths = max(round(share * width * 8), int(share > 0))
    whole, part = divmod(eighths, 8)
    return (BLOCKS[8] * whole + BLOCKS[part]).rstrip()


def barred(name: str, rows: Iterable[Document]) -> Column:
    """Returns a column of numbers with bars, scaled to the largest number of all rows."""
    numbers = [row[name] for row in rows if row.get(name) is not None]
    largest, blocks = max(numbers, default=0), can_draw_blocks()
    width = max((len(str(number)) for number in numbers), default=0)

    def cell(row: Document) -> str:
        value = row.get(name)
        if value is None:
            return ""
        return f"{value:>{width}}{GAP}{bar(value, largest, blocks=blocks)}".rstrip()

    return Column(name, cell)


def with_bars(columns: Columns, name: str, rows: Iterable[Document]) -> Columns:
    """Returns the columns, and adds bars to the numbers of the named one."""
    return [barred(name, rows) if one.name == name else one for one in columns]


def sparkline(values: Sequence[float], *, blocks: bool = True) -> str:
    """Returns a character for each of the last SPARK_COUNT values, scaled to the largest of them.

    A value of 0 has the lowest character; so has every value if the largest is 0.
    """
    shown = values[-SPARK_COUNT:]
    largest = max(shown, default=0)
    letters = LEVELS if blocks else "0123456789"
    top = len(letters) - 1
    return "".join(letters[round(top * one / largest) if largest > 0 else 0] for one in shown)
