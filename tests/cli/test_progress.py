"""The bar: on a terminal only, seldom redrawn, whole at the end, closed whatever happens."""

import io
import sys
from types import SimpleNamespace

import pytest

from pocketmq.cli.output import REDRAW_SECONDS, amount, progress
from tests.kit.terminal import Terminal

DRAWN = "\r"
"""What every drawing begins with."""
CURSOR_SHOWN = "\x1b[?25h\n"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time, for click's estimate of the rest as well."""
    clock = Clock()
    monkeypatch.setattr("time.time", clock)
    return clock


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal."""
    terminal = Terminal()
    # Not sys.stderr itself: pytest puts its own there between a fixture and its test.
    monkeypatch.setattr("pocketmq.cli.output.sys", SimpleNamespace(stderr=terminal))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return terminal


def test_off_a_terminal_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Reading", 2 << 30) as advance:
        advance(2 << 30)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("total", "variables"), [(100, {"NO_COLOR": "1"}), (100, {"TERM": "dumb"}), (0, {})]
)
def test_nor_where_it_is_to_stay_plain_or_there_is_nothing_to_do(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, total: int, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with progress("Reading", total) as advance:
        advance(total)
    assert terminal.getvalue() == ""


def test_a_process_may_have_no_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("Reading", 100) as advance:
            advance(100)


def test_on_a_terminal_it_tells_share_rest_and_speed(
    terminal: Terminal, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("Reading", 4_000_000, clock=clock) as advance:
        clock.now = 1.0
        advance(1_000_000)
        assert "25%  00:00:03  1.0 MB  1.0 MB/s" in terminal.getvalue()
        clock.now = 2.0
        advance(3_000_000)
    text = terminal.getvalue()
    assert text.startswith(DRAWN)
    assert "Reading" in text
    assert "100%  4.0 MB  2.0 MB/s" in text
    assert capsys.readouterr().out == ""


def test_it_is_drawn_ten_times_a_second_at_most(terminal: Terminal, clock: Clock) -> None:
    with progress("Reading", 4_000, clock=clock) as advance:
        for step in range(4_000):
            clock.now = step / 2_000
            advance(1)
        drawn = terminal.getvalue().count(DRAWN)
        assert 10 < drawn <= 2 / REDRAW_SECONDS + 1
    assert "100%" in terminal.getvalue()


@pytest.mark.parametrize(("done", "share"), [(60, "60%"), (250, "100%")])
def test_what_was_told_last_is_drawn_in_the_end(
    terminal: Terminal, clock: Clock, done: int, share: str
) -> None:
    with progress("Reading", 100, clock=clock) as advance:
        advance(done)
        assert share not in terminal.getvalue()
    assert share in terminal.getvalue()
    assert terminal.getvalue().endswith(CURSOR_SHOWN)


@pytest.mark.parametrize("kind", [ValueError, OSError, KeyboardInterrupt])
def test_an_error_leaves_the_line_ended_and_the_cursor_shown(
    terminal: Terminal, clock: Clock, kind: type[BaseException]
) -> None:
    with pytest.raises(kind), progress("Reading", 100, clock=clock) as advance:
        advance(10)
        raise kind
    assert terminal.getvalue().endswith(CURSOR_SHOWN)


def test_work_goes_on_when_the_terminal_is_gone(terminal: Terminal, clock: Clock) -> None:
    with progress("Reading", 100, clock=clock) as advance:
        terminal.is_gone = True
        for step in range(100):
            clock.now = float(step)
            advance(1)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_500, "1.5 kB"),
        (620_000_000, "620 MB"),
        (2_550_000_000, "2.5 GB"),
        (7_000_000_000_000_000, "7000 TB"),
    ],
)
def test_amounts(count: int, text: str) -> None:
    assert amount(count) == text
