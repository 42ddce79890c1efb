"""Log lines: one event a line, named noun.verb, its fields beside it.

    to a terminal   12:34:56.789 INFO store.opened plan=@clean end=4096
    elsewhere       {"time":"2026-11-21T12:34:56.789Z","level":"info","event":"store.opened",…}

Standard error only: standard output belongs to what a command prints.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

STANDARD_ATTRIBUTES: Final = frozenset(
    vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName"}
)
"""What every record has; everything else is a field of the event."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, Any] = {
            "time": _utc(record.created).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **_fields(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str)


class ConsoleFormatter(logging.Formatter):
    """A line to read, the trace of an error below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, and of its error's trace."""
        time = _utc(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{time} {record.levelname} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def start_logs(stream: TextIO, level: int = logging.INFO) -> None:
    """Send all log records from a level on to a stream, in the form that suits it."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ConsoleFormatter() if stream.isatty() else JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # uvicorn tells at INFO that it started; the ready line has said so.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    return {k: v for k, v in vars(record).items() if k not in STANDARD_ATTRIBUTES}
