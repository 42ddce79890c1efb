"""The directory of a store: what may become one, who has it, and how it was left."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.files.directory_lock import is_locked
from broker.log.store_directory import StoreDirectory
from broker.model.errors import DiskFull, NotAStore
from tests.fakes.quick_disk import QuickDisk
from tests.golden_stores import NAMES, GoldenStores


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def directory(path: Path) -> Iterator[StoreDirectory]:
    made = StoreDirectory(QuickDisk(), path)
    yield made
    made.release()


# -- is it one -------------------------------------------------------------------------------------


def test_a_missing_and_an_empty_directory_may_become_a_store(
    directory: StoreDirectory, path: Path
) -> None:
    directory.check()
    path.mkdir()
    directory.check()
    assert list(path.iterdir()) == []


@pytest.mark.parametrize("name", ["lost+found", ".DS_Store"])
def test_what_a_file_system_leaves_does_no_harm(
    directory: StoreDirectory, path: Path, name: str
) -> None:
    (path / name).mkdir(parents=True)
    directory.check()


@pytest.mark.parametrize(
    "name",
    ["abort", "checkpoint", "commitlog", "config", "consumequeue", "index", "lock", "pocketmq"],
)
def test_any_part_of_a_store_makes_it_one(directory: StoreDirectory, path: Path, name: str) -> None:
    path.mkdir()
    (path / name).touch()
    (path / "timerwheel").touch()
    directory.check()


def test_a_directory_of_other_files_is_refused_and_left_alone(
    directory: StoreDirectory, path: Path
) -> None:
    path.mkdir()
    for name in ("thesis.tex", "a", "b", "zebra"):
        (path / name).touch()
    with pytest.raises(NotAStore, match=r"store is not a store: .*\(a, b, thesis.tex …\)"):
        directory.acquire()
    assert sorted(child.name for child in path.iterdir()) == ["a", "b", "thesis.tex", "zebra"]


def test_a_file_is_no_store(directory: StoreDirectory, path: Path) -> None:
    path.write_text("not a directory")
    with pytest.raises(NotAStore, match="it is a file"):
        directory.acquire()


@pytest.mark.parametrize("name", NAMES)
def test_real_stores_are_stores(golden: GoldenStores, name: str) -> None:
    StoreDirectory(QuickDisk(), golden.store(name)).check()


# -- who has it ------------------------------------------------------------------------------------


def test_acquiring_makes_what_a_broker_needs(directory: StoreDirectory, path: Path) -> None:
    directory.acquire()
    assert directory.own_directory == path / "pocketmq"
    assert sorted(child.name for child in path.iterdir()) == ["commitlog", "lock", "pocketmq"]
    assert (path / "lock").read_bytes() == b"lock"


def test_releasing_leaves_the_files_and_may_come_twice(
    directory: StoreDirectory, path: Path
) -> None:
    directory.acquire()
    directory.release()
    directory.release()
    assert not is_locked(path / "lock")
    directory.acquire()
    assert (path / "lock").exists()


def test_a_full_disk_is_told(
    directory: StoreDirectory, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: QuickDisk, directory: Path) -> None:
        raise DiskFull(path=str(directory))

    monkeypatch.setattr(QuickDisk, "make_directory", refuse)
    with pytest.raises(DiskFull):
        directory.acquire()
    assert not path.exists()


# -- how it was left -------------------------------------------------------------------------------


def test_the_abort_mark_stands_while_a_broker_runs(directory: StoreDirectory, path: Path) -> None:
    directory.acquire()
    states = [directory.was_aborted()]
    directory.mark_running(4711)
    assert (path / "abort").read_text() == "4711"
    states.append(directory.was_aborted())
    directory.mark_stopped()
    states.append(directory.was_aborted())
    assert states == [False, True, False]
    assert not (path / "abort").exists()


def test_both_marks_are_durable_at_once(path: Path) -> None:
    disk = QuickDisk()
    directory = StoreDirectory(disk, path)
    directory.acquire()
    disk.calls.clear()
    directory.mark_running(1)
    directory.mark_stopped()
    assert len(disk.calls["sync"]) == 1
    assert disk.calls["sync_directory"] == [(path,), (path,)]
    directory.release()


def test_stopping_twice_is_fine(directory: StoreDirectory) -> None:
    directory.acquire()
    directory.mark_stopped()
    directory.mark_stopped()


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_broker_left_its_mark(golden: GoldenStores, name: str) -> None:
    directory = StoreDirectory(QuickDisk(), golden.store(name))
    assert directory.was_aborted() is golden.manifest(name)["abortFile"]
