"""Texts of options mean one value however they are written."""

import time
from collections.abc import Iterator

import click
import pytest

from pocketmq.cli.options import (
    DURATION,
    MOMENT,
    duration_from_text,
    moment_from_text,
    wall_ms,
)

NOW_MS = 1_795_228_200_000  # 2026-11-21T02:30:00Z


@pytest.fixture
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-11-21T02:30:00Z", NOW_MS),
        ("2026-11-21T03:30:00.250+01:00", NOW_MS + 250),
        ("1795228200000", NOW_MS),
        ("0", 0),
        ("now", NOW_MS),
        ("-15m", NOW_MS - 900_000),
        ("15m", NOW_MS - 900_000),
        ("-500ms", NOW_MS - 500),
        ("-1d", NOW_MS - 86_400_000),
        ("-999999999d", 0),
    ],
)
def test_a_moment_is_read(text: str, time_ms: int) -> None:
    assert moment_from_text(text, NOW_MS) == time_ms


@pytest.mark.usefixtures("_berlin")
@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-11-21T03:30:00", NOW_MS),
        ("2026-11-21#03:30:00:250", NOW_MS + 250),
        ("2026-11-21", NOW_MS - 12_600_000),
        ("2026-07-01T00:00:00", 1_782_856_800_000),
    ],
)
def test_without_an_offset_the_machines_zone_is_meant(text: str, time_ms: int) -> None:
    assert moment_from_text(text, NOW_MS) == time_ms


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "-15", "15 m", "2026-11-21#", "72", "1795228200"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        moment_from_text(text, NOW_MS)


@pytest.mark.parametrize(
    ("text", "duration_ms"), [("30s", 30_000), ("500ms", 500), ("5m", 300_000), ("0", 0)]
)
def test_a_duration_is_read(text: str, duration_ms: int) -> None:
    assert duration_from_text(text) == duration_ms


@pytest.mark.parametrize("text", ["-1s", "soon", "", "500"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        duration_from_text(text)


def test_parameters_read_texts_and_leave_numbers() -> None:
    assert MOMENT.convert("1795228200000", None, None) == NOW_MS
    assert MOMENT.convert(7, None, None) == 7
    assert MOMENT.convert("now", None, None) <= wall_ms()
    assert DURATION.convert("2s", None, None) == 2_000


def test_a_parameter_says_what_it_takes() -> None:
    with pytest.raises(click.BadParameter, match="-15m"):
        MOMENT.convert("yesterday", None, None)
    with pytest.raises(click.BadParameter, match="72 has no unit"):
        MOMENT.convert("72", None, None)
