"""Delay levels: what the text stands for, and when a record of a level is due."""

import pytest

from broker.model.delay_levels import DelayLevels

STORED_MS = 1_700_000_002_000


def test_the_default_table_has_the_eighteen_levels_of_rocketmq() -> None:
    levels = DelayLevels()
    seconds = [1, 5, 10, 30, *(60 * minute for minute in [*range(1, 11), 20, 30]), 3_600, 7_200]
    assert levels.delays_ms == tuple(1_000 * second for second in seconds)
    assert levels.level_max == 18


@pytest.mark.parametrize(
    ("text", "delays_ms"),
    [
        ("1s 2m 3h 4d", (1_000, 120_000, 10_800_000, 345_600_000)),
        ("  7s\t8s\n", (7_000, 8_000)),
        ("0s", (0,)),
        ("", ()),
    ],
)
def test_a_table_is_numbers_with_units(text: str, delays_ms: tuple[int, ...]) -> None:
    assert DelayLevels(text).delays_ms == delays_ms


@pytest.mark.parametrize("word", ["5", "s", "5x", "-5s", "1.5s", "5 s", "ss", "5S", "1w", "²s"])
def test_another_word_is_refused(word: str) -> None:
    with pytest.raises(ValueError):
        DelayLevels(f"1s {word}")


def test_a_refused_word_is_named() -> None:
    with pytest.raises(ValueError, match=r"'5x' is not a number followed by one of s, m, h, d"):
        DelayLevels("1s 5x")


@pytest.mark.parametrize(("level", "clamped"), [(-1, -1), (0, 0), (1, 1), (3, 3), (4, 3), (999, 3)])
def test_a_level_above_the_highest_is_lowered_to_it(level: int, clamped: int) -> None:
    assert DelayLevels("1s 2s 3s").clamp(level) == clamped


@pytest.mark.parametrize(
    ("level", "delay_ms"), [(1, 1_000), (3, 10_000), (18, 7_200_000), (0, 1_000), (19, 1_000)]
)
def test_a_record_is_due_so_long_after_it_was_stored(level: int, delay_ms: int) -> None:
    assert DelayLevels().deliver_at_ms(level, STORED_MS) == STORED_MS + delay_ms
