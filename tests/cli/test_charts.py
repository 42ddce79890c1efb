"""Bars and sparklines keep their proportions, with and without block characters."""

import io
import sys

import pytest

from pocketmq.cli.charts import SPARK_COUNT, bar, can_draw_blocks, sparkline


@pytest.mark.parametrize(
    ("value", "blocks", "plain"),
    [(0, "", ""), (1, "▏", "#"), (50, "██", "##"), (75, "███", "###"), (100, "████", "####"),
     (31, "█▎", "#"), (200, "████", "####")],
)  # fmt: skip
def test_a_bar_is_as_long_as_its_share(value: int, blocks: str, plain: str) -> None:
    assert bar(value, 100, 4) == blocks
    assert bar(value, 100, 4, blocks=False) == plain


def test_nothing_has_no_bar() -> None:
    assert (bar(0, 0), bar(5, 0)) == ("", "")


def test_a_sparkline_has_its_top_at_the_largest_value() -> None:
    assert sparkline([0, 1, 2, 4, 7]) == "▁▂▃▅█"
    assert sparkline([0, 1, 2, 4, 9], blocks=False) == "01249"
    assert (sparkline([0, 0]), sparkline([])) == ("▁▁", "")


def test_a_sparkline_shows_the_last_values() -> None:
    assert sparkline([100] + [1] * SPARK_COUNT) == "█" * SPARK_COUNT


@pytest.mark.parametrize(("encoding", "can"), [("utf-8", True), ("ascii", False)])
def test_blocks_are_drawn_where_they_can_be_encoded(
    monkeypatch: pytest.MonkeyPatch, encoding: str, can: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert can_draw_blocks() is can
