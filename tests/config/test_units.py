"""Sizes and durations are read and shown exactly."""

import pytest

from broker.config.units import (
    MIB,
    duration_from_text,
    size_from_text,
    text_from_duration,
    text_from_size,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("64MiB", 64 * MIB), ("131072", 131_072), ("1 KiB", 1024), ("0", 0), ("7B", 7), ("-1", -1)],
)
def test_a_size_is_bytes_or_a_number_with_a_unit(text: str, size_bytes: int) -> None:
    assert size_from_text(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("72h", 259_200_000), ("500", 500), ("10s", 10_000), ("2m", 120_000), ("1d", 86_400_000)],
)
def test_a_duration_is_milliseconds_or_a_number_with_a_unit(text: str, duration_ms: int) -> None:
    assert duration_from_text(text) == duration_ms


@pytest.mark.parametrize("text", ["", "MiB", "1.5MiB", "64MB", "64mib", "1e3", "٣", "1 h"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="KiB"):
        size_from_text(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(64 * MIB, "64MiB"), (6_000_000, "6000000"), (1024 * MIB, "1GiB"), (0, "0"), (1025, "1025")],
)
def test_a_size_is_shown_in_the_largest_unit_that_fits(size_bytes: int, text: str) -> None:
    assert text_from_size(size_bytes) == text
    assert size_from_text(text) == size_bytes


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(500, "500ms"), (10_000, "10s"), (7_200_000, "2h"), (0, "0")]
)
def test_a_duration_is_shown_in_the_largest_unit_that_fits(duration_ms: int, text: str) -> None:
    assert text_from_duration(duration_ms) == text
    assert duration_from_text(text) == duration_ms
