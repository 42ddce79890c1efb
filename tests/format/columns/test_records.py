"""Decoding by column says of every record what decoding one by one says."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.columns import properties
from pocketmq.format.columns.heads import BEHIND, FRONT, read_heads, sound_count, starts
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.columns.records import decode, spooled, units_of
from pocketmq.format.consume_unit import UNIT
from pocketmq.format.index_layout import STYLES, entry_keys, index_key, is_indexed, key_hash
from pocketmq.format.java_hash import java_hash
from pocketmq.format.record_scan import RecordScan, written_at
from pocketmq.model.message import has_queue_offset
from pocketmq.model.store_shape import DelayLevels
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import IPV4, IPV6, LogBytes, golden_files
from tests.kit.odd_records import fields, records
from tests.kit.records import columns_of

LEVELS = DelayLevels()
NOISE = b"KEYS\x01noise\x02UNIQ_KEY\x01n\x02TAGS\x01t\x02 "


def by_column(content: bytes, base: int, style: str) -> list[tuple[Any, ...]]:
    """Decodes by column: (entry without texts, unit, index entries) of each record."""
    front = (NOISE * 3)[:FRONT].rjust(FRONT)
    buffer = bytearray(front + content + (NOISE * (BEHIND // len(NOISE) + 1))[:BEHIND])
    heads = read_heads(buffer, starts(buffer, FRONT, FRONT + len(content)))
    heads = heads.take(slice(sound_count(heads, base - FRONT)))
    queues = QueueTable()
    decoded = decode(buffer, heads, queues, style=style, levels=LEVELS)
    rows = spooled(decoded)
    entries: list[list[tuple[int, int, int]]] = [[] for _ in range(len(heads))]
    for record, row in zip(decoded.entries.record.tolist(), rows.tolist(), strict=True):
        entries[record].append(row)
    return [
        (queues.keys[queue], queue_offset, is_queued, unit.tobytes(), found)
        for queue, queue_offset, is_queued, unit, found in zip(
            decoded.queue.tolist(), heads.queue_offset.tolist(), decoded.is_queued.tolist(),
            units_of(decoded), entries, strict=True,
        )
    ]  # fmt: skip


def one_by_one(content: bytes, base: int, style: str) -> list[tuple[Any, ...]]:
    """The same by the plain decoder."""
    found: list[tuple[Any, ...]] = []
    for position, _ in RecordScan(content, base):
        record = columns_of(written_at(content, position, LEVELS))
        place, size, code, time_ms, topic, queue_id, queue_offset, unique, keys, tag, kind = record
        texts = entry_keys(unique, keys, tag, style) if is_indexed(kind) else []
        entries = [(key_hash(java_hash(index_key(topic, text))), place, time_ms) for text in texts]
        unit = UNIT.pack(place, size, code)
        found.append(((topic, queue_id), queue_offset, has_queue_offset(kind), unit, entries))
    return found


@settings(max_examples=150)
@given(rows=records)
def test_odd_records_are_read_alike(rows: list[dict[str, Any]]) -> None:
    content = content_of(*rows)
    for style in STYLES:
        assert by_column(content, 0, style) == one_by_one(content, 0, style)


@pytest.mark.parametrize(
    "name", ["basic", "semantics", "propcrc", "cqext", "v533", "crash-kill.before"]
)
def test_golden_logs_are_read_alike(golden: GoldenStores, name: str) -> None:
    count = 0
    for file in golden_files(golden, name):
        content = Path(file.path).read_bytes()
        found = by_column(content, file.base, "5.5")
        assert found == one_by_one(content, file.base, "5.5")
        count += len(found)
    assert count == golden.manifest(name)["recordCount"]


def content_of(*rows: dict[str, Any]) -> bytes:
    log = LogBytes(Path("/none"), 1 << 23)
    for row in rows:
        log.add(**row)
    return bytes(log.files[0])


long_values = st.builds(
    lambda part, count: part * count,
    st.sampled_from(
        [b" ", b"a ", b" b  ", b"\xe9\x94\xae ", b"\xff", b"order-7 ", b"x", b"\xf0\x9f"]
    ),
    st.integers(0, 6_000),
)
large = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["T", "SCHEDULE_TOPIC_XXXX", "%RETRY%" + "g" * 140]),
        "queue_id": st.integers(0, 1),
        "block": st.lists(
            st.tuples(
                st.sampled_from([b"KEYS", b"TAGS", b"UNIQ_KEY", b"DELAY", b"A"]), long_values
            ),
            max_size=3,
        ).map(lambda found: b"\x02".join(b"\x01".join(pair) for pair in found)[:32_000]),
    }
)


@settings(max_examples=50)
@given(st.lists(st.one_of(large, fields), min_size=1, max_size=9), st.sampled_from([700, 1 << 22]))
def test_large_properties_are_read_alike(rows: list[dict[str, Any]], rows_size: int) -> None:
    content = content_of(*rows)
    with patch.object(properties, "ROWS_SIZE_MAX", rows_size):
        for style in STYLES:
            assert by_column(content, 0, style) == one_by_one(content, 0, style)


@pytest.mark.parametrize(
    "text",
    ["1", "0", "-1", "+2", "18", "19", "007", "9999999999", "99999999999", " 3", "3 ", "3.0", "٣",
     "1e1", "0x3", "3\n", "three", "-0", "2147483648", "3\x01"],
)  # fmt: skip
def test_delay_levels_as_odd_texts(text: str) -> None:
    block = f"TAGS\x01t\x02DELAY\x01{text}\x02".encode()
    content = content_of(
        *({"topic": topic, "block": block} for topic in ("SCHEDULE_TOPIC_XXXX", "T")),
        {"topic": "SCHEDULE_TOPIC_XXXX", "block": b"DELAY\x01\x02" + block},
        {"topic": "SCHEDULE_TOPIC_XXXX"},
    )
    assert by_column(content, 0, "5.5") == one_by_one(content, 0, "5.5")


@pytest.mark.parametrize("character", ["a", "键", "😀", "\x7f"])
def test_more_key_text_than_is_hashed_in_one_go(character: str) -> None:
    """A thousand long keys and more than 70,000 characters of them in one chunk."""
    keys = [" ".join(f"{number}-{piece}" + character * 90 for piece in range(30)) for number in
            range(40)]  # fmt: skip
    content = content_of(*({"keys": key, "queue_offset": n} for n, key in enumerate(keys)))
    assert sum(map(len, keys)) > 70_000
    assert by_column(content, 0, "5.5") == one_by_one(content, 0, "5.5")


def test_keys_around_the_longest_that_is_hashed_at_once() -> None:
    rows = [
        {"keys": "k" * n + " " + "l" * n, "block": b"TAGS\x01" + b"t" * n + b"\x02"}
        for n in (1, 7, 8, 9, 510, 511, 512, 513, 1_000)
    ]
    content = content_of(*rows)
    assert by_column(content, 0, "5.5") == one_by_one(content, 0, "5.5")


def test_a_hash_without_an_absolute_value_is_zero() -> None:
    # "T#" + KEY hashes to -2**31.
    key = "jllgx0D"
    assert java_hash(index_key("T", key)) == -(2**31)
    ((_, _, _, _, ((found, _, _),)),) = by_column(content_of({"keys": key}), 0, "5.5")
    assert found == 0


@pytest.mark.parametrize("flags", [0, 4, 8, 12, 0x30, 0x7FFF_FFCF])
def test_transaction_types_decide_on_units_and_entries(flags: int) -> None:
    rows = [
        {"keys": "k", "flags": flags & ~0x30, "born": IPV6, "host": host} for host in (IPV4, IPV6)
    ]
    content = content_of(*rows, {"keys": "k"})
    for style in STYLES:
        found = by_column(content, 0, style)
        assert found == one_by_one(content, 0, style)
        assert [len(row[4]) for row in found] == [int(flags & 12 != 12)] * 2 + [1]
        assert [row[2] for row in found] == [flags & 12 in (0, 8)] * 2 + [True]


def test_no_records_are_no_columns() -> None:
    assert by_column(b"", 0, "5.5") == []
    assert by_column(bytes(200), 0, "5.5") == []
