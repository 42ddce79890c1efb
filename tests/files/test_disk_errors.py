"""Errors of the operating system become those of the store."""

import errno
import os
from pathlib import Path

import pytest

from broker.files.disk_errors import FullDisk, Reading, forget, path_of
from broker.model.errors import AllocationFailed, BrokerError, DiskFull, ReadFailed

WHERE = Path("/s/file")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EIO, AllocationFailed),
        (errno.EROFS, AllocationFailed),
    ],
)
def test_full_is_told_from_broken(code: int, kind: type[BrokerError]) -> None:
    with pytest.raises(kind, match="/s/file"), FullDisk(WHERE):
        raise OSError(code, os.strerror(code))


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_what_cannot_be_read_says_where_and_why(code: int) -> None:
    with pytest.raises(ReadFailed) as caught, Reading(WHERE):
        raise OSError(code, os.strerror(code))
    assert caught.value.path == str(WHERE)
    assert caught.value.strerror == os.strerror(code)
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize("kind", [FileNotFoundError, NotADirectoryError, ValueError])
def test_that_nothing_is_there_passes_as_it_is(kind: type[Exception]) -> None:
    with pytest.raises(kind), Reading(WHERE):
        raise kind


def test_an_error_that_says_where_already_stays(tmp_path: Path) -> None:
    with pytest.raises(ReadFailed, match="/inner"), Reading(tmp_path):
        raise ReadFailed(path="/inner", why="EIO")


def test_a_file_exists_already_is_not_a_trouble_of_the_disk() -> None:
    with pytest.raises(FileExistsError), FullDisk(WHERE):
        raise FileExistsError


def test_an_open_file_knows_its_name(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "f", os.O_CREAT | os.O_RDWR)
    assert path_of(descriptor) == str(tmp_path / "f")
    forget(descriptor, tmp_path / "f")
    assert [*tmp_path.iterdir()] == []
    assert path_of(descriptor) == f"descriptor {descriptor}"
    forget(descriptor, tmp_path / "f")  # Neither is there any more, and nobody is told.
