"""The property block: what goes in comes out, and odd blocks are read as RocketMQ reads them."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pocketmq.format.properties import (
    decode_properties,
    encode_properties,
    led_by_separator,
    property_key,
    property_pairs,
    property_text,
    property_value,
)
from pocketmq.model.errors import IllegalProperty
from pocketmq.model.message import RESERVED_PROPERTIES
from pocketmq.model.names import check_property

WORD = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1)
ODD_BLOCK = st.text("ab\x01\x02 é😀").map(str.encode)


def naive_properties(block: bytes) -> dict[str, str]:
    """Parses as MessageDecoder.string2messageProperties does, by indexes."""
    text = block.decode("utf-8", "replace")
    found: dict[str, str] = {}
    begin = 0
    while begin < len(text):
        end = text.find("\x02", begin)
        end = len(text) if end < 0 else end
        separator = text.find("\x01", begin)
        if end - begin >= 3 and begin < separator < end - 1:
            found[text[begin:separator]] = text[separator + 1 : end]
        begin = end + 1
    return found


def test_a_block_byte_by_byte() -> None:
    block = bytes.fromhex(
        "4b455953 01 6b31206b32 02"  # KEYS = k1 k2
        "54414753 01 54616741 02"  # .. TAGS = TagA
    )
    assert encode_properties({"KEYS": "k1 k2", "TAGS": "TagA"}) == block
    assert decode_properties(block) == {"KEYS": "k1 k2", "TAGS": "TagA"}


@given(st.dictionaries(WORD, WORD))
def test_properties_come_back_in_their_order(properties: dict[str, str]) -> None:
    found = decode_properties(encode_properties(properties))
    assert found == properties
    assert list(found) == list(properties)


@given(st.binary() | ODD_BLOCK)
@example(b"a\x01\x01b\x02")
@example(b"a\x01b\x02\x01c\x02d\x01\x02")
@example(b"\xff\x01\xc3\x28\x02a\x01\xe2\x82")
@settings(max_examples=500)
def test_any_block_reads_as_it_does_in_java(block: bytes) -> None:
    assert decode_properties(block) == naive_properties(block)


ODD_BLOCKS: dict[str, tuple[bytes, dict[str, str]]] = {
    "empty": (b"", {}),
    "no last separator": (b"a\x01b", {"a": "b"}),
    "no last separator of two": (b"a\x01b\x02c\x01d", {"a": "b", "c": "d"}),
    "empty value": (b"a\x01\x02c\x01d\x02", {"c": "d"}),
    "empty name": (b"\x01b\x02c\x01d\x02", {"c": "d"}),
    "no name separator": (b"ab\x02c\x01d\x02", {"c": "d"}),
    "duplicate": (b"a\x01b\x02a\x01c\x02", {"a": "c"}),
    "empty duplicate": (b"a\x01b\x02a\x01\x02", {"a": "b"}),
    "0x01 in a value": (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
    "empty pairs": (b"\x02\x02a\x01b\x02\x02", {"a": "b"}),
    "not UTF-8": (b"a\x01\xff\xfe\x02", {"a": "\ufffd\ufffd"}),
    "torn character": (b"a\x01\xe4\xbb\x02", {"a": "\ufffd"}),
}


@pytest.mark.parametrize("name", ODD_BLOCKS)
def test_an_odd_block(name: str) -> None:
    block, properties = ODD_BLOCKS[name]
    assert decode_properties(block) == properties
    assert decode_properties(memoryview(bytearray(block))) == properties
    assert naive_properties(block) == properties


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
@example("a\x02b", "c")
@example("a", "b\x02c")
def test_a_property_that_is_let_in_comes_back(name: str, value: str) -> None:
    try:
        check_property(name, value)
    except IllegalProperty:
        return
    assert name not in RESERVED_PROPERTIES
    assert decode_properties(encode_properties({name: value})) == {name: value}


@settings(max_examples=500)
@given(ODD_BLOCK)
@example(b"a\x01b\x02a\x01\x02")
@example(b"\x01a\x01b\x02a\x01")
def test_every_reader_of_a_block_finds_the_same_pairs(block: bytes) -> None:
    named = naive_properties(block)
    pairs = {name.decode(): value.decode() for name, value in property_pairs(block)}
    assert decode_properties(block) == pairs == named
    around = b"a\x019\x02" + block + b"\x02a\x018\x02"
    for name in {*named, "a", "b", "ab"}:
        key = property_key(name)
        assert property_text(led_by_separator(block), key) == named.get(name)
        value = property_value(around, key, 4, 4 + len(block))
        assert (None if value is None else value.decode()) == named.get(name)


@pytest.mark.parametrize(
    ("block", "found"),
    [
        (b"A\x011\x02B\x012\x02", b"2"),
        (b"B\x012", b"2"),
        (b"AB\x011\x02", None),
        (b"B\x011\x02A\x012\x02B\x013\x02", b"3"),
        (b"A\x010\x02B\x011\x02B\x012\x02", b"2"),
        (b"B\x011\x02A\x012\x02B\x01\x02", b"1"),
        (b"AB\x011\x02B\x01\x02", None),
        (b"A\x01B\x011\x02", None),
        (b"", None),
    ],
)
def test_a_property_is_found_by_its_whole_name(block: bytes, found: bytes | None) -> None:
    assert property_value(block, property_key("B"), 0, len(block)) == found
