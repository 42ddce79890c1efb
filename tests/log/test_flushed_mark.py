"""The flushed mark: the newer sound slot counts, and only beside the checkpoint it was set with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.log.flushed_mark import MARK, MARK_FILE, SLOT_SIZE, FlushedMark
from broker.model.errors import DiskFull, FsyncFailed
from tests.fakes.quick_disk import QuickDisk, full_disk

CHECKPOINT = bytes(range(48))
OTHER = bytes(48)


class Mark:
    """The mark of one store.

    mark.set(100); mark.set(200); mark.tear(); assert mark.reopen() == 100
    """

    def __init__(self, directory: Path) -> None:
        self.disk = QuickDisk()
        self.path = directory / MARK_FILE
        self.mark = FlushedMark(self.disk, directory)

    def set(self, *offsets: int) -> None:
        """Set marks one after the other, each of them durable."""
        for flushed_upto in offsets:
            self.mark.write(flushed_upto, CHECKPOINT)
            self.mark.sync()

    def reopen(self, checkpoint: bytes = CHECKPOINT) -> int | None:
        """Open the mark anew, as a start does; returns what it says beside a checkpoint."""
        self.mark.close()
        self.mark = FlushedMark(self.disk, self.path.parent)
        self.mark.open()
        return self.mark.valid_upto(checkpoint)

    def slot_of_last(self) -> int:
        content = self.path.read_bytes()
        sequences = [MARK.struct.unpack_from(content, at)[0] for at in (0, SLOT_SIZE)]
        return SLOT_SIZE * sequences.index(max(sequences))

    def overwrite(self, position: int, content: bytes) -> None:
        held = bytearray(self.path.read_bytes())
        held[position : position + len(content)] = content
        self.path.write_bytes(held)

    def tear(self) -> None:
        """Leave half of what was written last, as a power cut does."""
        self.overwrite(self.slot_of_last() + 16, bytes(MARK.size - 16))


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Mark]:
    made = Mark(tmp_path)
    made.mark.open()
    yield made
    made.mark.close()


def test_a_new_store_has_no_mark_and_room_for_two(mark: Mark) -> None:
    assert mark.mark.valid_upto(OTHER) is None
    assert mark.path.stat().st_size == 2 * SLOT_SIZE
    mark.set(100, 200, 300)
    assert mark.disk.ranges("allocate") == [(0, 2 * SLOT_SIZE)]


def test_opening_changes_nothing(mark: Mark) -> None:
    mark.set(100)
    mark.disk.calls.clear()
    mark.reopen()
    assert not mark.disk.calls


def test_the_last_mark_counts(mark: Mark) -> None:
    for upto in (100, 200, 300):
        mark.set(upto)
        assert mark.mark.valid_upto(CHECKPOINT) == upto
        assert mark.reopen() == upto


def test_a_mark_of_0_is_a_mark(mark: Mark) -> None:
    mark.set(0)
    assert mark.reopen() == 0


def test_marks_are_written_in_turn(mark: Mark) -> None:
    mark.set(100, 200, 300, 400)
    positions = [position for position, _ in mark.disk.ranges("write_at")]
    assert positions == [SLOT_SIZE, 0, SLOT_SIZE, 0]


@pytest.mark.parametrize("offsets", [(100, 200), (100, 200, 300)])
def test_a_torn_slot_gives_way_to_the_other(mark: Mark, offsets: tuple[int, ...]) -> None:
    mark.set(*offsets)
    mark.tear()
    assert mark.reopen() == offsets[-2]


@pytest.mark.parametrize("position", [0, 7, 8, 15, 16, 63, 64, 67])
def test_any_flipped_bit_voids_its_slot(mark: Mark, position: int) -> None:
    mark.set(100, 200)
    at = mark.slot_of_last() + position
    mark.overwrite(at, bytes([mark.path.read_bytes()[at] ^ 1]))
    assert mark.reopen() == 100


def test_without_a_sound_slot_there_is_no_mark(mark: Mark) -> None:
    mark.set(100, 200)
    mark.overwrite(0, b"\xff" * 2 * SLOT_SIZE)
    assert mark.reopen() is None


def test_a_mark_goes_on_counting_after_a_tear(mark: Mark) -> None:
    mark.set(100, 200, 300)
    mark.tear()
    assert mark.reopen() == 200
    mark.set(250)
    assert mark.reopen() == 250


def test_another_checkpoint_voids_the_mark(mark: Mark) -> None:
    mark.set(100)
    assert mark.reopen(OTHER) is None
    assert mark.reopen(CHECKPOINT) == 100


def test_the_checkpoint_of_the_newest_mark_counts(mark: Mark) -> None:
    mark.mark.write(100, CHECKPOINT)
    mark.mark.write(200, OTHER)
    assert mark.reopen(CHECKPOINT) is None
    assert mark.reopen(OTHER) == 200


@pytest.mark.parametrize("size", [0, 10, SLOT_SIZE, SLOT_SIZE + 10])
def test_a_file_that_was_interrupted_in_the_making_is_taken_over(mark: Mark, size: int) -> None:
    mark.path.write_bytes(bytes(size))
    assert mark.reopen() is None
    mark.set(100, 200)
    assert mark.reopen() == 200
    assert mark.path.stat().st_size == 2 * SLOT_SIZE


def test_a_full_disk_may_be_tried_again(tmp_path: Path) -> None:
    mark = Mark(tmp_path)
    mark.disk.fail("make_sparse_file", full_disk())
    with pytest.raises(DiskFull):
        mark.mark.open()
    mark.mark.open()
    mark.disk.fail("allocate", full_disk())
    with pytest.raises(DiskFull):
        mark.set(100)
    assert mark.mark.valid_upto(CHECKPOINT) is None
    mark.set(200)
    assert mark.reopen() == 200
    mark.mark.close()


def test_syncing_is_a_step_of_its_own(mark: Mark) -> None:
    mark.mark.write(100, CHECKPOINT)
    assert not mark.disk.calls["sync"]
    mark.mark.sync()
    assert len(mark.disk.calls["sync"]) == 1
    mark.disk.fail("sync", FsyncFailed(why="Input/output error"))
    with pytest.raises(FsyncFailed):
        mark.mark.sync()


def test_what_is_durable_is_not_written_to(mark: Mark) -> None:
    mark.set(100)
    mark.mark.write(200, CHECKPOINT)
    mark.mark.write(300, CHECKPOINT)
    mark.tear()
    assert mark.reopen() == 100


def test_an_announced_checkpoint_leaves_the_mark_of_the_old_one(mark: Mark) -> None:
    mark.set(100)
    mark.mark.announce(OTHER)
    mark.mark.sync()
    mark.mark.write(200, CHECKPOINT)
    assert mark.mark.flushed_upto == 200
    assert mark.reopen(OTHER) == 100
    assert mark.reopen(CHECKPOINT) == 100


def test_an_announced_checkpoint_that_was_not_saved_is_written_over(mark: Mark) -> None:
    mark.set(100)
    mark.mark.announce(OTHER)
    mark.mark.sync()
    assert mark.reopen(CHECKPOINT) == 100
    mark.mark.write(150, CHECKPOINT)
    mark.tear()
    assert mark.reopen(CHECKPOINT) == 100


def test_a_settled_checkpoint_has_the_mark_that_was_held_back(mark: Mark) -> None:
    mark.set(100)
    mark.mark.announce(OTHER)
    mark.mark.sync()
    mark.mark.write(200, OTHER)
    mark.mark.settle()
    assert mark.reopen(OTHER) == 200
    assert mark.reopen(CHECKPOINT) is None


def test_closing_twice_is_fine(mark: Mark) -> None:
    mark.mark.close()
    mark.mark.close()
    assert mark.reopen() is None


def test_the_slot_is_laid_out_as_the_docstring_says(mark: Mark) -> None:
    assert [(field.name, MARK.positions[field.name]) for field in MARK.fields] == [
        ("sequence", 0),
        ("flushed_upto", 8),
        ("checkpoint", 16),
        ("crc", 64),
    ]
    mark.set(0x0102030405060708)
    content = mark.path.read_bytes()[SLOT_SIZE : SLOT_SIZE + 64]
    assert content == bytes([0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]) + CHECKPOINT
