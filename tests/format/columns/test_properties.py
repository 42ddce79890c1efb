"""Where property values lie: what the parser of one block says, for many at once."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.columns import properties as module
from pocketmq.format.columns.heads import BEHIND, FRONT, Heads
from pocketmq.format.columns.properties import find_properties, split_keys
from pocketmq.format.properties import decode_properties
from tests.kit.odd_records import blocks

NAMES = {
    "unique_key": "UNIQ_KEY", "keys": "KEYS", "tags": "TAGS", "delay": "DELAY",
    "multi_queue_offset": "INNER_MULTI_QUEUE_OFFSET",
}  # fmt: skip


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


def test_names_need_their_whole_length() -> None:
    odd = [
        b"UNIQ_KEYS\x01a\x02", b"XKEYS\x01a\x02", b"KEYS", b"KEYS\x01", b"TAGS\x01\x02",
        b"DELAY1\x013", b"INNER_MULTI_DISPATCH\x01a\x02", b"INNER_MULTI_queue_OFFSET\x017\x02",
    ]  # fmt: skip
    assert found_by_column(odd) == [{}] * len(odd)


def test_blocks_of_all_sizes_go_through_classes() -> None:
    found = [
        b"A\x01" + b"x" * size + b"\x02KEYS\x01k%d" % size for size in (0, 9, 300, 32_000, 5)
    ] * 60
    rows = found_by_column(found)
    assert rows == [{"KEYS": block.rpartition(b"\x01")[2]} for block in found]


spaced = st.text("ab ", min_size=1, max_size=20).map(lambda text: f"KEYS\x01{text}\x02".encode())
long_texts = st.builds(
    lambda part, count: part * count,
    st.sampled_from([b" ", b"a ", b" b", b"\xe9\x94\xae", b"\xff", b"\x01", b"key-7 "]),
    st.integers(0, 5_000),
)
long_blocks = st.lists(
    st.builds(
        lambda name, value: (name + b"\x01" + value)[:20_000] + b"\x02",
        st.sampled_from([name.encode() for name in (*NAMES.values(), "other")]),
        long_texts,
    ),
    max_size=3,
).map(b"".join)


@settings(max_examples=200)
@given(
    st.lists(st.one_of(blocks, spaced, long_blocks.map(lambda b: b[:32_767])), max_size=12),
    st.sampled_from([1, 70, 5_000, 1 << 22]),
)
def test_values_are_the_parsers_and_keys_are_split_at_single_spaces(
    found: list[bytes], rows_size: int
) -> None:
    """Long blocks and short ones, looked at in one go, in classes, or one by one."""
    with patch.object(module, "ROWS_SIZE_MAX", rows_size):
        rows = found_by_column(found)
        buffer, heads = heads_of(found)
        pieces, ordinals = split_keys(buffer, find_properties(buffer, heads).keys)
    keys: list[list[bytes]] = [[] for _ in found]
    columns = zip(*(column.tolist() for column in pieces), ordinals.tolist(), strict=True)
    for record, begin, length, ordinal in columns:
        assert len(keys[record]) == ordinal
        keys[record].append(bytes(buffer[begin : begin + length]))
    for block, row, split in zip(found, rows, keys, strict=True):
        parsed = decode_properties(block)
        wanted = {name: parsed[name] for name in NAMES.values() if name in parsed}
        assert {name: value.decode("utf-8", "replace") for name, value in row.items()} == wanted
        assert split == [piece for piece in row.get("KEYS", b"").split(b" ") if piece]


@pytest.mark.parametrize(
    ("block", "wanted"),
    [
        (b"KEYS\x01a\x02KEYS\x01b\x02", b"b"),
        (b"KEYS\x01a\x02KEYS\x01\x02", b"a"),
        (b"KEYS\x01a\x01b\x02", b"a\x01b"),
        (b"KEYS\x01\x01\x02", b"\x01"),
        (b"KEYS\x01KEYS\x01a\x02", b"KEYS\x01a"),
        (b"X\x01KEYS\x01a\x02", None),
        (b"\x01KEYS\x01a\x02", None),
        (b"\x02KEYS\x01a", b"a"),
        (b"\x02\x02KEYS\x01 \x02", b" "),
        (b"\xffKEYS\x01a\x02", None),
        (b"\xe8\xae\x02KEYS\x01\xe5\x8d\x02", b"\xe5\x8d"),
        (b"KEYS\x02KEYS\x01", None),
        (b"KEYSKEYS\x01a\x02", None),
        (b"keys\x01a\x02", None),
        (b"KEYS\0\x01a\x02", None),
    ],
)
def test_odd_pairs(block: bytes, wanted: bytes | None) -> None:
    for found in ([block], [b"", block, b"KEYS\x01z\x02"], [block] * 3):
        rows = found_by_column(found)
        assert rows[found.index(block)].get("KEYS") == wanted
        parsed = decode_properties(block).get("KEYS")
        assert parsed == (None if wanted is None else wanted.decode("utf-8", "replace"))
