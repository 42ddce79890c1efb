"""Queues with gaps and repeats: the broker's own rule, and the one for records that are gone."""

from pathlib import Path

import numpy as np
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


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=14), st.integers(0, 14))
def test_the_rule_is_the_brokers(offsets: list[int], cut: int) -> None:
    from tempfile import TemporaryDirectory

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
