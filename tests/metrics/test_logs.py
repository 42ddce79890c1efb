"""A record is one line: JSON for machines, words for a terminal."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from broker.metrics.logs import ConsoleFormatter, JsonFormatter, start_logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def record(event: str, **fields: object) -> logging.LogRecord:
    made = logging.getLogger("broker.test").makeRecord(
        "broker.test", logging.WARNING, __file__, 1, event, (), None, extra=fields
    )
    made.created = 1_763_728_496.789
    return made


def test_json_has_time_level_event_and_fields() -> None:
    line = JsonFormatter().format(record("store.opened", end=4096, plan="@clean"))
    assert json.loads(line) == {
        "time": "2025-11-21T12:34:56.789Z",
        "level": "warning",
        "event": "store.opened",
        "logger": "broker.test",
        "end": 4096,
        "plan": "@clean",
    }


def test_json_stays_one_line_whatever_a_field_holds() -> None:
    line = JsonFormatter().format(record("rpc.failed", topic="a\nb", what=ValueError("x\ny")))
    assert "\n" not in line
    assert json.loads(line)["what"] == "x\ny"


def test_the_console_shows_fields_behind_the_event() -> None:
    line = ConsoleFormatter().format(record("store.opened", end=4096))
    assert line.endswith("WARNING store.opened end=4096")


def test_an_error_brings_its_trace() -> None:
    try:
        raise ValueError("bad")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    failed = record("rpc.failed")
    failed.exc_info = info
    assert "ValueError: bad" in json.loads(JsonFormatter().format(failed))["trace"]
    assert ConsoleFormatter().format(failed).endswith("ValueError: bad")


@pytest.mark.parametrize(("stream", "begin"), [(io.StringIO(), "{"), (Terminal(), "1")])
def test_the_stream_decides_the_form(stream: io.StringIO, begin: str) -> None:
    start_logs(stream)
    logging.getLogger("broker.test").info("store.opened")
    logging.getLogger("broker.test").debug("store.unheard")
    text = stream.getvalue()
    assert text.startswith("{") is (begin == "{")
    assert "store.opened" in text
    assert "store.unheard" not in text


def test_uvicorn_does_not_tell_that_it_started() -> None:
    stream = io.StringIO()
    start_logs(stream)
    logging.getLogger("uvicorn.error").info("Started server process")
    assert stream.getvalue() == ""
