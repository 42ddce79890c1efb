"""Log lines: one event per line, named noun.verb, with its fields.

    to a terminal   12:34:56.789 INFO store.opened plan=@clean end=4096
    elsewhere       {"time":"2026-11-21T12:34:56.789Z","level":"info","event":"store.opened",…}

The bytes of messages are never logged. docs/reference/log-events.md lists all events and fields.
"""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, TextIO

AUTO: Final = "auto"
JSON: Final = "json"
CONSOLE: Final = "console"
INFORMATIONAL: Final = 6
PRIORITIES: Final[Mapping[int, int]] = {
    logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.DEBUG: 7
}  # fmt: skip
WINDOW_SECONDS: Final = 10.0
BURST: Final = 20
"""Upper limit of lines of one event in a window."""
EVENTS_MAX: Final = 1_000
FIELD_LENGTH_MAX: Final = 500
TRACE_LENGTH_MAX: Final = 8_000
"""Maximum characters of a traceback, which may contain a client's text. With BURST lines in a
window, an event writes less than 1 MiB a minute."""
_BREAKS: Final = {
    0x7F: "\\u007f",
    **{code: f"\\u{code:04x}" for code in (*range(0x80, 0xA0), 0x2028, 0x2029)},
}
"""Control and line-end characters that JSON does not escape."""

STANDARD_ATTRIBUTES: Final = frozenset(
    vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName"}
)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of a record."""
        line: dict[str, Any] = {
            "time": _utc(record.created).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **_fields(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)[:TRACE_LENGTH_MAX]
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str)
        return text.translate(_BREAKS)


class ConsoleFormatter(logging.Formatter):
    """Formats a record as a line for people, followed by the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of a record, and the lines of its traceback."""
        time = _utc(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        fields = "".join(f" {k}={_on_one_line(v)}" for k, v in _fields(record).items())
        line = f"{time} {record.levelname} {_on_one_line(record.getMessage())}{fields}"
        if not record.exc_info:
            return line
        trace = self.formatException(record.exc_info)[:TRACE_LENGTH_MAX]
        return "\n".join([line, *(f"    {_on_one_line(piece)}" for piece in trace.splitlines())])


class JournalFormatter(logging.Formatter):
    """Writes the priority before each line; systemd's journal removes it from the text.

    Source   sd-daemon(3), SyslogLevelPrefix= of systemd.exec(5)
    """

    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines of a record."""
        lead = f"<{PRIORITIES.get(record.levelno, INFORMATIONAL)}>"
        return "\n".join(f"{lead}{line}" for line in self._lines.format(record).splitlines())


class RepeatLimit(logging.Filter):
    """Logs an event at most BURST times in WINDOW_SECONDS.

    The field `suppressed` of the event's next line is the number of lines that were not logged.
    """

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._now = now
        self._windows: dict[tuple[str, str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether a record is logged."""
        if record.levelno >= logging.CRITICAL:
            return True
        key = (record.name, str(record.msg), record.levelno)
        now = self._now()
        begun, count = self._windows.get(key, (now, 0))
        if now - begun >= WINDOW_SECONDS:
            if count > BURST:
                record.suppressed = count - BURST
            begun, count = now, 0
        if len(self._windows) >= EVENTS_MAX and key not in self._windows:
            self._windows.clear()
        self._windows[key] = (begun, count + 1)
        return count < BURST


def start_logs(
    stream: TextIO,
    level: str = "info",
    form: str = AUTO,
    *,
    request_id: Callable[[], str] = str,
    to_journal: bool = False,
) -> None:
    """Writes all log records of a level or above to a stream.

    form         "json", "console", or "auto": console on a terminal, else JSON
    request_id   returns the id of the current call; "": there is no call
    to_journal   whether lines begin with a priority for systemd's journal
    """
    assert form in (AUTO, JSON, CONSOLE)
    is_console = form == CONSOLE or (form == AUTO and stream.isatty())

    def name_request(record: logging.LogRecord) -> bool:
        if found := request_id():
            record.request_id = found
        return True

    handler = logging.StreamHandler(stream)
    lines = ConsoleFormatter() if is_console else JsonFormatter()
    handler.setFormatter(JournalFormatter(lines) if to_journal else lines)
    handler.addFilter(RepeatLimit())
    handler.addFilter(name_request)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    return {k: _shown(v) for k, v in vars(record).items() if k not in STANDARD_ATTRIBUTES}


def _on_one_line(value: Any) -> str:
    text = str(value)
    return text if text.isprintable() else repr(text)


def _shown(value: Any) -> Any:
    """Shortens a field; replaces bytes, which may be from a message."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, bool | int | float | None):
        return value
    text = str(value)
    return text if len(text) <= FIELD_LENGTH_MAX else f"{text[:FIELD_LENGTH_MAX]}…"
