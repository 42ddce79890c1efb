"""A text file is replaced in one step, and survives a power cut right after the command."""

import os
import stat
from pathlib import Path

import pytest

from pocketmq.cli.output import Failure
from pocketmq.cli.text_file import replace_text


def test_contents_are_synced_before_the_rename_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("old")
    synced: list[tuple[bool, str]] = []

    def sync(descriptor: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append((is_directory, path.read_text()))

    monkeypatch.setattr(os, "fsync", sync)
    replace_text(path, "new")
    assert synced == [(False, "old"), (True, "new")]


def test_a_directory_that_takes_no_file_is_told_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="cannot be written: No such file"):
        replace_text(tmp_path / "missing" / "broker.toml", "new")
    assert list(tmp_path.iterdir()) == []
