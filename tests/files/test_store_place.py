"""A directory that no broker can use is refused before a store is opened in it."""

import os
from pathlib import Path

import pytest

from pocketmq.files.store_place import check_place
from pocketmq.model.errors import IllegalConfig


def test_a_directory_that_exists_or_can_be_made_is_accepted(tmp_path: Path) -> None:
    check_place(tmp_path)
    check_place(tmp_path / "a" / "store")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name", ["file", "file/store", "loose"])
def test_a_place_below_a_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loose").symlink_to(tmp_path / "gone")
    with pytest.raises(IllegalConfig, match="is not a directory; name a directory"):
        check_place(tmp_path / name)


def test_a_place_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(IllegalConfig, match=r"is not writable for user id .* as its owner"):
        check_place(tmp_path / "store")


@pytest.mark.parametrize("name", ["x" * 300, "a/" + "x" * 300])
def test_a_place_that_cannot_be_made_is_refused_and_nothing_is_left(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(IllegalConfig, match="cannot be created: File name too long; name another"):
        check_place(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
