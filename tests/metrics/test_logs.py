"""A record is one line: JSON for machines, words for a terminal."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from pocketmq.metrics.logs import (
    BURST,
    WINDOW_SECONDS,
    ConsoleFormatter,
    JournalFormatter,
    JsonFormatter,
    RepeatLimit,
    start_logs,
)
from tests.kit.terminal import Terminal


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


@pytest.mark.parametrize(
    ("level", "lead"),
    [("CRITICAL", "<2>"), ("ERROR", "<3>"), ("WARNING", "<4>"), ("INFO", "<6>"), ("DEBUG", "<7>")],
)
def test_in_the_journal_each_line_has_the_priority_of_its_level(level: str, lead: str) -> None:
    one = record("store.opened", end=4096)
    one.levelno = logging.getLevelNamesMapping()[level]
    assert JournalFormatter(JsonFormatter()).format(one).startswith(f'{lead}{{"time":')
    one.exc_info = (ValueError, ValueError("x"), None)
    lines = JournalFormatter(ConsoleFormatter()).format(one).splitlines()
    assert len(lines) > 1
    assert all(line.startswith(lead) for line in lines)


def test_only_the_journal_gets_priorities() -> None:
    for to_journal, lead in ((True, "<6>{"), (False, "{")):
        stream = io.StringIO()
        start_logs(stream, to_journal=to_journal)
        logging.getLogger("x").info("store.opened")
        assert stream.getvalue().startswith(lead)


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


def test_a_line_of_a_call_carries_its_request_id() -> None:
    stream, ids = io.StringIO(), iter(["r-1", ""])
    start_logs(stream, request_id=lambda: next(ids))
    for _ in range(2):
        logging.getLogger("broker.test").info("store.opened")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["request_id"] == "r-1"
    assert "request_id" not in second


def test_bytes_are_never_told_and_long_text_is_cut() -> None:
    line = json.loads(JsonFormatter().format(record("rpc.failed", raw=b"secret", text="x" * 9999)))
    assert line["raw"] == "<6 bytes>"
    assert len(line["text"]) == 501


def test_the_console_shows_an_event_on_one_line() -> None:
    line = ConsoleFormatter().format(record("rpc.failed", topic="a\nb"))
    assert line.endswith("rpc.failed topic='a\\nb'")


def test_a_line_that_repeats_is_counted_instead() -> None:
    now = [0.0]
    limit = RepeatLimit(lambda: now[0])
    told = [limit.filter(record("disk.full")) for _ in range(BURST + 5)]
    assert told == [True] * BURST + [False] * 5
    assert limit.filter(record("store.opened"))
    now[0] = WINDOW_SECONDS
    again, later = record("disk.full"), record("disk.full")
    assert limit.filter(again)
    assert limit.filter(later)
    assert vars(again)["suppressed"] == 5
    assert "suppressed" not in vars(later)


def test_critical_lines_are_always_told() -> None:
    limit = RepeatLimit(lambda: 0.0)
    failed = record("store.failed")
    failed.levelno = logging.CRITICAL
    assert all(limit.filter(failed) for _ in range(BURST + 5))


def test_many_events_do_not_fill_the_memory() -> None:
    limit = RepeatLimit(lambda: 0.0)
    assert all(limit.filter(record(f"a.b{number}")) for number in range(2500))
    assert len(limit._windows) <= 1000
