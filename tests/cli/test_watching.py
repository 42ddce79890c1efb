"""Watched output is repeated, over restarts of the broker, until Ctrl-C."""

import pytest

from pocketmq.cli.watching import repeat
from pocketmq.client import ClientError, Unreachable

GONE = Unreachable("Unreachable", "no broker answers", retryable=True)


class Picture:
    """A command's output: each try takes the next outcome, then comes Ctrl-C."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = list(outcomes)

    def show(self) -> None:
        """Shows it, or fail."""
        if not self.outcomes:
            raise KeyboardInterrupt
        error = self.outcomes.pop(0)
        if error is not None:
            raise error


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pocketmq.cli.watching.sleep", lambda seconds: None)


def test_a_broker_that_goes_away_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    picture = Picture(None, GONE, GONE, None, GONE)
    repeat(1.0, picture.show)
    assert capsys.readouterr().err.splitlines() == [
        "no broker answers; trying again until Ctrl-C",
        "The broker answers again.",
        "no broker answers; trying again until Ctrl-C",
    ]


def test_a_broker_that_was_never_there_is_an_error() -> None:
    with pytest.raises(Unreachable):
        repeat(1.0, Picture(GONE, None).show)


@pytest.mark.parametrize("error", [ValueError(), ClientError("TopicNotFound", "no topic")])
def test_what_does_not_pass_ends_it(error: Exception) -> None:
    with pytest.raises(type(error)):
        repeat(1.0, Picture(None, error).show)


def test_without_a_time_it_is_shown_once() -> None:
    picture = Picture(None, None)
    repeat(None, picture.show)
    assert len(picture.outcomes) == 1
