"""Small tables in RocketMQ's dialect: read with and without quotes, written as it writes them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.table_json import (
    decode_rows,
    decode_table,
    encode_compact,
    encode_row,
    encode_rows,
    encode_table,
    read_number,
    read_texts,
    topic_row,
)
from tests.golden_stores import GoldenStores

STORES = ["basic", "semantics", "propcrc", "cqext", "rebuild-base", "v533"]

SAMPLE = b"""{
\t"dataVersion":{
\t\t"counter":3,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"offsetTable":{
\t\t"T@G":{
\t\t\t0:250,
\t\t\t1:7
\t\t}
\t}
}"""
SAMPLE_TABLE = {
    "dataVersion": {"counter": 3, "stateVersion": 0, "timestamp": 1_700_000_000_000},
    "offsetTable": {"T@G": {0: 250, 1: 7}},
}

NAME = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBER = st.integers(-(2**63), 2**63 - 1)
KEY = NAME | NUMBER.map(str)
LEAF = st.none() | st.booleans() | NUMBER | NAME
BRANCH = LEAF | st.lists(LEAF, max_size=3) | st.dictionaries(KEY, LEAF, max_size=3)
TABLE = st.dictionaries(KEY, BRANCH | st.dictionaries(KEY, BRANCH, max_size=2), max_size=3)


def test_a_table_as_rocketmq_writes_it() -> None:
    assert encode_table(SAMPLE_TABLE) == SAMPLE
    assert decode_table(SAMPLE) == SAMPLE_TABLE


def test_keys_may_be_numbers_in_memory_and_text_is_written_as_it_is() -> None:
    assert encode_table({"a": {0: 1, -1: 2}}) == b'{\n\t"a":{\n\t\t0:1,\n\t\t-1:2\n\t}\n}'
    assert encode_table({"主题": '😀\n"'}) == '{\n\t"主题":"😀\\n\\""\n}'.encode()


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ('{"T@G":{0:250,1:7\n\t\t}\n\t}', {"T@G": {0: 250, 1: 7}}),
        ('{"T@G":{"0":250, "1" : 7}}', {"T@G": {"0": 250, "1": 7}}),
        ("{ 0 : 1 , -5 :{ 7: 8 } }", {0: 1, -5: {7: 8}}),
        ("{}", {}),
        (' {"a":[1,2,{3:4}]}\n', {"a": [1, 2, {3: 4}]}),
        (r'{"a":"{0:1,2:3}","b\",7:8":{1:"\\"}}', {"a": "{0:1,2:3}", 'b",7:8': {1: "\\"}}),
        ('{"主题":true,"x":null}', {"主题": True, "x": None}),
    ],
)  # fmt: skip
def test_keys_are_read_with_and_without_quotes(text: str, table: dict[str, Any]) -> None:
    assert decode_table(text.encode()) == table


@pytest.mark.parametrize(
    "content",
    [b"", b" ", b"{", b"[]", b"[1]", b"1", b'"a"', b"null", b"{a:1}", b"{0.5:1}", b'{"a":1}}',
     b"\xff\xfe", b"\x00" * 100, b'{"a":"\n"}'],
)  # fmt: skip
def test_what_is_no_table_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):
        decode_table(content)


@given(TABLE)
@settings(max_examples=50)
def test_every_table_comes_back(table: dict[str, Any]) -> None:
    assert decode_table(encode_table(table)) == table


@given(TABLE, NAME, st.dictionaries(NAME, st.dictionaries(NAME | NUMBER, BRANCH, max_size=3)))
@settings(max_examples=100)
def test_rows_that_are_encoded_one_by_one_make_the_same_text(
    others: dict[str, Any], member: str, rows: dict[str, Any]
) -> None:
    others.pop(member, None)
    texts = {name: encode_row(row) for name, row in rows.items()}
    whole = encode_table(dict(sorted({**others, member: rows}.items())))
    assert encode_rows(others, member, texts) == whole


@pytest.mark.parametrize("store", STORES)
def test_every_real_table_can_be_read_and_comes_back(golden: GoldenStores, store: str) -> None:
    paths = sorted((golden.store(store) / "config").glob("*.json*"))
    tables = [decode_table(path.read_bytes()) for path in paths]
    assert len(tables) >= 12
    assert all("dataVersion" in t for t, p in zip(tables, paths, strict=True) if "topics" in p.name)
    assert [decode_table(encode_table(table)) for table in tables] == tables


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    "name", ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"]
)
@pytest.mark.parametrize("suffix", ["", ".bak"])
def test_a_table_of_ours_is_written_byte_for_byte_as_rocketmq_did(
    golden: GoldenStores, store: str, name: str, suffix: str
) -> None:
    content = (golden.store(store) / "config" / f"{name}{suffix}").read_bytes()
    assert encode_table(decode_table(content)) == content


def test_real_tables_do_hold_unquoted_keys(golden: GoldenStores) -> None:
    content = (golden.store("semantics") / "config" / "delayOffset.json").read_bytes()
    assert b"\n\t\t3:4,\n" in content
    assert decode_table(content)["offsetTable"][3] == 4


@pytest.mark.parametrize("text", ['{"rows":[]}', '{"rows":{"a":1}}', '{"rows":null}', "[]", "{"])
def test_rows_that_are_none_are_no_table(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_rows(text.encode(), "rows")


def test_rows_may_be_missing_and_a_version_that_is_none_is_left_out() -> None:
    assert decode_rows(b"{}", "rows") == {}
    assert decode_rows(b'{"dataVersion":7,"rows":{}}', "rows") == {"rows": {}}
    whole = {"dataVersion": {"counter": 1}, "rows": {"a": {"b": 1}}}
    assert decode_rows(encode_table(whole), "rows") == whole


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3), (-1, 0), (99, 9), ("3", 0), (None, 0), (2.5, 0), ([], 0)]
)
def test_numbers_of_a_row_are_clamped(value: object, number: int) -> None:
    assert read_number(value, 9) == number


def test_of_pairs_only_texts_are_read() -> None:
    assert read_texts({"a": "b", "c": 1, 2: "d"}) == {"a": "b"}
    assert read_texts(["a"]) == read_texts(None) == {}


def test_a_row_of_a_topic_is_as_rocketmq_writes_it() -> None:
    row = topic_row("orders", 4, 6, {"message.type": "NORMAL"})
    assert (row["readQueueNums"], row["writeQueueNums"], row["perm"]) == (4, 4, 6)
    assert decode_table(encode_table({"orders": row})) == {"orders": row}


# -- on one line -----------------------------------------------------------------------------------


def with_integers(value: Any) -> Any:
    """Returns the same with names that are integers as such."""
    if isinstance(value, list):
        return [with_integers(element) for element in value]
    if not isinstance(value, dict):
        return value
    integers = {k: str(int(k)) == k if k.lstrip("-").isdecimal() else False for k in value}
    return {int(k) if integers[k] else k: with_integers(v) for k, v in value.items()}


@given(TABLE)
def test_one_line_says_the_same(table: dict[str, Any]) -> None:
    text = encode_compact(table)
    assert b"\n" not in text
    assert decode_table(text) == with_integers(table)


def test_what_looks_like_a_name_within_a_text_stays() -> None:
    table = {'x"12': {0: ',"3":', -1: '{"4":'}, "05": 1}
    assert encode_compact(table) == rb'{"x\"12":{0:",\"3\":",-1:"{\"4\":"},"05":1}'
    assert decode_table(encode_compact(table)) == table
