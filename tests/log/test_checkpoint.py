"""The checkpoint file: six numbers, as a real broker left them and as one reads them back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.format.checkpoint_layout import CheckpointValues
from broker.log.checkpoint import Checkpoint
from broker.model.errors import DiskFull, FsyncFailed
from tests.fakes.quick_disk import QuickDisk, full_disk
from tests.golden_stores import NAMES, GoldenStores

SAMPLE = CheckpointValues(1700000000123, 1700000000456, 0, 0, 285, 0)
SAMPLE_BYTES = bytes.fromhex("0000018bcfe5687b 0000018bcfe569c8" + 16 * "00" + "000000000000011d")


@pytest.fixture
def disk() -> QuickDisk:
    return QuickDisk()


@pytest.fixture
def checkpoint(disk: QuickDisk, tmp_path: Path) -> Iterator[Checkpoint]:
    made = Checkpoint(disk, tmp_path / "checkpoint")
    yield made
    made.close()


def reopen(checkpoint: Checkpoint) -> CheckpointValues:
    anew = Checkpoint(Disk(), checkpoint.path)
    anew.load()
    return anew.values


@pytest.mark.parametrize("name", NAMES)
def test_a_real_checkpoint_reads_as_its_broker_tells(golden: GoldenStores, name: str) -> None:
    told = golden.manifest(name).get("checkpoint")
    checkpoint = Checkpoint(Disk(), golden.store(name) / "checkpoint")
    checkpoint.load()
    assert checkpoint.values == (CheckpointValues(*told.values()) if told else CheckpointValues())


def test_a_store_without_a_checkpoint_has_zeros(checkpoint: Checkpoint) -> None:
    checkpoint.load()
    assert checkpoint.values == CheckpointValues(0, 0, 0, 0, 0, 0)
    assert not checkpoint.path.exists()


def test_the_file_has_the_bytes_of_the_sample(checkpoint: Checkpoint) -> None:
    checkpoint.save(SAMPLE)
    content = checkpoint.path.read_bytes()
    assert (content[:40], len(content)) == (SAMPLE_BYTES, 4096)
    assert not any(content[40:])


def test_what_was_saved_last_is_read_back(checkpoint: Checkpoint) -> None:
    checkpoint.save(SAMPLE)
    checkpoint.save(SAMPLE._replace(logics_physical_offset=77))
    assert checkpoint.values == reopen(checkpoint) == SAMPLE._replace(logics_physical_offset=77)


@pytest.mark.parametrize("size", [0, 24, 40, 47])
def test_a_file_of_an_older_or_interrupted_writer_reads_as_zeros_where_it_ends(
    checkpoint: Checkpoint, size: int
) -> None:
    values = CheckpointValues(1, 2, 3, 4, 5, 6)
    checkpoint.save(values)
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:size])
    kept = size // 8
    assert reopen(checkpoint) == CheckpointValues(*values[:kept])


def test_an_existing_file_keeps_its_other_bytes(checkpoint: Checkpoint) -> None:
    checkpoint.path.write_bytes(b"\xff" * 4096)
    checkpoint.save(SAMPLE)
    assert checkpoint.path.read_bytes()[48:] == b"\xff" * 4048


def test_each_save_is_synced_before_it_counts(disk: QuickDisk, checkpoint: Checkpoint) -> None:
    checkpoint.save(SAMPLE)
    disk.fail("sync", FsyncFailed(why="Input/output error"))
    with pytest.raises(FsyncFailed):
        checkpoint.save(CheckpointValues())
    assert checkpoint.values == SAMPLE


@pytest.mark.parametrize("call", ["make_sparse_file", "allocate"])
def test_a_full_disk_may_be_tried_again(disk: QuickDisk, checkpoint: Checkpoint, call: str) -> None:
    disk.fail(call, full_disk())
    with pytest.raises(DiskFull):
        checkpoint.save(SAMPLE)
    assert checkpoint.values == CheckpointValues()
    checkpoint.save(SAMPLE)
    assert reopen(checkpoint) == SAMPLE
    assert checkpoint.path.stat().st_blocks * 512 >= 4096


def test_closing_twice_is_fine_and_saving_opens_again(checkpoint: Checkpoint) -> None:
    checkpoint.save(SAMPLE)
    checkpoint.close()
    checkpoint.close()
    checkpoint.save(CheckpointValues(9))
    assert reopen(checkpoint) == CheckpointValues(9)
