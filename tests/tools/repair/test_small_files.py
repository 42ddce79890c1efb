"""Tables, checkpoint and mark are mended, and stay of one mind."""

from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import (
    CHECKPOINT_FILE_SIZE,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
)
from pocketmq.log.checkpoint import FlushedMark
from pocketmq.log.store_directory import ClosedState, ManifestFile, StoreManifest
from pocketmq.tools.repair.actions import FileAct, FileAction, lower_checkpoint

BEYOND = CheckpointValues(1_001, 999, 5_000, -3, 4_100, 3_000)
WITHIN = CheckpointValues(1_000, 999, 1_000, 0, 4_000, 3_000)


class Small:
    """The small files of a store without anything else."""

    def __init__(self, directory: Path, values: CheckpointValues) -> None:
        self.directory = directory
        (directory / "pocketmq").mkdir(parents=True)
        content = encode_checkpoint(values).ljust(CHECKPOINT_FILE_SIZE, b"\0")
        (directory / "checkpoint").write_bytes(content)

    def mark(self, upto: int, values: CheckpointValues) -> None:
        mark = FlushedMark(Disk(), self.directory / "pocketmq")
        mark.open()
        mark.write(upto, encode_checkpoint(values))
        mark.close()

    def marked(self) -> int | None:
        """Returns the offset that the mark confirms for the present checkpoint."""
        mark = FlushedMark(Disk(), self.directory / "pocketmq")
        mark.open()
        mark.close()
        return mark.valid_upto(encode_checkpoint(self.values))

    @property
    def values(self) -> CheckpointValues:
        return decode_checkpoint((self.directory / "checkpoint").read_bytes())

    def lower(self) -> None:
        lower_checkpoint(
            Disk(), self.directory, log_end=4_100, last_time_ms=1_000, last_place=4_000
        )


def test_a_checkpoint_says_no_more_than_the_log_holds(tmp_path: Path) -> None:
    small = Small(tmp_path, BEYOND)
    small.lower()
    assert small.values == WITHIN


def test_without_a_record_nothing_is_left_of_it(tmp_path: Path) -> None:
    small = Small(tmp_path, BEYOND)
    lower_checkpoint(Disk(), tmp_path, log_end=0, last_time_ms=0, last_place=0)
    assert small.values == CheckpointValues()


@pytest.mark.parametrize("content", [b"", b"x" * 48, b"\0" * 48 + b"x" * 4048, bytes(5_000)])
def test_a_checkpoint_of_another_shape_is_written_as_a_whole(
    tmp_path: Path, content: bytes
) -> None:
    small = Small(tmp_path, WITHIN)
    (tmp_path / "checkpoint").write_bytes(content)
    small.lower()
    found = (tmp_path / "checkpoint").read_bytes()
    assert len(found) == (CHECKPOINT_FILE_SIZE if content else 0)
    assert found[48:].strip(b"\0") == b""


@pytest.mark.parametrize(("upto", "lowered"), [(4_050, 4_050), (9_999, 4_100)])
def test_a_mark_that_was_valid_stays_so(tmp_path: Path, upto: int, lowered: int) -> None:
    small = Small(tmp_path, BEYOND)
    small.mark(upto, BEYOND)
    small.lower()
    assert small.marked() == lowered
    small.lower()
    assert small.marked() == lowered


def test_a_mark_that_was_void_stays_so(tmp_path: Path) -> None:
    small = Small(tmp_path, BEYOND)
    small.mark(9_999, CheckpointValues(7))
    small.lower()
    assert small.marked() is None


def test_killed_between_mark_and_checkpoint_it_ends_the_same(tmp_path: Path) -> None:
    small = Small(tmp_path, BEYOND)
    small.mark(4_050, WITHIN)
    small.lower()
    assert small.marked() == 4_050


def test_the_list_of_the_last_stop_goes_with_the_checkpoint(tmp_path: Path) -> None:
    small = Small(tmp_path, BEYOND)
    file = ManifestFile(Disk(), tmp_path / "pocketmq")
    closed = ClosedState(4_100, encode_checkpoint(BEYOND).hex(), {}, [])
    file.write(StoreManifest(cluster="c", broker="b", closed=closed))
    small.lower()
    manifest = file.read()
    assert manifest is not None
    assert manifest.closed is not None
    assert manifest.closed.checkpoint == encode_checkpoint(WITHIN).hex()


@pytest.mark.parametrize(
    ("act", "left"),
    [(FileAct.RESTORE, {"topics.json": b"{}", "topics.json.bak": b"{}"}), (FileAct.REMOVE, {})],
)
def test_a_table_gets_its_previous_version_or_goes(
    tmp_path: Path, act: FileAct, left: dict[str, bytes]
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "topics.json").write_bytes(b"{torn")
    (config / "topics.json.bak").write_bytes(b"{}")
    FileAction("config/topics.json", "torn", act).perform(Disk(), tmp_path, 4096)
    assert {path.name: path.read_bytes() for path in config.iterdir()} == left
