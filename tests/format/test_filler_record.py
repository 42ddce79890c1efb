"""Stand-ins fill their place to the byte, and every reader takes them for sound records."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pocketmq.format import filler_record as module
from pocketmq.format.filler_record import (
    Style,
    size_min,
    stand_in,
    stand_in_to_file_end,
)
from pocketmq.format.record import BLANK_SIZE, check_record, decode_record
from pocketmq.format.record_scan import RecordScan, written_at
from pocketmq.model.message import TRANSACTION_ROLLBACK
from pocketmq.model.names import check_topic
from pocketmq.model.store_shape import DelayLevels
from pocketmq.model.topic import QUARANTINE_TOPIC

PLAIN = Style(1_795_000_000_000, property_crc=False)
MARKED = Style(1_795_000_000_000, property_crc=True)
STYLES = [PLAIN, MARKED]


@settings(max_examples=60)
@given(st.sampled_from(STYLES), st.integers(0, 2_000), st.integers(0, 1 << 40))
@example(PLAIN, 0, 0)
@example(MARKED, 17, 7)
def test_one_record_fills_the_place(style: Style, spare: int, begin: int) -> None:
    size = size_min(style) + spare
    (record,) = stand_in(begin, begin + size, style)
    assert len(record) == size
    assert check_record(record, 0, begin, property_crc=style.property_crc) == size
    message = decode_record(record)
    assert (message.store_timestamp_ms, message.body.strip(b"\0")) == (style.time_ms, b"")
    assert QUARANTINE_TOPIC.startswith(message.topic)
    assert (message.topic == QUARANTINE_TOPIC) == (spare >= len(QUARANTINE_TOPIC) - 1)
    assert written_at(record, 0, DelayLevels()).destination.transaction == TRANSACTION_ROLLBACK
    check_topic(message.topic)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [999, 1_000, 1_001, 1_999, 2_000, 2_001, 7_777])
def test_long_damage_is_stood_for_by_several(
    monkeypatch: pytest.MonkeyPatch, style: Style, size: int
) -> None:
    monkeypatch.setattr(module, "SIZE_MAX", 1_000)
    records = list(stand_in(500, 500 + size, style))
    assert len(records) == -(-size // 1_000)
    assert max(map(len, records)) <= 1_000
    joined = bytes(500) + b"".join(records)
    assert sum(size for _, size in RecordScan(joined, 0, 500, crc=True)) == size


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [8, 91, 107, 120, 128, 5_000])
def test_a_file_ends_with_a_blank(style: Style, size: int) -> None:
    begin = 8_192 - size
    content = bytes(begin) + b"".join(
        stand_in_to_file_end(begin, 8_192, style, holds_records=True)
    ).ljust(size, b"\0")
    assert len(content) == 8_192
    scan = RecordScan(content, 0, begin, crc=True)
    sizes = [size for _, size in scan]
    assert scan.blank
    has_room = size - BLANK_SIZE >= size_min(style)
    assert sizes == ([size - BLANK_SIZE] if has_room else [])


def test_a_damaged_blank_is_written_again_alone() -> None:
    (blank,) = stand_in_to_file_end(0, 4_096, PLAIN, holds_records=False)
    assert len(blank) == BLANK_SIZE
