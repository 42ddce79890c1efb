"""Texts on the command line as values: sizes, durations, moments, pairs.

Moments are written as
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
from typing import Any, Final, TypeVar

import click

from broker.config.units import DURATION_UNITS, size_from_text

Value = TypeVar("Value")

_AGO = re.compile(r"-?(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_EPOCH = re.compile(r"\d{1,18}", re.ASCII)
_MQADMIN = re.compile(r"(\d{4}-\d\d-\d\d)#(\d\d:\d\d:\d\d):(\d{3})", re.ASCII)


class ReadBy(click.ParamType[Value]):
    """A parameter that a function reads; its ValueError says why a text cannot be one."""

    def __init__(self, name: str, read: Callable[[str], Value]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Value:
        """Return what a text says; a default that is no text stays as it is."""
        if not isinstance(value, str):
            read: Value = value
            return read
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


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
        return max(now_ms - int(ago[1]) * DURATION_UNITS[ago[2]], 0)
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
        raise ValueError(f"{text!r} is none of these: 500ms, 30s, 5m")
    return int(match[1]) * DURATION_UNITS[match[2]]


def _moment(text: str) -> int:
    try:
        return moment_from_text(text, wall_ms())
    except (ValueError, OverflowError) as error:
        examples = "2026-11-21T02:30:00Z, 1795228200000, -15m, 2026-11-21#02:30:00:000"
        raise ValueError(f"{text!r} is none of these: {examples}") from error


def _size(text: str) -> int:
    size = size_from_text(text)
    if size <= 0:
        raise ValueError(f"{text!r} is no size above 0")
    return size


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


def _queue(text: str) -> tuple[str, int]:
    topic, _, queue_id = text.rpartition(":")
    if not topic or not (queue_id.isascii() and queue_id.isdecimal()):
        raise ValueError(f"{text!r} is not TOPIC:QUEUE")
    return topic, int(queue_id)


MOMENT: Final = ReadBy("TIME", _moment)
DURATION: Final = ReadBy("DURATION", duration_from_text)
SIZE: Final = ReadBy("SIZE", _size)
"""Bytes, as 67108864 or 64MiB."""
PAIR: Final = ReadBy("NAME=VALUE", _pair)
QUEUE: Final = ReadBy("TOPIC:QUEUE", _queue)
"""(topic, queue id)."""
