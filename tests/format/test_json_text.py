"""The only reader of small JSON files returns writable values, or an error."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.json_text import is_integer, read_json, read_object, table_of
from pocketmq.format.table_json import decode_members, decode_rows, offset_rows, queue_offsets

HOSTILE = [
    b"\xff{}", b'{"a":"\\ud800"}', b'{"\\udfff":1}', b'{"a":NaN}', b'{"a":-Infinity}',
    b'{"a":1e999}',
    b'{"a":9223372036854775808}', b'{"a":-9223372036854775809}', b'{"a":' + b"9" * 9_999 + b"}",
    b"[" * 100_000, b'{"a":' * 100_000, b"", b"{", b"{'a':1}",
]  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBER = st.integers(-(2**63), 2**63 - 1)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBER | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize("content", HOSTILE, ids=lambda content: content[:24].decode("latin-1"))
def test_what_could_not_be_kept_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):
        read_json(content)
    with pytest.raises(ValueError):
        decode_members(content)


@given(ANYTHING)
def test_what_is_read_can_be_written(value: Any) -> None:
    assert read_json(json.dumps(value)) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(ValueError):
        value = read_json(content)
        assert json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def test_of_a_name_that_is_there_twice_the_last_one_counts() -> None:
    assert read_json('{"a":1,"a":2}') == {"a": 2}
    assert decode_rows(b'{"t":{"a":{}},"t":{"b":{}}}', "t")["t"] == {"b": {}}


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert read_json(r'"\ud83d\ude00"') == "😀"


@pytest.mark.parametrize("content", [b"null", b"[]", b"3", b'"a"'])
def test_what_is_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        read_object(content)


def test_a_boolean_is_no_integer() -> None:
    assert [is_integer(value, 0, 9) for value in (0, 9, 10, -1, True, 1.0, "1", None)] == (
        [True, True] + [False] * 6
    )
    assert table_of([1]) == table_of(None) == {}


@given(ANYTHING)
def test_rows_of_any_kind_are_offsets_or_left_out(value: Any) -> None:
    assert all(at >= 0 for _, _, _, at in offset_rows({"offsetTable": value}))
    assert all(queue_id >= 0 for queue_id in queue_offsets(value))


def test_a_row_without_a_value_is_none() -> None:
    for text in (b'{"offsetTable":null}', b'{"offsetTable":{"T@G":null}}'):
        with pytest.raises(ValueError, match="not a table of rows"):
            decode_rows(text, "offsetTable")
    assert offset_rows({"offsetTable": {"T@G": {"0": 7, "x": 1, "1": -1, "2": True}}}) == [
        ("G", "T", 0, 7)
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\n", "it is empty"),
        (bytes(512), "it contains only zeros"),
        (b'{"a":\n{"b":1,', "it ends too early, at line 2, column 8, byte 13"),
        (b'{"a":\n 1 2}', "it is no valid JSON at line 2, column 4, byte 9"),
        ('{"é":1}x'.encode(), "it is no valid JSON at line 1, column 8, byte 8"),
        ('{"é":"'.encode() + b"\xff", "it is no valid UTF-8 at line 1, column 7, byte 7"),
        (b'{"a":"\\ud800"}', "a text in it has half of a surrogate pair"),
    ],
    ids=range(8),
)
def test_the_error_states_the_place_in_the_file(content: bytes, why: str) -> None:
    for read in (read_json, decode_members):
        with pytest.raises(ValueError) as caught:
            read(content)
        assert str(caught.value) == why
