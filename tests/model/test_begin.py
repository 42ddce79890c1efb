"""Texts of where a group begins."""

import pytest

from pocketmq.model.begin import BEGIN_MAX, BEGIN_MIN, begin_from_text, begin_text
from pocketmq.model.errors import IllegalBegin


@pytest.mark.parametrize(
    ("text", "begin_ms", "shown"),
    [
        ("min", BEGIN_MIN, "min"),
        ("0", BEGIN_MIN, "min"),
        ("max", BEGIN_MAX, "max"),
        ("1795228200000", 1_795_228_200_000, "2026-11-21T02:30:00Z"),
        ("2026-11-21T02:30:00.25Z", 1_795_228_200_250, "2026-11-21T02:30:00.250Z"),
        ("2026-11-21T00:30:00-02:00", 1_795_228_200_000, "2026-11-21T02:30:00Z"),
        ("1970-01-01T00:00:00.001Z", 1, "1970-01-01T00:00:00.001Z"),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_begin_has_one_text(text: str, begin_ms: int, shown: str) -> None:
    assert begin_from_text(text) == begin_ms
    assert begin_text(begin_ms) == shown
    assert begin_from_text(shown) == begin_ms


@pytest.mark.parametrize(
    "text",
    [
        "", "MIN", "first", "-1", "1.5", "1969-12-31T23:59:59Z", "2026-11-21",
        "2026-11-21T02:30:00",
        "9999-12-31T23:59:59-12:00", "253402300800000", "9" * 40, "²", "١", "2026-13-01T00:00:00Z",
    ],
)  # fmt: skip
def test_other_texts_are_none(text: str) -> None:
    with pytest.raises(IllegalBegin):
        begin_from_text(text)
