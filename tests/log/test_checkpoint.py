"""The checkpoint file, six numbers as a real broker left them, and the flushed mark beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import CheckpointValues
from pocketmq.format.names import MARK_FILE
from pocketmq.log.checkpoint import (
    CONFIRMED,
    MARK,
    OLDEST,
    SLOT_SIZE,
    FlushedMark,
    StoreCheckpoint,
)
from pocketmq.model.errors import DiskFull, FsyncFailed
from pocketmq.model.message import OFFSET_MAX
from tests.golden_stores import NAMES, GoldenStores
from tests.sim.quick_disk import QuickDisk, full_disk

SAMPLE = CheckpointValues(1700000000123, 1700000000456, 0, 0, 285, 0)
SAMPLE_BYTES = bytes.fromhex("0000018bcfe5687b 0000018bcfe569c8" + 16 * "00" + "000000000000011d")


@pytest.fixture
def disk() -> QuickDisk:
    return QuickDisk()


@pytest.fixture
def checkpoint(disk: QuickDisk, tmp_path: Path) -> Iterator[StoreCheckpoint]:
    made = StoreCheckpoint(disk, tmp_path / "checkpoint")
    yield made
    made.close()


def reopen(checkpoint: StoreCheckpoint) -> CheckpointValues:
    anew = StoreCheckpoint(Disk(), checkpoint.path)
    anew.load()
    return anew.values


@pytest.mark.parametrize("name", NAMES)
def test_a_real_checkpoint_reads_as_its_broker_tells(golden: GoldenStores, name: str) -> None:
    told = golden.manifest(name).get("checkpoint")
    checkpoint = StoreCheckpoint(Disk(), golden.store(name) / "checkpoint")
    checkpoint.load()
    assert checkpoint.values == (CheckpointValues(*told.values()) if told else CheckpointValues())


def test_a_store_without_a_checkpoint_has_zeros(checkpoint: StoreCheckpoint) -> None:
    checkpoint.load()
    assert checkpoint.values == CheckpointValues(0, 0, 0, 0, 0, 0)
    assert not checkpoint.path.exists()


def test_the_file_has_the_bytes_of_the_sample(checkpoint: StoreCheckpoint) -> None:
    checkpoint.save(SAMPLE)
    content = checkpoint.path.read_bytes()
    assert (content[:40], len(content)) == (SAMPLE_BYTES, 4096)
    assert not any(content[40:])


def test_what_was_saved_last_is_read_back(checkpoint: StoreCheckpoint) -> None:
    """Closing twice is fine, and saving opens again."""
    checkpoint.save(SAMPLE)
    checkpoint.close()
    checkpoint.close()
    checkpoint.save(SAMPLE._replace(logics_physical_offset=77))
    assert checkpoint.values == reopen(checkpoint) == SAMPLE._replace(logics_physical_offset=77)


@pytest.mark.parametrize("size", [0, 24, 40, 47])
def test_a_file_of_an_older_or_interrupted_writer_reads_as_zeros_where_it_ends(
    checkpoint: StoreCheckpoint, size: int
) -> None:
    values = CheckpointValues(1, 2, 3, 4, 5, 6)
    checkpoint.save(values)
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:size])
    kept = size // 8
    assert reopen(checkpoint) == CheckpointValues(*values[:kept])


def test_an_existing_file_keeps_its_other_bytes(checkpoint: StoreCheckpoint) -> None:
    checkpoint.path.write_bytes(b"\xff" * 4096)
    checkpoint.save(SAMPLE)
    assert checkpoint.path.read_bytes()[48:] == b"\xff" * 4048


def test_each_save_is_synced_before_it_counts(disk: QuickDisk, checkpoint: StoreCheckpoint) -> None:
    checkpoint.save(SAMPLE)
    disk.fail("sync", FsyncFailed(why="Input/output error"))
    with pytest.raises(FsyncFailed):
        checkpoint.save(CheckpointValues())
    assert checkpoint.values == SAMPLE


@pytest.mark.parametrize("call", ["make_sparse_file", "allocate"])
def test_a_full_disk_may_be_tried_again(
    disk: QuickDisk, checkpoint: StoreCheckpoint, call: str
) -> None:
    disk.fail(call, full_disk())
    with pytest.raises(DiskFull):
        checkpoint.save(SAMPLE)
    assert checkpoint.values == CheckpointValues()
    checkpoint.save(SAMPLE)
    assert reopen(checkpoint) == SAMPLE
    assert checkpoint.path.stat().st_blocks * 512 >= 4096


SAVED = bytes(range(48))
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
        """Sets marks one after the other, each of them durable."""
        for flushed_upto in offsets:
            self.mark.write(flushed_upto, SAVED)
            self.mark.sync()

    def reopen(self, checkpoint: bytes = SAVED) -> int | None:
        """Opens the mark anew, as a start does; returns what it says beside a checkpoint."""
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
        """Leaves half of what was written last, as a power cut does."""
        self.overwrite(self.slot_of_last() + 16, bytes(MARK.size - 16))


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Mark]:
    made = Mark(tmp_path)
    made.mark.open()
    yield made
    made.mark.close()


def test_a_new_store_has_no_mark_until_one_is_set_and_room_for_two(mark: Mark) -> None:
    assert mark.mark.valid_upto(OTHER) is None
    assert not mark.path.exists()
    mark.set(100, 200, 300)
    assert mark.path.stat().st_size == 2 * SLOT_SIZE
    assert mark.disk.ranges("allocate") == [(0, 2 * SLOT_SIZE)]


def test_the_last_mark_counts(mark: Mark) -> None:
    for upto in (0, 100, 200, 300):
        mark.set(upto)
        assert mark.mark.valid_upto(SAVED) == upto
        mark.mark.close()
        assert mark.reopen() == upto


def test_marks_are_written_in_turn_and_opening_changes_nothing(mark: Mark) -> None:
    mark.set(100, 200, 300, 400)
    positions = [position for position, _ in mark.disk.ranges("write_at")]
    assert positions == [SLOT_SIZE, 0, SLOT_SIZE, 0]
    mark.disk.calls.clear()
    mark.reopen()
    assert not mark.disk.calls


@pytest.mark.parametrize("offsets", [(100, 200), (100, 200, 300)])
def test_a_torn_slot_gives_way_to_the_other(mark: Mark, offsets: tuple[int, ...]) -> None:
    """The mark goes on counting after that; without a sound slot there is none."""
    mark.set(*offsets)
    mark.tear()
    assert mark.reopen() == offsets[-2]
    mark.set(250)
    assert mark.reopen() == 250
    mark.overwrite(0, b"\xff" * 2 * SLOT_SIZE)
    assert mark.reopen() is None


@pytest.mark.parametrize("position", [0, 7, 8, 15, 16, 63, 64, 67])
def test_any_flipped_bit_voids_its_slot(mark: Mark, position: int) -> None:
    mark.set(100, 200)
    at = mark.slot_of_last() + position
    mark.overwrite(at, bytes([mark.path.read_bytes()[at] ^ 1]))
    assert mark.reopen() == 100


def test_another_checkpoint_voids_the_mark(mark: Mark) -> None:
    mark.set(100)
    assert mark.reopen(OTHER) is None
    assert mark.reopen(SAVED) == 100


def test_the_checkpoint_of_the_newest_mark_counts(mark: Mark) -> None:
    mark.mark.write(100, SAVED)
    mark.mark.write(200, OTHER)
    assert mark.reopen(SAVED) is None
    assert mark.reopen(OTHER) == 200


@pytest.mark.parametrize("size", [0, 10, SLOT_SIZE, SLOT_SIZE + 10])
def test_a_file_that_was_interrupted_in_the_making_is_taken_over(mark: Mark, size: int) -> None:
    mark.path.write_bytes(bytes(size))
    assert mark.reopen() is None
    mark.set(100, 200)
    assert mark.reopen() == 200
    assert mark.path.stat().st_size == 2 * SLOT_SIZE


def test_a_full_disk_may_be_tried_again_for_the_mark_too(tmp_path: Path) -> None:
    mark = Mark(tmp_path)
    mark.mark.open()
    mark.disk.fail("make_sparse_file", full_disk())
    with pytest.raises(DiskFull):
        mark.set(100)
    mark.disk.fail("allocate", full_disk())
    with pytest.raises(DiskFull):
        mark.set(100)
    assert mark.mark.valid_upto(SAVED) is None
    mark.set(200)
    assert mark.reopen() == 200
    mark.mark.close()


def test_syncing_is_a_step_of_its_own(mark: Mark) -> None:
    mark.mark.write(100, SAVED)
    assert not mark.disk.calls["sync"]
    mark.mark.sync()
    assert len(mark.disk.calls["sync"]) == 1
    mark.disk.fail("sync", FsyncFailed(why="Input/output error"))
    with pytest.raises(FsyncFailed):
        mark.mark.sync()


def test_what_is_durable_is_not_written_to(mark: Mark) -> None:
    mark.set(100)
    mark.mark.write(200, SAVED)
    mark.mark.write(300, SAVED)
    mark.tear()
    assert mark.reopen() == 100


def test_an_announced_checkpoint_leaves_the_mark_of_the_old_one(mark: Mark) -> None:
    mark.set(100)
    mark.mark.announce(OTHER)
    mark.mark.sync()
    mark.mark.write(200, SAVED)
    assert mark.mark.flushed_upto == 200
    assert mark.reopen(OTHER) == 100
    assert mark.reopen(SAVED) == 100


def test_an_announced_checkpoint_that_was_not_saved_is_written_over(mark: Mark) -> None:
    mark.set(100)
    mark.mark.announce(OTHER)
    mark.mark.sync()
    assert mark.reopen(SAVED) == 100
    mark.mark.write(150, SAVED)
    mark.tear()
    assert mark.reopen(SAVED) == 100


def test_a_settled_checkpoint_has_the_mark_that_was_held_back(mark: Mark) -> None:
    mark.set(100)
    mark.mark.announce(OTHER)
    mark.mark.sync()
    mark.mark.write(200, OTHER)
    mark.mark.settle()
    assert mark.reopen(OTHER) == 200
    assert mark.reopen(SAVED) is None


def test_the_slot_is_laid_out_as_the_docstring_says(mark: Mark) -> None:
    assert [(field.name, MARK.positions[field.name]) for field in MARK.fields] == [
        ("sequence", 0),
        ("flushed_upto", 8),
        ("checkpoint", 16),
        ("crc", 64),
    ]
    mark.set(0x0102030405060708)
    content = mark.path.read_bytes()[SLOT_SIZE : SLOT_SIZE + 64]
    assert content == bytes([0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]) + SAVED


def test_the_confirmed_end_is_kept_with_the_mark_and_means_all_if_it_is_damaged(
    disk: QuickDisk, tmp_path: Path
) -> None:
    def kept() -> tuple[int, int, int]:
        later = FlushedMark(Disk(), tmp_path)
        later.open()
        later.close()
        return later.flushed_upto, later.confirmed_upto, later.oldest_base

    mark = FlushedMark(disk, tmp_path)
    mark.confirmed_upto, mark.oldest_base = 70, 40
    mark.write(90, SAMPLE_BYTES)
    mark.sync()
    mark.close()
    assert kept() == (90, 70, 40)
    path = tmp_path / MARK_FILE
    written = path.read_bytes()
    at = SLOT_SIZE if any(written[SLOT_SIZE:]) else 0

    def damaged(begin: int, *values: int) -> tuple[int, int, int]:
        content = bytearray(written)
        content[at + begin : at + begin + len(values)] = values
        path.write_bytes(content)
        return kept()

    oldest_at = MARK.size + CONFIRMED.size
    assert damaged(MARK.size, 1) == (90, OFFSET_MAX, OFFSET_MAX)
    assert damaged(oldest_at, 1) == (90, 70, OFFSET_MAX)
    assert damaged(oldest_at, *bytes(OLDEST.size)) == (90, 70, OFFSET_MAX)  # An older version's.
    assert damaged(0) == (90, 70, 40)


def test_no_oldest_base_is_known_once_another_broker_wrote(mark: Mark) -> None:
    mark.mark.oldest_base = 40
    mark.set(100)
    assert (mark.reopen(), mark.mark.oldest_base) == (100, 40)
    assert (mark.reopen(OTHER), mark.mark.oldest_base) == (None, OFFSET_MAX)
