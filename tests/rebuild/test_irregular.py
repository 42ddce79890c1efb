"""Queues with gaps and repeats: the broker's own rule, and the one for records that are gone."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.format.consume_unit import PRE_BLANK, UNIT, UNIT_TYPE
from broker.log.consume_queue import ConsumeQueue
from broker.rebuild.irregular import IrregularQueue
from broker.rebuild.unit_files import QueueFiles
from tests.fakes.golden_log import files_below
from tests.fakes.quick_disk import QuickDisk

FILE_SIZE = 80


def rebuilt(
    directory: Path, offsets: list[int], cut: int, gaps: list[tuple[int, int]]
) -> tuple[IrregularQueue, bytes]:
    files = QueueFiles(directory, FILE_SIZE)
    queue = IrregularQueue(files, ("T", 0), gaps)
    units = np.zeros(len(offsets), dtype=UNIT_TYPE)
    units["physical_offset"], units["size"] = np.arange(len(offsets)) * 1_000, 100
    for part in (slice(cut), slice(cut, None)):
        queue.put(np.array(offsets[part], dtype=np.int64), units[part])
    files.close()
    return queue, b"".join(files_below(directory).values())


@settings(max_examples=150)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=14), st.integers(0, 14))
def test_the_rule_is_the_brokers(offsets: list[int], cut: int) -> None:
    with TemporaryDirectory() as scratch:
        plain = ConsumeQueue(QuickDisk(), Path(scratch) / "plain", FILE_SIZE, topic="T", queue_id=0)
        for number, queue_offset in enumerate(offsets):
            plain.put(number * 1_000, 100, 0, queue_offset)
        plain.files.close()
        queue, found = rebuilt(Path(scratch) / "found", offsets, cut, [])
        assert found == b"".join(files_below(Path(scratch) / "plain").values())
        assert (queue.first, queue.end) == (offsets[0], plain.max_offset)


def unit(number: int) -> bytes:
    return UNIT.pack(number * 1_000, 100, 0)


def test_where_records_are_gone_pre_blank_units_stand(tmp_path: Path) -> None:
    queue, found = rebuilt(tmp_path, [0, 1, 4, 5], 2, [(1_100, 1_400)])
    assert found[:120] == unit(0) + unit(1) + PRE_BLANK * 2 + unit(2) + unit(3)
    assert queue.end == 6


def test_a_gap_elsewhere_or_too_large_for_what_is_gone_stays_the_brokers(tmp_path: Path) -> None:
    for number, gaps in enumerate([[(5_000, 9_000)], [(1_100, 1_150)], [(0, 1_000)]]):
        _, found = rebuilt(tmp_path / str(number), [0, 1, 4], 1, gaps)
        assert found[:60] == unit(0) + unit(1) + unit(2)


gone = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 900)), max_size=4)


@settings(max_examples=150)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=14), st.integers(0, 14), gone)
def test_with_records_gone_the_rule_is_the_brokers_too(
    offsets: list[int], cut: int, found_gone: list[tuple[int, int]]
) -> None:
    """Any offsets, and bytes gone behind any records: each record is 100 bytes of 1,000."""
    gaps = sorted({1_000 * number + 100: 1_000 * number + 100 + size
                   for number, size in found_gone if size}.items())  # fmt: skip
    with TemporaryDirectory() as scratch:
        plain = ConsumeQueue(QuickDisk(), Path(scratch) / "plain", FILE_SIZE, topic="T", queue_id=0)
        for number, queue_offset in enumerate(offsets):
            plain.put(number * 1_000, 100, 0, queue_offset, gaps)
        plain.files.close()
        queue, found = rebuilt(Path(scratch) / "found", offsets, cut, gaps)
        assert found == b"".join(files_below(Path(scratch) / "plain").values())
        assert (queue.first, queue.end) == (offsets[0], plain.max_offset)


@pytest.mark.parametrize("first", [0, 3, 4, 5, 37, 1_000])
def test_fronts_begin_where_the_first_messages_file_begins(tmp_path: Path, first: int) -> None:
    queue, found = rebuilt(tmp_path, [first, first + 2], 1, [])
    front = first % (FILE_SIZE // 20)
    assert found[: 20 * front + 40] == PRE_BLANK * front + unit(0) + unit(1)
    assert (queue.first, queue.end) == (first, first + 2)


def test_what_does_not_follow_is_counted(tmp_path: Path) -> None:
    for offsets, count, place in (
        ([0, 1, 2], 0, -1),
        ([0, 2, 3], 2, 1_000),
        ([0, 0, 1], 2, 1_000),
        ([5, 6, 6, 7], 1, 2_000),
    ):
        queue, _ = rebuilt(tmp_path / str(offsets), offsets, 1, [])
        assert (queue.odd_count, queue.odd_place) == (count, place), offsets


def test_a_large_hole_is_filled_across_files(tmp_path: Path) -> None:
    queue, found = rebuilt(tmp_path / "enough", [0, 9], 1, [(100, 100 + 91 * 8)])
    assert found == unit(0) + PRE_BLANK * 8 + unit(1) + bytes(40)
    assert (queue.end, queue.odd_count) == (10, 0)
    queue, found = rebuilt(tmp_path / "too small", [0, 9], 1, [(100, 99 + 91 * 8)])
    assert found == unit(0) + unit(1) + bytes(40)
    assert (queue.end, queue.odd_count) == (2, 1)
