"""Options and arguments that several commands share, each declared once, and their parsing.

Forms of a moment:
    2026-11-21T02:30:00Z · 2026-11-21T03:30:00.250+01:00     RFC 3339
    2026-11-21T02:30:00 · 2026-11-21                          local time
    1795228200000                                             ms since 1970, from 1973 on
    -15m · 15m · -2h · now                                    before now
    2026-11-21#02:30:00:250                                   local time, as mqadmin writes it
"""

import re
import time
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import click

from pocketmq.cli.completing import assignments, presets
from pocketmq.cli.output import FORMATS, Output
from pocketmq.cli.vocabulary import option
from pocketmq.config import units
from pocketmq.config.units import DURATION_UNITS, is_bare, refuse_bare, size_from_text
from pocketmq.model.endpoint import DEFAULT_HOST, DEFAULT_PORT, endpoint_from_text

Command = TypeVar("Command", bound=Callable[..., Any])
Value = TypeVar("Value")

_AGO = re.compile(r"-?(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_AHEAD = re.compile(r"\+(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_EPOCH = re.compile(r"\d{1,18}", re.ASCII)
_MQADMIN = re.compile(r"(\d{4}-\d\d-\d\d)#(\d\d:\d\d:\d\d):(\d{3})", re.ASCII)


class ReadBy(click.ParamType[Value]):
    """A parameter type with a parsing function, whose ValueError becomes the usage error."""

    def __init__(self, name: str, read: Callable[[str], Value]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Value:
        """Returns the parsed value; a default that is not a text is returned unchanged."""
        if not isinstance(value, str):
            read: Value = value
            return read
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def wall_ms() -> int:
    """Returns the wall-clock time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def moment_from_text(text: str, now_ms: int) -> int:
    """Parses a moment to milliseconds since 1970.

    Errors   ValueError
    """
    text = text.strip()
    if text == "now":
        return now_ms
    if _EPOCH.fullmatch(text):
        if 0 < int(text) < EPOCH_MIN_MS:
            refuse_bare(text)
        return int(text)
    ago = _AGO.fullmatch(text)
    if ago:
        return max(now_ms - int(ago[1]) * DURATION_UNITS[ago[2]], 0)
    mqadmin = _MQADMIN.fullmatch(text)
    if mqadmin:
        text = f"{mqadmin[1]}T{mqadmin[2]}.{mqadmin[3]}"
    moment = datetime.fromisoformat(text)
    # A text without an offset is in the machine's time zone.
    return int(moment.astimezone().timestamp() * 1000)


def duration_from_text(text: str) -> int:
    """Parses "30s", "500ms" or "0" to milliseconds.

    Errors   ValueError
    """
    duration_ms = units.duration_from_text(text)
    if duration_ms < 0:
        raise ValueError(f"{text!r} is negative; write it as 500ms, 30s, 5m")
    return duration_ms


def _moment(text: str) -> int:
    return _moment_of(text, "-15m, 2026-11-21#02:30:00:000")


def _moment_of(text: str, further_forms: str) -> int:
    try:
        return moment_from_text(text, wall_ms())
    except (ValueError, OverflowError) as error:
        if is_bare(text):
            raise
        forms = f"2026-11-21T02:30:00Z, 1795228200000, {further_forms}"
        raise ValueError(f"{text!r} is none of these: {forms}") from error


def _delivery(text: str) -> int:
    """Parses a moment, or +15m for a moment after now.

    Errors   ValueError; also for 15m and -15m, which are moments before now
    """
    text = text.strip()
    ahead = _AHEAD.fullmatch(text)
    if ahead:
        return wall_ms() + int(ahead[1]) * DURATION_UNITS[ahead[2]]
    if _AGO.fullmatch(text):
        raise ValueError(f"{text!r} is a time ago; write +{text.lstrip('-')}, or use --delay")
    return _moment_of(text, "+15m")


def _begin(text: str) -> str:
    try:
        end = Position(is_latest=ENDS[text]) if text in ENDS else Position(time_ms=_moment(text))
        return end.text
    except ValueError as error:
        if is_bare(text):
            raise
        forms = "earliest, latest, a time such as -15m or 2026-11-21T02:30:00Z"
        raise ValueError(f"{text!r} is none of these: {forms}") from error


def _pause(text: str) -> float:
    pause_ms = duration_from_text(text)
    if pause_ms < PAUSE_MIN_MS:
        raise ValueError(f"{text!r} is less than {PAUSE_MIN_MS}ms")
    return pause_ms / 1000


def _size(text: str) -> int:
    size = size_from_text(text)
    if size <= 0:
        raise ValueError(f"{text!r} is not a size above 0")
    return size


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


class Position(NamedTuple):
    """A position in a queue; one field is set, the others are None.

    is_latest   True: the queue's end; False: its begin
    time_ms     the first message stored at this time or later
    """

    is_latest: bool | None = None
    queue_offset: int | None = None
    time_ms: int | None = None

    @property
    def text(self) -> str:
        """The begin of a group as requests contain it: min, max or a time."""
        # This module is part of every --help, which loads no classes of errors.
        from pocketmq.model.begin import MAX, MIN, begin_text

        if self.time_ms is not None:
            return begin_text(self.time_ms)
        return MAX if self.is_latest else MIN


def position_from_text(text: str) -> Position:
    """Parses earliest, latest, a queue offset or a time.

    A number from EPOCH_MIN_MS on is a time.
    Errors   ValueError
    """
    from pocketmq.model.decimal import number_of

    if text in ENDS:
        return Position(is_latest=ENDS[text])
    number = number_of(text)
    if 0 <= number < EPOCH_MIN_MS:
        return Position(queue_offset=number)
    try:
        return Position(time_ms=moment_from_text(text, wall_ms()))
    except (ValueError, OverflowError) as error:
        forms = "earliest, latest, a queue offset, a time such as -15m or 2026-11-21T02:30:00Z"
        raise ValueError(f"{text!r} is none of these: {forms}") from error


def _queue(text: str) -> tuple[str, int]:
    from pocketmq.model.decimal import number_of  # Imported late, as --help does not need it.

    topic, _, number = text.rpartition(":")
    queue_id = number_of(number)
    if not topic or queue_id < 0:
        raise ValueError(f"{text!r} is not TOPIC:QUEUE")
    return topic, queue_id


ENDS: Final = {"earliest": False, "min": False, "latest": True, "max": True}
"""Words for the begin (False) and the end (True) of a queue."""
POSITION: Final = ReadBy("earliest|latest|OFFSET|TIME", position_from_text)
MOMENT: Final = ReadBy("TIME", _moment)
DELIVERY: Final = ReadBy("TIME", _delivery)
"""When to deliver a message."""
BEGIN: Final = ReadBy("earliest|latest|TIME", _begin)
"""Where a group begins, parsed to the text that requests contain."""
DURATION: Final = ReadBy("DURATION", duration_from_text)
SIZE: Final = ReadBy("SIZE", _size)
"""Bytes, such as 67108864 or 64MiB."""
SIZE_OR_0: Final = ReadBy("SIZE", size_from_text)
PAUSE: Final = ReadBy("DURATION", _pause)
"""Seconds between two refreshes, such as 500ms or 2s."""
PAIR: Final = ReadBy("NAME=VALUE", _pair)
QUEUE: Final = ReadBy("TOPIC:QUEUE", _queue)
"""(topic, queue id)."""

ENDPOINT: Final = ReadBy("HOST:PORT", endpoint_from_text)
DEFAULT_ENDPOINT: Final = f"{DEFAULT_HOST}:{DEFAULT_PORT}"
PAUSE_MIN_MS: Final = 100
EPOCH_MIN_MS: Final = 100_000_000_000
"""Smallest number that is parsed as a time in ms; a smaller one may count seconds."""

PATH: Final = click.Path(path_type=Path)
FILE: Final = click.Path(path_type=Path, dir_okay=False)
DIRECTORY: Final = click.Path(path_type=Path, exists=True, file_okay=False)

form_option: Final = click.option(
    "-o", "--output", "out", type=click.Choice(FORMATS),
    callback=lambda ctx, param, form: Output(form),
    help="Output format [default: table on a terminal, else json].",
)  # fmt: skip
"""Passes the command's printer as `out`."""
watch_option: Final = click.option(
    "--watch", "watch_s", type=PAUSE, help="Repeat at this interval, such as 2s, until Ctrl-C.",
)  # fmt: skip
yes_option: Final = click.option(
    "--yes", is_flag=True, help="Make the change; without this only the plan is shown."
)

set_option: Final = click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", shell_complete=assignments,
    help="A setting by PocketMQ's or RocketMQ's name (flushDiskType=ASYNC_FLUSH); may be repeated.",
)  # fmt: skip
SETTINGS: Final = "pocketmq.settings"
"""Key of a context's `meta` that has the settings file of the command line, for errors."""


def remember_settings(
    context: click.Context, option: click.Parameter, file: Path | None
) -> Path | None:
    """Keeps the settings file for the next step of an error; returns it."""
    if file is not None:
        context.meta[SETTINGS] = file
    return file


file_option: Final = click.option(
    "-c", "--config", "file", type=FILE, callback=remember_settings,
    help="Settings file, as `config init` writes it, or RocketMQ's broker.conf; conf.d/*.toml "
    "beside it overrides it.",
)  # fmt: skip
force_option: Final = click.option(
    "--force", is_flag=True, help="Allow retention.age_ms below 1h: for tests and development."
)
preset_option: Final = click.option(
    "--preset",
    metavar="NAME",
    shell_complete=presets,
    help="Defaults for a kind of machine: dev, edge or server.",
)

directory_argument: Final = click.argument("directory", metavar="DIR", type=PATH)
read_only_option: Final = click.option(
    "--read-only", is_flag=True, help="Read the store even while a broker uses it."
)


def queue_option(about: str) -> Callable[[Command], Command]:
    """Returns a decorator that adds --queue TOPIC:QUEUE, parsed to (topic, queue id) or None."""
    return click.option("--queue", metavar="TOPIC:QUEUE", type=QUEUE, help=about)


def takes(
    name: str, kind: Callable[..., Any], *options: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that adds options and arguments, and passes them as one value.

    name   the command's parameter for the value
    kind   makes the value; its parameters have the names of the options
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def gathered(*args: Any, **given: Any) -> None:
            value = kind(**{each: given.pop(each) for each in names})
            command(*args, **{name: value}, **given)

        before = [*getattr(command, "__click_params__", ())]
        decorated: Any = gathered
        for add in reversed(options):
            decorated = add(decorated)
        names = [param.name for param in decorated.__click_params__ if param not in before]
        return gathered

    return decorate


def examples(*lines: str) -> str:
    """Returns the examples at the end of a command's help."""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["\b", title, *(f"  {line}" for line in lines)])


def filtered(command: Command) -> Command:
    """Adds the options of a message filter, passed as `expression` and `sql`."""

    @option(
        "-t",
        "--tag",
        "tag_filter",
        metavar="A||B",
        aliases=("--tag-filter",),
        help="Only messages with these tags.",
    )
    @click.option(
        "--filter",
        "sql_filter",
        metavar="SQL",
        help="Only messages that match this SQL92 expression.",
    )
    @wraps(command)
    def wrapped(*args: Any, tag_filter: str | None, sql_filter: str | None, **given: Any) -> Any:
        if tag_filter is not None and sql_filter is not None:
            raise click.UsageError("--tag and --filter exclude each other; in SQL, TAGS is the tag")
        expression = sql_filter if tag_filter is None else tag_filter
        return command(*args, expression=expression or "*", sql=sql_filter is not None, **given)

    return cast("Command", wrapped)
