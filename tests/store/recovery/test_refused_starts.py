"""Damaged files of a real store: a start serves, or refuses and names the file.

A refused start changes nothing but the lock, and names the file it stumbled over.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk_errors import path_of
from pocketmq.model.errors import ReadFailed, StorageError, StoreFailed
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below
from tests.kit.store_golden import golden_copy, golden_sizes
from tests.kit.store_language import store_at
from tests.sim.quick_disk import QuickDisk

STORE = "rebuild-base"


def first_of(store: Path, pattern: str) -> Path:
    return min(store.glob(pattern))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[min(5, len(content) - 1)] ^= 0x10
    path.write_bytes(content)


def noise(path: Path) -> None:
    path.write_bytes(b"\xa5" * path.stat().st_size)


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"no directory")


FILES = (emptied, cut, grown, flipped, noise, a_directory)
PLACES: dict[str, tuple[Callable[[Path], None], ...]] = {
    "commitlog/*": FILES,
    "consumequeue/*/*/*": FILES,
    "index/*": FILES,
    "checkpoint": FILES,
    "config/topics.json*": FILES,
    "config/subscriptionGroup.json*": FILES,
    "config/consumerOffset.json*": FILES,
    "lock": (emptied, grown, a_directory),
    "commitlog": (a_file,),
    "consumequeue": (a_file,),
    "consumequeue/*": (a_file,),
    "consumequeue/*/*": (a_file,),
    "index": (a_file,),
    "config": (a_file,),
}
OWN_PLACES: dict[str, tuple[Callable[[Path], None], ...]] = {
    "consumequeue/*/*": (a_file,),
    "pocketmq/store.json*": FILES,
    "pocketmq/watermark": FILES,
    "pocketmq/queue_ends.json*": FILES,
    "pocketmq": (a_file,),
    "abort": (a_directory,),
}
CASES = [(place, change) for place, changes in PLACES.items() for change in changes]
OWN_CASES = [(place, change) for place, changes in OWN_PLACES.items() for change in changes]


def changed_at(store: Path, place: str, change: Callable[[Path], None]) -> Path:
    """Changes the first file of a place; of a table the version before it as well."""
    found = sorted(store.glob(place))
    for path in found if place.endswith("json*") else found[:1]:
        change(path)
    return found[0]


async def check_start(store: Path, changed: Path, **sizes: Any) -> None:
    """Starts: where that is refused, the file is named, and all is as it was."""
    was = files_below(store)
    try:
        async with store_at(store, **sizes):
            pass
    except StoreFailed:
        raise  # It began, and the disk failed it.
    except StorageError as error:
        text = str(error)
        assert str(changed) in text or changed.name in text or str(changed.parent) in text, text
        now = files_below(store)
        now.pop("lock", None)
        was.pop("lock", None)
        assert now == was


@pytest.mark.parametrize(("place", "change"), CASES)
async def test_a_found_store(
    place: str, change: Callable[[Path], None], golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden_copy(golden, STORE, tmp_path / "s")
    changed = changed_at(store, place, change)
    await check_start(store, changed, **golden_sizes(golden, STORE))


async def test_a_log_of_which_nothing_can_be_read_is_left_as_it_is(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden_copy(golden, "deleted", tmp_path / "s")
    noise(changed_at(store, "commitlog/*", noise))
    was = files_below(store)
    async with store_at(store, **golden_sizes(golden, "deleted")) as opened:
        assert opened.store.damage is not None
    now = files_below(store)
    assert {name: now[name] for name in was if name != "lock"} == {
        name: content for name, content in was.items() if name != "lock"
    }


@pytest.mark.parametrize(("place", "change"), OWN_CASES)
async def test_a_store_of_ours(
    place: str, change: Callable[[Path], None], golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden_copy(golden, STORE, tmp_path / "s")
    sizes = golden_sizes(golden, STORE)
    async with store_at(store, **sizes) as opened:
        await opened.send("T", "x", key="k")
    if place == "abort":
        (store / "abort").touch()
    await check_start(store, changed_at(store, place, change), **sizes)


class UnreadableDisk(QuickDisk):
    """A disk with a file that cannot be opened, or whose content cannot be read."""

    path = ""
    is_opened = False

    def open(self, path: Path | str, *, read_only: bool = False) -> int:
        if str(path) == self.path and not self.is_opened:
            raise ReadFailed(path=self.path, why="Permission denied")
        return super().open(path, read_only=read_only)

    def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
        if path_of(descriptor) == self.path:
            raise ReadFailed(path=self.path, why="Input/output error")
        return super().read_at(descriptor, position, size_bytes)


@pytest.mark.parametrize("is_opened", [False, True])
async def test_a_start_names_a_log_file_that_it_cannot_read(
    tmp_path: Path, is_opened: bool
) -> None:
    async with store_at(tmp_path / "s") as store:
        for number in range(30):
            await store.send("T", f"{number}" * 400)
    before = files_below(tmp_path / "s/commitlog")
    disk = UnreadableDisk()
    disk.path = str(tmp_path / "s/commitlog" / sorted(before)[2])
    disk.is_opened = is_opened
    with pytest.raises(ReadFailed) as caught:
        async with store_at(tmp_path / "s", disk=disk):
            pass
    why = "Input/output error" if is_opened else "Permission denied"
    assert str(caught.value) == (
        f"{disk.path} cannot be read ({why}); check its owner and mode, then the disk"
    )
    assert files_below(tmp_path / "s/commitlog") == before


async def test_a_start_that_accepts_damage_serves_the_files_that_it_can_read(
    tmp_path: Path,
) -> None:
    async with store_at(tmp_path / "s") as store:
        for number in range(30):
            await store.send("T", f"{number}" * 400)
    disk = UnreadableDisk()
    disk.path = str(sorted((tmp_path / "s/commitlog").iterdir())[2])
    disk.is_opened = True
    async with store_at(tmp_path / "s", disk=disk, accept_damage=True) as store:
        assert (await store.pulled("T"))[:1] == ["0" * 400]
