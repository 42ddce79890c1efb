"""How long files of a log are, where nothing but the files tells."""

from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.log.file_sizes import shown_sizes
from pocketmq.model.errors import WrongFileSize
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import LogBytes
from tests.kit.store_language import store_at


def a_log(directory: Path, count: int) -> Path:
    """A log of files of 1,024 bytes; returns its first file."""
    log = LogBytes(directory, 1_024)
    for number in range(count):
        log.add(queue_offset=number, body=b"x" * 100)
    log.close()
    return min((directory / "commitlog").iterdir())


def log_size(directory: Path) -> int | None:
    size: int | None = shown_sizes(Disk(), directory).get("commit_log_file_size_bytes")
    return size


@pytest.mark.parametrize("count", [1, 4, 20])
def test_a_file_that_is_whole_tells_the_size(tmp_path: Path, count: int) -> None:
    a_log(tmp_path, count)
    assert log_size(tmp_path) == 1_024


@pytest.mark.parametrize("cut", [1, 4, 30, 100, 185])
def test_a_lone_file_that_ends_within_a_record_tells_nothing(tmp_path: Path, cut: int) -> None:
    path = a_log(tmp_path, 4)
    end = len(path.read_bytes().rstrip(b"\0"))
    path.write_bytes(path.read_bytes()[: end - cut])
    assert log_size(tmp_path) is None


def test_what_fills_a_file_behind_its_blank_is_no_record(tmp_path: Path) -> None:
    path = a_log(tmp_path, 20)
    for other in (tmp_path / "commitlog").iterdir():
        if other != path:
            other.unlink()
    content = path.read_bytes()
    used = len(content.rstrip(b"\0"))
    path.write_bytes(content[:used].ljust(1_024, b"\xa5"))
    assert log_size(tmp_path) == 1_024


async def test_a_start_refuses_a_lone_file_that_was_cut(tmp_path: Path) -> None:
    path = a_log(tmp_path / "s", 4)
    path.write_bytes(path.read_bytes()[:500])
    was = files_below(tmp_path / "s")
    with pytest.raises(WrongFileSize, match="500 bytes"):
        async with store_at(tmp_path / "s"):
            pass
    now = files_below(tmp_path / "s")
    assert {name: now[name] for name in was} == was
