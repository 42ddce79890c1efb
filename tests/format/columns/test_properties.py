"""Where property values lie: what the parser of one block says, for many at once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.format.columns import properties as module
from broker.format.columns.heads import BEHIND, FRONT, Heads
from broker.format.columns.properties import find_properties, split_keys
from broker.format.properties import decode_properties
from tests.fakes.odd_records import blocks

NAMES = {"unique_key": "UNIQ_KEY", "keys": "KEYS", "tags": "TAGS", "delay": "DELAY"}


def heads_of(found: list[bytes]) -> tuple[bytearray, Heads]:
    buffer = bytearray(FRONT)
    begins = []
    for block in found:
        begins.append(len(buffer))
        buffer += block + b"\x02KEYS\x01behind\x02"
    buffer += bytes(BEHIND)
    zeros = np.zeros(len(found), dtype=np.int64)
    sizes = np.array([len(block) for block in found], dtype=np.int64)
    fields = dict.fromkeys(Heads.__dataclass_fields__, zeros)
    fields |= {"block_begin": np.array(begins, dtype=np.int64), "block_size": sizes}
    return buffer, Heads(**fields)


def found_by_column(found: list[bytes]) -> list[dict[str, bytes]]:
    buffer, heads = heads_of(found)
    rows: list[dict[str, bytes]] = [{} for _ in found]
    for part, spans in find_properties(buffer, heads)._asdict().items():
        for record, begin, length in zip(*(column.tolist() for column in spans), strict=True):
            assert NAMES[part] not in rows[record]
            rows[record][NAMES[part]] = bytes(buffer[begin : begin + length])
    return rows


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(blocks, max_size=10))
def test_values_are_the_parsers(found: list[bytes]) -> None:
    for block, row in zip(found, found_by_column(found), strict=True):
        parsed = decode_properties(block)
        wanted = {name: parsed[name] for name in NAMES.values() if name in parsed}
        assert {name: value.decode("utf-8", "replace") for name, value in row.items()} == wanted


def test_names_need_their_whole_length() -> None:
    odd = [
        b"UNIQ_KEYS\x01a\x02",
        b"XKEYS\x01a\x02",
        b"KEYS",
        b"KEYS\x01",
        b"TAGS\x01\x02",
        b"DELAY1\x013",
    ]
    assert found_by_column(odd) == [{}] * len(odd)


def test_blocks_of_all_sizes_go_through_classes() -> None:
    found = [
        b"A\x01" + b"x" * size + b"\x02KEYS\x01k%d" % size for size in (0, 9, 300, 32_000, 5)
    ] * 60
    rows = found_by_column(found)
    assert rows == [{"KEYS": block.rpartition(b"\x01")[2]} for block in found]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.text("ab ", min_size=1, max_size=20), max_size=8))
def test_keys_are_split_at_single_spaces(found: list[str]) -> None:
    buffer, heads = heads_of([f"KEYS\x01{text}\x02".encode() for text in found])
    pieces, ordinals = split_keys(buffer, find_properties(buffer, heads).keys)
    rows: list[list[str]] = [[] for _ in found]
    columns = zip(*(column.tolist() for column in pieces), ordinals.tolist(), strict=True)
    for record, begin, length, ordinal in columns:
        assert len(rows[record]) == ordinal
        rows[record].append(buffer[begin : begin + length].decode())
    assert rows == [[piece for piece in text.split(" ") if piece] for text in found]


def test_the_words_of_names_are_nine_bytes_at_most() -> None:
    assert all(len(begin) <= 8 for begin in module._BEGINS)
