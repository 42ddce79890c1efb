"""One rule for all decimal numbers in texts: which are some, and up to where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model.decimal import (
    decimal_size,
    number_in,
    number_of,
    number_of_bytes,
    signed_number_of,
    write_decimal,
)
from pocketmq.model.message import INT32_MAX, OFFSET_MAX
from pocketmq.native.machine import BytesWriter


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("17", 17),
        ("007", 7),
        ("0" * 40, 0),
        ("0" * 40 + "9", 9),
        (str(OFFSET_MAX), OFFSET_MAX),
        (str(OFFSET_MAX + 1), -1),
        ("9" * 19, -1),
        ("9" * 4_400, -1),
        ("", -1),
        ("+5", -1),
        ("-5", -1),
        (" 5", -1),
        ("5\n", -1),
        ("1_0", -1),
        ("x", -1),
        ("²", -1),
        ("٣", -1),
    ],
)
def test_a_number_of_all_three_forms(text: str, number: int) -> None:
    raw = text.encode()
    assert number_of(text) == number_of_bytes(raw) == number_in(raw, 0, len(raw)) == number


@given(st.text("0123456789+- ", max_size=24), st.integers(0, OFFSET_MAX))
def test_forms_agree_and_keep_the_limit(text: str, largest: int) -> None:
    raw = text.encode()
    whole = number_of(text)
    assert number_of_bytes(raw) == whole
    assert number_in(b"9" + raw + b"9", 1, 1 + len(raw)) == whole
    assert number_of(text, largest) == (whole if whole <= largest else -1)
    assert number_of_bytes(raw, largest) == number_of(text, largest)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("-0", 0),
        (str(INT32_MAX), INT32_MAX),
        (str(INT32_MAX + 1), None),
        (str(-INT32_MAX - 1), -INT32_MAX - 1),
        (str(-INT32_MAX - 2), None),
        ("--5", None),
        ("+-5", None),
        ("-", None),
        ("", None),
        ("1_0", None),
        (" 5", None),
    ],
)
def test_a_number_with_a_sign(text: str, number: int | None) -> None:
    assert signed_number_of(text, INT32_MAX) == number


@given(st.one_of(st.integers(0, OFFSET_MAX), st.integers(0, 1_001)))
def test_a_number_is_written_as_it_is_read(number: int) -> None:
    for each in (number, 10 ** (number % 19), 10 ** (number % 19) - 1, OFFSET_MAX):
        out = BytesWriter()
        write_decimal(out, each)
        assert out.getvalue() == b"%d" % each
        assert decimal_size(each) == len(out)
