"""Finding the files of a log: what is wrong with a directory is told by name."""

from pathlib import Path

import pytest

from broker.model.errors import NotAStore, StoreGap, WrongFileSize
from broker.rebuild.log_files import find_log_files
from tests.fakes.log_bytes import LogBytes


def log_of(tmp_path: Path) -> LogBytes:
    log = LogBytes(tmp_path / "s", 1024, base=2048)
    for number in range(40):
        log.add(queue_offset=number)
    return log.close()


def test_files_come_in_order(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    assert [(file.base, file.end) for file in log.found()] == [
        (base, base + 1024) for base in range(2048, 2048 + 1024 * len(log.files), 1024)
    ]
    assert find_log_files(tmp_path / "none", 1024) == []


def test_an_empty_last_file_and_directories_are_passed_over(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    (log.store / "commitlog/00000000000000090000").touch()
    (log.store / "commitlog/lost").mkdir()
    assert len(log.found()) == len(log.files)


def test_what_does_not_belong_is_named(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    directory = log.store / "commitlog"
    with pytest.raises(WrongFileSize, match="mappedFileSizeCommitLog"):
        find_log_files(log.store, 4096)
    (directory / "00000000000000003072").rename(tmp_path / "away")
    with pytest.raises(StoreGap, match="00000000000000004096"):
        log.found()
    (directory / "note.txt").write_text("")
    (tmp_path / "away").rename(directory / "00000000000000003072")
    with pytest.raises(NotAStore, match=r"note\.txt"):
        log.found()
