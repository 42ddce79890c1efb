"""The simulated disk behaves as the real one, and loses what a real one may lose, no more."""

import errno
from pathlib import Path
from random import Random

import pytest

from pocketmq.files.disk import Disk
from pocketmq.model.errors import DiskFull, FsyncFailed, StorageError, StoreLocked
from tests.sim.disk import SimDisk
from tests.sim.disk_image import SECTOR, Image

HOME = Path("/home")
FILE = HOME / "file"
TRIES = 60


def home() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(HOME)
    return disk


def left_by(image: Image) -> list[bytes | None]:
    """Returns the contents that power cuts may leave of the file; None: it has no name."""
    found: list[bytes | None] = []
    for seed in range(TRIES):
        disk = SimDisk(image.cut(Random(seed)))
        found.append(disk.read_file(FILE) if disk.exists(FILE) else None)
    return found


def test_what_was_synced_stays() -> None:
    disk = home()
    disk.write_file(FILE, b"abc")
    disk.sync_directory(HOME)
    assert set(left_by(disk.image)) == {b"abc"}


def test_a_synced_file_may_lose_its_name() -> None:
    disk = home()
    disk.write_file(FILE, b"abc")
    assert set(left_by(disk.image)) == {b"abc", None}


def test_sectors_are_kept_one_by_one() -> None:
    disk = home()
    descriptor = disk.make_allocated_file(HOME / "draft", FILE, 4 * SECTOR)
    disk.write_at(descriptor, 0, b"x" * 4 * SECTOR)
    shapes = {
        bytes(content[n * SECTOR] for n in range(4)) for content in left_by(disk.image) if content
    }
    assert {bytes(4), b"xxxx"} < shapes
    assert len(shapes) > 8


def test_an_earlier_version_of_a_sector_may_be_what_is_left() -> None:
    disk = home()
    descriptor = disk.make_allocated_file(HOME / "draft", FILE, SECTOR)
    for letter in (b"a", b"b", b"c"):
        disk.write_at(descriptor, 0, letter)
    assert {content[:1] for content in left_by(disk.image) if content} == {b"\0", b"a", b"b", b"c"}


def test_stores_through_a_map_are_seen_and_synced() -> None:
    disk = home()
    descriptor = disk.make_allocated_file(HOME / "draft", FILE, SECTOR)
    view = memoryview(disk.map(descriptor, SECTOR))
    view[:3] = b"abc"
    assert disk.read_at(descriptor, 0, 3) == b"abc"
    assert {content[:3] for content in left_by(disk.image) if content} == {bytes(3), b"abc"}
    disk.sync(descriptor)
    assert {content[:3] for content in left_by(disk.image) if content} == {b"abc"}


def test_a_store_without_a_block_behind_it_is_told() -> None:
    disk = home()
    descriptor = disk.make_sparse_file(FILE, SECTOR)
    memoryview(disk.map(descriptor, SECTOR))[:1] = b"a"
    with pytest.raises(AssertionError, match="no block"):
        disk.sync(descriptor)


def test_a_rename_is_kept_or_lost_whole() -> None:
    disk = home()
    disk.write_file(FILE, b"old")
    disk.write_file(HOME / "draft", b"new")
    disk.sync_directory(HOME)
    disk.rename(HOME / "draft", FILE)
    assert set(left_by(disk.image)) == {b"old", b"new"}
    disk.sync_directory(HOME)
    assert set(left_by(disk.image)) == {b"new"}


def test_what_a_failed_sync_lost_is_seen_and_gone_after_a_cut() -> None:
    disk = home()
    descriptor = disk.make_allocated_file(HOME / "draft", FILE, 8 * SECTOR)
    disk.write_at(descriptor, 0, b"x" * 8 * SECTOR)
    disk.fail("sync", errno.EIO)
    with pytest.raises(FsyncFailed):
        disk.sync(descriptor)
    assert disk.read_at(descriptor, 0, 8 * SECTOR) == b"x" * 8 * SECTOR
    with pytest.raises(FsyncFailed):  # The disk itself remembers.
        disk.sync(descriptor)
    disk.trouble.failure = None
    disk.sync(descriptor)
    assert len(set(left_by(disk.image))) == 1
    assert left_by(disk.image)[0] != b"x" * 8 * SECTOR


def test_a_full_disk_gives_no_blocks_and_leaves_nothing() -> None:
    disk = home()
    disk.capacity_bytes = 8192
    with pytest.raises(DiskFull):
        disk.make_allocated_file(HOME / "draft", FILE, 8193)
    assert disk.names(HOME) == []
    disk.close(disk.make_allocated_file(HOME / "draft", FILE, 8192))
    assert disk.space(HOME)[1] == 0


@pytest.mark.parametrize("sticky", [True, False])
def test_a_call_fails_once_or_for_ever(sticky: bool) -> None:
    disk = home()
    disk.fail("mkdir", errno.ENOSPC, at=2, sticky=sticky)
    failed = []
    for number in range(4):
        try:
            disk.make_directory(HOME / f"{number}")
        except DiskFull:
            failed.append(number)
    assert failed == ([1, 2, 3] if sticky else [1])


def test_the_hook_is_called_before_each_call() -> None:
    disk, calls = home(), []
    disk.hook = lambda call, path: calls.append((call, disk.image.find(FILE) is not None))
    disk.write_file(FILE, b"abc")
    assert calls == [("create", False), ("write", True), ("sync", True), ("close", True)]


def test_the_lock_is_held_once_and_gone_after_a_cut() -> None:
    disk = home()
    disk.directory_lock(HOME / "lock").acquire()
    with pytest.raises(StoreLocked):
        disk.directory_lock(HOME / "lock").acquire()
    SimDisk(disk.image.cut(Random(0))).directory_lock(HOME / "lock").acquire()


# -- beside the real one ---------------------------------------------------------------------------


def act(disk: Disk, root: Path, rng: Random) -> list[object]:
    """Does random calls; returns their results."""
    seen: list[object] = []
    paths = [root / f"{folder}/{name}" for folder in ("a", "b") for name in ("x", "y", "z")]
    for _ in range(60):
        way, path, other = rng.randrange(9), rng.choice(paths), rng.choice(paths)
        content, position = rng.randbytes(rng.randrange(900)), rng.randrange(600)
        try:
            if way == 0:
                disk.make_directory(path.parent)
            elif way == 1:
                disk.write_file(path, content)
            elif way == 2:
                disk.close(disk.make_sparse_file(path, 700))
            elif way == 3:
                disk.close(disk.make_allocated_file(path.with_name("draft"), path, 1500))
            elif way == 4:
                disk.rename(path, other)
            elif way == 5:
                disk.unlink(path)
            elif way == 6:
                descriptor = disk.open(path)
                disk.write_at(descriptor, position, content)
                disk.sync(descriptor)
                seen.append(disk.read_at(descriptor, position // 2, 999))
                disk.close(descriptor)
            elif way == 7:
                disk.remove_directory(path.parent)
            else:
                seen.append((disk.exists(path), disk.is_directory(path.parent)))
                seen.append(disk.file_size(path))
        except (OSError, StorageError) as error:
            seen.append(type(error).__name__)
        seen.append((disk.names(path.parent), disk.read_file(path) if disk.exists(path) else None))
    return seen


@pytest.mark.parametrize("seed", range(30))
def test_it_does_what_a_real_disk_does(tmp_path: Path, seed: int) -> None:
    simulated = SimDisk()
    simulated.make_directory(HOME)
    assert act(simulated, HOME, Random(seed)) == act(Disk(), tmp_path, Random(seed))
