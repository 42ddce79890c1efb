"""Watched output is repeated, over restarts of the broker, until Ctrl-C."""

import pytest

from pocketmq.cli.watching import repeat
from pocketmq.client import ClientError, Unreachable
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker
from tests.cli.test_vocabulary import COMMANDS

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


WATCHED = [
    "status",
    "topic producers orders",
    "topic stats",
    "topic stats orders",
    "group lag",
    "group members billing",
    "replica status",
]


def test_each_command_that_watches_is_among_these() -> None:
    watching = {
        path
        for path, command in COMMANDS.items()
        if any("--watch" in option.opts for option in command.params)
    }
    assert watching == {tuple(line.split()[:2]) if " " in line else (line,) for line in WATCHED}


@pytest.mark.parametrize("line", WATCHED)
def test_each_of_them_survives_a_restart_of_the_broker(
    broker: LocalBroker, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.fill(1)
    broker.stand("billing", "orders", q0=0)
    run(*line.split())
    errors = iter([GONE, GONE, None, KeyboardInterrupt()])

    def pass_time(seconds: float) -> None:
        broker.error = next(errors)

    monkeypatch.setattr("pocketmq.cli.watching.sleep", pass_time)
    done = run(*line.split(), "--watch", "2s", "-o", "jsonl")
    assert done.err.count("trying again until Ctrl-C") == 1
    assert done.err.rstrip().endswith("The broker answers again.")
    assert (done.code, len(done.out.splitlines()) % 2) in ((0, 0), (130, 0))


def test_without_a_time_it_is_shown_once() -> None:
    picture = Picture(None, None)
    repeat(None, picture.show)
    assert len(picture.outcomes) == 1
