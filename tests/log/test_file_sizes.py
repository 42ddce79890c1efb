"""File sizes are told by the files of a log and of its queues."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.format.names import offset_file_name
from broker.log.file_sizes import commit_log_file_size, consume_queue_file_size
from tests.golden_stores import NAMES, GoldenStores


def row(directory: Path, lengths: Mapping[int, int]) -> None:
    """Make files of these lengths, by the offset of their first byte."""
    directory.mkdir(parents=True, exist_ok=True)
    for base, length in lengths.items():
        (directory / offset_file_name(base)).write_bytes(bytes(length))


@pytest.mark.parametrize("name", NAMES)
def test_the_files_of_a_real_store_show_their_sizes(golden: GoldenStores, name: str) -> None:
    store, params = golden.store(name), golden.manifest(name)["params"]
    has_queues = (store / "consumequeue").exists()
    assert commit_log_file_size(Disk(), store) == params["mappedFileSizeCommitLog"]
    wanted = params["mappedFileSizeConsumeQueue"] if has_queues else 0
    assert consume_queue_file_size(Disk(), store) == wanted


def test_without_files_there_are_no_sizes(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / "notes.txt").write_text("x")
    (tmp_path / "consumequeue" / "T" / "0").mkdir(parents=True)
    assert commit_log_file_size(Disk(), tmp_path) == 0
    assert consume_queue_file_size(Disk(), tmp_path) == 0


@pytest.mark.parametrize(
    "lengths",
    [
        {0: 100}, {0: 100, 100: 0}, {0: 7, 100: 100}, {0: 100, 100: 7},
        {300: 100, 400: 7, 500: 7, 600: 7}, {0: 100, 200: 100, 500: 7},
    ],
    ids=["one", "unused", "first cut", "last cut", "most cut, names tell", "gaps, most tell"],
)  # fmt: skip
def test_files_that_were_cut_short_are_outvoted(tmp_path: Path, lengths: dict[int, int]) -> None:
    row(tmp_path / "commitlog", lengths)
    assert commit_log_file_size(Disk(), tmp_path) == 100


def test_the_first_queue_that_has_a_file_tells(tmp_path: Path) -> None:
    queues = tmp_path / "consumequeue"
    row(queues / "A" / "0", {})
    row(queues / "B" / "0", {0: 0})
    row(queues / "B" / "1", {0: 60, 60: 60})
    assert consume_queue_file_size(Disk(), tmp_path) == 60
