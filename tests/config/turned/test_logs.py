"""Every setting of the logs, turned: what is told and how."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from pocketmq.config.load import load
from pocketmq.metrics.logs import start_logs


@pytest.fixture
def _logs_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def told(*assignments: str) -> list[str]:
    """Returns the lines of one event of each level."""
    stream, logs = io.StringIO(), load(assignments=assignments).logs
    start_logs(stream, logs.level, logs.format)
    logger = logging.getLogger("broker.test")
    for level in ("debug", "info", "warning", "error"):
        getattr(logger, level)("test.%s", level)
    return stream.getvalue().splitlines()


@pytest.mark.usefixtures("_logs_restored")
@pytest.mark.knob("logs.level")
@pytest.mark.parametrize(
    ("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)]
)
def test_what_is_below_the_level_is_not_told(level: str, count: int) -> None:
    assert len(told(f"logs.level={level}")) == count


@pytest.mark.usefixtures("_logs_restored")
@pytest.mark.knob("logs.format")
def test_lines_are_for_programs_or_for_people() -> None:
    (line,) = told("logs.level=error", "logs.format=json")
    assert json.loads(line)["event"] == "test.error"
    (line,) = told("logs.level=error", "logs.format=console")
    assert " ERROR test.error" in line
    (line,) = told("logs.level=error", "logs.format=auto")
    assert json.loads(line)["level"] == "error"
