"""What is watched is shown again and again, until Ctrl-C."""

import click
import pytest

from broker.cli.options import repeat, watch_option


def test_without_an_interval_it_is_shown_once() -> None:
    shown: list[int] = []
    repeat(None, lambda: shown.append(1))
    assert shown == [1]


def test_with_one_it_goes_on_until_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []

    def pause(seconds: float) -> None:
        assert seconds == 0.5
        if len(shown) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", pause)
    repeat(0.5, lambda: shown.append(1))
    assert len(shown) == 3


def test_an_error_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        repeat(1.0, fail)


@pytest.mark.parametrize(("given", "expected"), [("2", 2.0), ("0.5", 0.5), (None, None)])
def test_the_option_takes_seconds(given: str | None, expected: float | None) -> None:
    @click.command()
    @watch_option
    def command(watch_s: float | None) -> float | None:
        return watch_s

    arguments = [] if given is None else ["--watch", given]
    assert command.main(arguments, standalone_mode=False) == expected


def test_an_interval_of_nothing_is_refused() -> None:
    @click.command()
    @watch_option
    def command(watch_s: float | None) -> None:
        pass

    with pytest.raises(click.BadParameter):
        command.main(["--watch", "0"], standalone_mode=False)
