"""Moments as people write them, as milliseconds since 1970.

2026-11-21T02:30:00Z · 2026-11-21T03:30:00.250+01:00     RFC 3339
2026-11-21T02:30:00 · 2026-11-21                          local time
1795228200000                                             ms since 1970
-15m · 15m · -2h · now                                    before now
2026-11-21#02:30:00:250                                   local time, as mqadmin writes it
"""

import re
from collections.abc import Callable
from datetime import datetime
from time import time_ns
from typing import Any, Final

import click

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_AGO = re.compile(r"-?(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_EPOCH = re.compile(r"\d{1,18}", re.ASCII)
_MQADMIN = re.compile(r"(\d{4}-\d\d-\d\d)#(\d\d:\d\d:\d\d):(\d{3})", re.ASCII)


def wall_ms() -> int:
    """Return the time now."""
    return time_ns() // 1_000_000


def moment_from_text(text: str, now_ms: int) -> int:
    """Return milliseconds since 1970.

    Errors   ValueError
    """
    text = text.strip()
    if text == "now":
        return now_ms
    if _EPOCH.fullmatch(text):
        return int(text)
    ago = _AGO.fullmatch(text)
    if ago:
        return max(now_ms - int(ago[1]) * UNITS_MS[ago[2]], 0)
    mqadmin = _MQADMIN.fullmatch(text)
    if mqadmin:
        text = f"{mqadmin[1]}T{mqadmin[2]}.{mqadmin[3]}"
    moment = datetime.fromisoformat(text)
    # Without an offset the machine's zone is meant.
    return int(moment.astimezone().timestamp() * 1000)


def duration_from_text(text: str) -> int:
    """Return milliseconds of "30s", "500ms" or a bare number of milliseconds.

    Errors   ValueError
    """
    if _EPOCH.fullmatch(text):
        return int(text)
    match = _AGO.fullmatch(text)
    if match is None or text.startswith("-"):
        raise ValueError(f"{text!r} is not a duration")
    return int(match[1]) * UNITS_MS[match[2]]


class _ReadBy(click.ParamType[int]):
    """A parameter that a function reads, or says it cannot."""

    def __init__(self, name: str, read: Callable[[str], int], examples: str) -> None:
        self.name = name
        self._read = read
        self._examples = examples

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds."""
        if isinstance(value, int):
            return value
        try:
            return self._read(value)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is none of these: {self._examples}", param, ctx)


MOMENT: Final = _ReadBy(
    "TIME",
    lambda text: moment_from_text(text, wall_ms()),
    "2026-11-21T02:30:00Z, 1795228200000, -15m, 2026-11-21#02:30:00:000",
)
DURATION: Final = _ReadBy("DURATION", duration_from_text, "500ms, 30s, 5m")
