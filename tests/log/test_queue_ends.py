"""The table of queue ends: that of the checkpoint is found, never another one, never a damaged."""

from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as some

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.log.queue_ends import QUEUE_ENDS_FILE, QueueEnd, QueueEnds
from broker.model.errors import DiskFull, ReadFailed
from broker.model.offsets import QueueKey
from tests.fakes.quick_disk import QuickDisk

FIRST, SECOND, THIRD = (bytes([number]) * 48 for number in (1, 2, 3))
OFFSETS = some.integers(0, 2**63 - 1)
ROWS = some.dictionaries(
    some.tuples(some.text(min_size=1, max_size=9), some.integers(0, 2**31 - 1)),
    some.builds(QueueEnd, OFFSETS, OFFSETS, OFFSETS, OFFSETS, OFFSETS),
    max_size=6,
)
ONE: Mapping[QueueKey, QueueEnd] = {("T", 0): QueueEnd(0, 40, 200, 0, 0)}
OTHER: Mapping[QueueKey, QueueEnd] = {("T", 0): QueueEnd(0, 60, 300, 0, 0)}


@pytest.fixture
def ends(tmp_path: Path) -> QueueEnds:
    return QueueEnds(QuickDisk(), tmp_path)


@given(rows=ROWS)
def test_what_was_saved_is_loaded(tmp_path_factory: pytest.TempPathFactory, rows: object) -> None:
    assert isinstance(rows, dict)
    ends = QueueEnds(QuickDisk(), tmp_path_factory.mktemp("own"))
    ends.save(FIRST, rows)
    assert ends.load(FIRST) == rows


def test_a_store_without_a_table_has_nothing(ends: QueueEnds) -> None:
    assert ends.load(FIRST) == {}


def test_until_a_checkpoint_is_saved_the_one_before_has_its_table(ends: QueueEnds) -> None:
    ends.save(FIRST, ONE)
    ends.save(SECOND, OTHER)
    assert ends.load(FIRST) == ONE
    assert ends.load(SECOND) == OTHER
    assert ends.load(THIRD) == {}


def test_a_table_with_any_bit_changed_is_none(ends: QueueEnds, tmp_path: Path) -> None:
    ends.save(FIRST, ONE)
    path = tmp_path / QUEUE_ENDS_FILE
    sound = path.read_bytes()
    for bit in range(8 * len(sound)):
        changed = bytearray(sound)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        assert ends.load(FIRST) in ({}, ONE)


def test_a_table_cut_short_is_none(ends: QueueEnds, tmp_path: Path) -> None:
    ends.save(FIRST, ONE)
    path = tmp_path / QUEUE_ENDS_FILE
    sound = path.read_bytes()
    for length in range(len(sound)):
        path.write_bytes(sound[:length])
        assert ends.load(FIRST) == {}


def test_on_a_full_disk_there_is_none(ends: QueueEnds) -> None:
    ends.save(FIRST, ONE)
    with patch.object(TableFile, "write", side_effect=DiskFull(path="here")):
        ends.save(FIRST, OTHER)
    assert ends.load(FIRST) == {}


def test_one_that_cannot_be_read_is_none(ends: QueueEnds, tmp_path: Path) -> None:
    ends.save(FIRST, ONE)
    (tmp_path / QUEUE_ENDS_FILE).unlink()
    (tmp_path / QUEUE_ENDS_FILE).mkdir()
    with pytest.raises(ReadFailed):
        QuickDisk().read_file(tmp_path / QUEUE_ENDS_FILE)
    assert ends.load(FIRST) == {}


def test_removed_no_start_finds_one(ends: QueueEnds, tmp_path: Path) -> None:
    ends.save(FIRST, ONE)
    ends.save(SECOND, OTHER)
    ends.remove()
    assert [*tmp_path.iterdir()] == []
    ends.remove()
    QueueEnds(Disk(), tmp_path / "none").remove()
    assert ends.load(FIRST) == ends.load(SECOND) == {}
