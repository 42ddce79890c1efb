"""Parses and formats sizes and durations: "64MiB", "72h".

    size       bytes, or a number with B, KiB, MiB, GiB, TiB
    duration   a number with ms, s, m, h, d; 0 needs no unit

Decimal units (kB, MB) are refused, as half of their users mean binary units. A duration without a
unit is refused, as users who write 72 may mean hours. An invalid text raises ValueError with the
reason.
"""

import re
from collections.abc import Mapping
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

SIZE_UNITS: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 1024 * GIB}
DURATION_UNITS: Final = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}

_OTHER_UNITS: Final = frozenset(
    """k kb m mb g gb t tb byte bytes sec secs second seconds min mins minute minutes hr hrs hour
    hours day days""".split()
)
"""Spellings of units that are not accepted, in lower case; the first letter is the unit's."""

_BARE = re.compile(r"-?\d{1,19}", re.ASCII)
_NUMBER_AND_UNIT = re.compile(r"(-?\d{1,19})\s*([A-Za-z]*)", re.ASCII)


def is_utf8(text: str) -> bool:
    """Returns whether a command-line argument or environment variable was valid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def size_from_text(text: str) -> int:
    """Parses a size into bytes."""
    return _number(text, SIZE_UNITS)


def duration_from_text(text: str) -> int:
    """Parses a duration into milliseconds."""
    refuse_bare(text)
    return _number(text, DURATION_UNITS)


def refuse_bare(given: str | int) -> None:
    """Raises ValueError for a duration without a unit, except 0."""
    text = str(given).strip()
    if is_bare(text) and int(text):
        forms = ", ".join(f"{text}{unit}" for unit in DURATION_UNITS)
        raise ValueError(f"{text} has no unit; write one of {forms}")


def is_bare(text: str) -> bool:
    """Returns whether a text is a number without a unit."""
    return _BARE.fullmatch(text.strip()) is not None


def text_from_size(size_bytes: int) -> str:
    """Returns a size in the largest unit without a fraction."""
    return _text(size_bytes, SIZE_UNITS)


def text_from_duration(duration_ms: int) -> str:
    """Returns a duration in the largest unit without a fraction."""
    return _text(duration_ms, DURATION_UNITS)


def _number(text: str, units: Mapping[str, int]) -> int:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    factor = units.get(match[2], 0) if match and match[2] else 1
    if match is None or not factor:
        names = ", ".join(units)
        unit = _meant(match[2], units) if match else ""
        hint = f"; did you mean {match[1]}{unit}?" if match and unit else ""
        raise ValueError(f"{text!r} is not a number with one of the units {names}{hint}")
    return int(match[1]) * factor


def _meant(unit: str, units: Mapping[str, int]) -> str:
    word = unit.lower()
    by_start = {name[0].lower(): name for name in units if word in _OTHER_UNITS}
    return {name.lower(): name for name in units}.get(word) or by_start.get(word[:1], "")


def _text(value: int, units: Mapping[str, int]) -> str:
    fitting = [name for name, factor in units.items() if value % factor == 0]
    name = fitting[-1]
    return str(value) if name == "B" or not value else f"{value // units[name]}{name}"
