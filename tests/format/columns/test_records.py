"""Decoding by column says of every record what decoding one by one says."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from broker.format.columns.heads import BEHIND, FRONT, read_heads, sound_count, starts
from broker.format.columns.queues import QueueTable
from broker.format.columns.records import decode, spooled, units_of
from broker.format.consume_unit import UNIT
from broker.format.index_layout import STYLES, entry_keys, index_key, is_indexed, key_hash
from broker.format.java_hash import java_hash
from broker.format.record import has_queue_offset
from broker.format.record_scan import RecordScan, dispatch_entry
from broker.model.delay_levels import DelayLevels
from tests.fakes.log_bytes import LogBytes, golden_files
from tests.fakes.odd_records import records
from tests.golden_stores import GoldenStores

LEVELS = DelayLevels()
NOISE = b"KEYS\x01noise\x02UNIQ_KEY\x01n\x02TAGS\x01t\x02 "


def by_column(content: bytes, base: int, style: str) -> list[tuple[Any, ...]]:
    """What decoding by column says: (entry without texts, unit, index entries) of each record."""
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
        entry = dispatch_entry(content, position, LEVELS)
        place, size, code, time_ms, topic, queue_id, queue_offset, unique, keys, tag, kind = entry
        texts = entry_keys(unique, keys, tag, style) if is_indexed(entry) else []
        entries = [(key_hash(java_hash(index_key(topic, text))), place, time_ms) for text in texts]
        unit = UNIT.pack(place, size, code)
        found.append(((topic, queue_id), queue_offset, has_queue_offset(kind), unit, entries))
    return found


@settings(max_examples=150, deadline=None, derandomize=True)
@given(rows=records)
def test_odd_records_are_read_alike(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as scratch:
        log = LogBytes(Path(scratch) / "s", 1 << 20)
        for row in rows:
            log.add(**row)
    content = bytes(log.files[0])
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


def test_blocks_of_very_different_sizes_are_looked_at_in_classes(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 1 << 23)
    for number in range(400):
        filler = b"x" * (20_000 if number % 50 == 0 else number % 7)
        log.add(
            block=b"A\x01" + filler + b"\x02UNIQ_KEY\x01u%d\x02TAGS\x01t\x02" % number, keys="a b"
        )
    content = bytes(log.files[0])
    assert by_column(content, 0, "5.5") == one_by_one(content, 0, "5.5")


def test_no_records_are_no_columns() -> None:
    assert by_column(b"", 0, "5.5") == []
    assert by_column(bytes(200), 0, "5.5") == []


def test_entries_are_twenty_bytes(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 1 << 12)
    log.add(keys="a")
    (row,) = by_column(bytes(log.files[0]), 0, "5.3")
    assert len(row[4]) == 1
    assert (
        np.dtype([("hash", "<i4"), ("physical_offset", "<i8"), ("time_ms", "<i8")]).itemsize == 20
    )
