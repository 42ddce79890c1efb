"""Units land where their queue offset says: in bulk, one by one, and over gaps and repeats."""

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.consume_unit import PRE_BLANK, UNIT
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.errors import IllegalTopic
from pocketmq.rebuild import unit_files
from pocketmq.rebuild.sequential import IrregularQueue
from pocketmq.rebuild.unit_files import QueueFiles, UnitWriter
from tests.kit.golden_log import files_below
from tests.sim.quick_disk import QuickDisk

KEYS = [("A", 0), ("B", 1)]


def units_of(numbers: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
    units = np.zeros(len(numbers), dtype=UNIT_TYPE)
    units["physical_offset"], units["size"] = numbers, 1
    return units


def a_writer(files: QueueFiles, keys: list[tuple[str, int]]) -> UnitWriter:
    writer = UnitWriter(files)
    for topic, queue_id in keys:
        writer.queues.add(topic.encode(), queue_id)
    return writer


def written(tmp_path: Path, batches: list[tuple[list[int], list[int]]]) -> tuple[UnitWriter, Path]:
    files = QueueFiles(tmp_path / "q", 60)
    writer = a_writer(files, KEYS)
    place = 0
    for queues, offsets in batches:
        numbers = list(range(place, place + len(queues)))
        place += len(queues)
        writer.add(np.array(queues), np.array(offsets), units_of(numbers))
    writer.flush()
    files.close()
    return writer, tmp_path / "q"


def test_runs_cross_files(tmp_path: Path) -> None:
    writer, directory = written(tmp_path, [([0, 1, 0, 0, 1, 0, 0], [0, 4, 1, 2, 5, 3, 4])])
    found = files_below(directory)
    assert found["A/0/" + "0" * 20] == b"".join(UNIT.pack(n, 1, 0) for n in (0, 2, 3))
    assert found["A/0/" + f"{60:020d}"] == UNIT.pack(5, 1, 0) + UNIT.pack(6, 1, 0) + bytes(20)
    assert found["B/1/" + f"{60:020d}"][20:60] == UNIT.pack(1, 1, 0) + UNIT.pack(4, 1, 0)
    assert {key: (run.first, run.end, run.is_regular) for key, run in writer.runs.items()} == {
        0: (0, 5, True), 1: (4, 6, True),
    }  # fmt: skip


@pytest.mark.parametrize("offsets", [[0, 2], [1, 1], [3, 2], [-1, 0]])
def test_offsets_that_do_not_follow_make_a_queue_irregular(
    tmp_path: Path, offsets: list[int]
) -> None:
    at_once, _ = written(tmp_path / "a", [([0, 0, 1], [*offsets, 0])])
    apart, _ = written(tmp_path / "b", [([0], offsets[:1]), ([0, 1], [offsets[1], 0])])
    for writer in (at_once, apart):
        assert not writer.runs[0].is_regular
        assert writer.runs[1].is_regular


def test_runs_of_several_flushes_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_files, "UNITS_HELD", 2)
    monkeypatch.setattr(unit_files, "UNITS_HELD_PER_QUEUE", 1)
    writer, directory = written(tmp_path, [([0, 0], [0, 1]), ([0], [2]), ([0], [3])])
    assert (writer.runs[0].end, writer.runs[0].is_regular) == (4, True)
    assert len(files_below(directory)) == 2


def test_a_name_that_is_no_topic_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(IllegalTopic):
        QueueFiles(tmp_path / "q", 60).write(("../up", 0), 0, memoryview(bytes(20)))
    assert not (tmp_path / "up").exists()


firsts = st.dictionaries(st.integers(0, 6), st.sampled_from([0, 1, 2, 3, 4, 8, 100]), min_size=1)


@settings(max_examples=80)
@given(firsts, st.lists(st.integers(0, 6), max_size=40), st.integers(1, 9), st.integers(1, 9))
def test_queues_that_follow_are_the_brokers(
    first: dict[int, int], order: list[int], batch: int, held: int
) -> None:
    """Any number of batches and flushes; fronts filled at the end."""
    order = [queue for queue in order if queue in first]
    following = dict(first)
    rows = []
    for place, queue in enumerate(order):
        rows.append((queue, following[queue], place))
        following[queue] += 1
    keys = [("T", number) for number in range(7)]
    with (
        TemporaryDirectory() as scratch,
        patch.object(unit_files, "UNITS_HELD", held),
        patch.object(unit_files, "UNITS_HELD_PER_QUEUE", 0),
        patch.object(unit_files, "OPEN_FILES_MAX", 3),
    ):
        files = QueueFiles(Path(scratch) / "found", 60)
        writer = a_writer(files, keys)
        for begin in range(0, len(rows), batch):
            queues, offsets, places = zip(*rows[begin : begin + batch], strict=True)
            writer.add(np.array(queues), np.array(offsets), units_of(list(places)))
        writer.flush()
        for number, run in writer.runs.items():
            assert (run.first, run.end) == (first[number], following[number])
            assert run.is_regular
            files.fill(keys[number], run.first)
        files.close()
        for queue, offset, place in rows:
            _put(Path(scratch) / "plain", queue, offset, place)
        assert files_below(Path(scratch) / "found") == files_below(Path(scratch) / "plain")


def _put(directory: Path, queue_id: int, queue_offset: int, place: int) -> None:
    found = ConsumeQueue(QuickDisk(), directory / f"T/{queue_id}", 60, topic="T", queue_id=queue_id)
    found.load()
    found.put(place, 1, 0, queue_offset)
    found.files.close()


def test_several_hundred_queues_of_one_unit_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_files, "OPEN_FILES_MAX", 50)
    keys = [(f"topic-{number}", number % 4) for number in range(400)]
    files = QueueFiles(tmp_path, 60)
    writer = a_writer(files, keys)
    chance = np.random.default_rng(7)
    for turn in range(5):
        order = chance.permutation(400)
        writer.add(order, np.full(400, turn), units_of((order + 1_000 * turn).tolist()))
        if turn == 2:
            writer.flush()
    writer.flush()
    files.close()
    for number, (topic, queue_id) in enumerate(keys):
        found = b"".join(files_below(tmp_path / topic / str(queue_id)).values())
        wanted = b"".join(UNIT.pack(number + 1_000 * turn, 1, 0) for turn in range(5))
        assert found == wanted + bytes(20)


def test_more_queues_than_a_short_number_holds(tmp_path: Path) -> None:
    """The order of the units of one queue is kept."""
    keys = [("T", number) for number in range(70_000)]
    files = QueueFiles(tmp_path, 60)
    writer = a_writer(files, keys)
    queues = np.array([65_536, 0, 65_536, 0, 69_999, 65_536])
    writer.add(queues, np.array([0, 0, 1, 1, 0, 2]), units_of(list(range(1, 7))))
    writer.flush()
    files.close()
    found = files_below(tmp_path)
    assert sorted(found) == [f"T/{number}/{0:020d}" for number in (0, 65_536, 69_999)]
    assert found[f"T/65536/{0:020d}"] == b"".join(UNIT.pack(n, 1, 0) for n in (1, 3, 6))


def test_a_front_of_a_long_file(tmp_path: Path) -> None:
    """RocketMQ's file size of six million bytes asks for as many units in front as fit."""
    size = 20 * 300_000
    files = QueueFiles(tmp_path, size)
    files.write(("T", 0), 599_999, memoryview(UNIT.pack(9, 1, 0)))
    files.fill(("T", 0), 599_999)
    files.close()
    content = (tmp_path / f"T/0/{size:020d}").read_bytes()
    assert content == PRE_BLANK * 299_999 + UNIT.pack(9, 1, 0)


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
