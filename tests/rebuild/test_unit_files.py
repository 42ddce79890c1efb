"""Units land at twenty bytes times their queue offset, across files, in bulk or one by one."""

from pathlib import Path

import numpy as np
import pytest

from broker.format.consume_unit import PRE_BLANK, UNIT, UNIT_TYPE
from broker.model.errors import IllegalTopic
from broker.rebuild import unit_files
from broker.rebuild.unit_files import QueueFiles, UnitWriter
from tests.fakes.golden_log import files_below

KEYS = [("A", 0), ("B", 1)]


def units_of(numbers: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
    units = np.zeros(len(numbers), dtype=UNIT_TYPE)
    units["physical_offset"], units["size"] = numbers, 1
    return units


def written(tmp_path: Path, batches: list[tuple[list[int], list[int]]]) -> tuple[UnitWriter, Path]:
    files = QueueFiles(tmp_path / "q", 60)
    writer = UnitWriter(files, KEYS)
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


def test_more_files_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_files, "OPEN_FILES_MAX", 2)
    files = QueueFiles(tmp_path, 60)
    for turn in range(2):
        for queue_id in range(5):
            files.write(("T", queue_id), turn, memoryview(UNIT.pack(turn + 1, 1, queue_id)))
    files.close()
    for queue_id in range(5):
        content = (tmp_path / f"T/{queue_id}/{0:020d}").read_bytes()
        assert content == UNIT.pack(1, 1, queue_id) + UNIT.pack(2, 1, queue_id) + bytes(20)


def test_the_front_is_filled_from_the_files_start(tmp_path: Path) -> None:
    files = QueueFiles(tmp_path, 60)
    for first, queue_id in ((0, 0), (2, 1), (5, 2)):
        files.write(("T", queue_id), first, memoryview(UNIT.pack(9, 1, 0)))
        files.fill(("T", queue_id), first)
    files.close()
    assert (tmp_path / f"T/1/{0:020d}").read_bytes() == PRE_BLANK * 2 + UNIT.pack(9, 1, 0)
    assert (tmp_path / f"T/2/{60:020d}").read_bytes() == PRE_BLANK * 2 + UNIT.pack(9, 1, 0)


def test_a_name_that_is_no_topic_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(IllegalTopic):
        QueueFiles(tmp_path / "q", 60).write(("../up", 0), 0, memoryview(bytes(20)))
    assert not (tmp_path / "up").exists()
