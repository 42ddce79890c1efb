"""The directory of a store: what may become one, who has it, what its manifest tells."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.directory_lock import held_by
from pocketmq.log.store_directory import (
    FORMAT_VERSION,
    MANIFEST_FILE,
    ClosedState,
    ManifestFile,
    StoreDirectory,
    StoreManifest,
)
from pocketmq.model.errors import DiskFull, NotAPlainFile, NotAStore, StoreTooNew
from pocketmq.model.store_shape import RECORDED
from tests.golden_stores import NAMES, GoldenStores
from tests.sim.quick_disk import QuickDisk


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
    """Files that a file system makes itself are no obstacle."""
    directory.check()
    path.mkdir()
    directory.check()
    assert list(path.iterdir()) == []
    for name in ("lost+found", ".DS_Store"):
        (path / name).mkdir()
        directory.check()


@pytest.mark.parametrize(
    "name",
    ["abort", "checkpoint", "commitlog", "config", "consumequeue", "index", "lock", "pocketmq"],
)
def test_any_part_of_a_store_makes_it_one(directory: StoreDirectory, path: Path, name: str) -> None:
    path.mkdir()
    is_file = name in ("abort", "checkpoint", "lock")
    (path / name).touch() if is_file else (path / name).mkdir()
    (path / "timerwheel").touch()
    directory.check()


@pytest.mark.parametrize("name", ["abort", "checkpoint", "commitlog", "config", "lock", "pocketmq"])
def test_a_part_of_another_kind_is_refused(
    directory: StoreDirectory, path: Path, name: str
) -> None:
    path.mkdir()
    is_file = name in ("abort", "checkpoint", "lock")
    (path / name).mkdir() if is_file else (path / name).touch()
    with pytest.raises(NotAStore, match=f"{name} is not a store: a .* is there instead of a .*"):
        directory.check()


def test_a_link_in_the_place_of_a_directory_is_named(
    directory: StoreDirectory, path: Path, tmp_path: Path
) -> None:
    path.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (path / "index").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotAPlainFile, match="index is not opened: it is a symbolic link"):
        directory.check()
    directory.check(plain_only=False)
    (path / "config").touch()
    with pytest.raises(NotAStore, match="config is not a store: a file is there"):
        directory.check(plain_only=False)


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


# -- who has it ------------------------------------------------------------------------------------


def test_acquiring_makes_the_lock_alone(directory: StoreDirectory, path: Path) -> None:
    directory.acquire()
    assert [child.name for child in path.iterdir()] == ["lock"]
    directory.make_directories()
    assert directory.own_directory == path / "pocketmq"
    assert sorted(child.name for child in path.iterdir()) == ["commitlog", "lock", "pocketmq"]
    assert (path / "lock").read_bytes() == b"lock"


def test_releasing_leaves_the_files_and_may_come_twice(
    directory: StoreDirectory, path: Path
) -> None:
    directory.acquire()
    directory.release()
    directory.release()
    assert held_by(path / "lock") == ""
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
    """And stopping twice is fine."""
    disk = QuickDisk()
    directory = StoreDirectory(disk, path)
    directory.acquire()
    disk.calls.clear()
    directory.mark_running(1)
    directory.mark_stopped()
    assert len(disk.calls["sync"]) == 1
    assert disk.calls["sync_directory"] == [(path,), (path,)]
    directory.mark_stopped()
    directory.release()


@pytest.mark.parametrize("name", NAMES)
def test_real_stores_are_stores_and_a_killed_broker_left_its_mark(
    golden: GoldenStores, name: str
) -> None:
    directory = StoreDirectory(QuickDisk(), golden.store(name))
    directory.check()
    assert directory.was_aborted() is golden.manifest(name)["abortFile"]


CLOSED = ClosedState(
    log_end=12345,
    checkpoint="00" * 48,
    queues={"T": {"0": [0, 7], "3": [2, 9]}, "%RETRY%G": {"0": [0, 1]}},
    index_files=["20261121003515660"],
)
MANIFEST = StoreManifest(
    commit_log_file_size_bytes=1 << 26,
    consume_queue_file_size_bytes=6_000_000,
    index_slot_count=200_000,
    index_entry_count_max=1_000_000,
    index_style="5.5",
    time_zone="Europe/Berlin",
    cluster="DefaultCluster",
    broker="broker-a",
)


class Manifest:
    """The manifest of one store.

    manifest.write(MANIFEST); assert manifest.read() == MANIFEST
    """

    def __init__(self, directory: Path) -> None:
        self.disk = QuickDisk()
        self.path = directory / "pocketmq" / MANIFEST_FILE
        self.file = ManifestFile(self.disk, self.path.parent)

    def write(self, manifest: StoreManifest) -> None:
        self.file.write(manifest)

    def read(self) -> StoreManifest | None:
        return ManifestFile(QuickDisk(), self.path.parent).read()

    def lay(self, fields: Any, *, name: str = MANIFEST_FILE) -> None:
        """Puts a text under the manifest's name, as another version or an editor would."""
        self.path.parent.mkdir(exist_ok=True)
        self.path.with_name(name).write_text(
            fields if isinstance(fields, str) else json.dumps(fields)
        )


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return Manifest(tmp_path)


@pytest.mark.parametrize("closed", [None, CLOSED])
def test_what_was_written_is_read_back(manifest: Manifest, closed: ClosedState | None) -> None:
    assert manifest.read() is None
    written = replace(MANIFEST, closed=closed)
    manifest.write(written)
    assert manifest.read() == written


def test_the_file_is_json_that_people_can_read(manifest: Manifest) -> None:
    manifest.write(replace(MANIFEST, closed=CLOSED))
    text = manifest.path.read_text()
    written, fields = json.loads(text), asdict(replace(MANIFEST, closed=CLOSED))
    assert written == {name: fields[name] for name in written}
    assert fields.keys() - written.keys() == {"delay_levels", "property_crc"}
    assert list(written)[:7] == [*RECORDED[:6], "cluster"]
    assert '\n  "commit_log_file_size_bytes": 67108864,\n' in text


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 99])
def test_a_newer_store_is_refused_and_left_alone(manifest: Manifest, version: int) -> None:
    manifest.lay({"format_version": version, "unheard_of": True})
    with pytest.raises(StoreTooNew) as caught:
        manifest.read()
    assert (caught.value.found, caught.value.known) == (version, FORMAT_VERSION)
    assert json.loads(manifest.path.read_text())["format_version"] == version


@pytest.mark.parametrize("size", [0, 1, 50, -1, None])
def test_a_torn_or_missing_file_falls_back_to_the_one_before(
    manifest: Manifest, size: int | None
) -> None:
    manifest.write(MANIFEST)
    manifest.write(replace(MANIFEST, broker="broker-b"))
    content = manifest.path.read_bytes()
    manifest.path.unlink()
    if size is not None:
        manifest.path.write_bytes(content[:size])
    assert manifest.read() == MANIFEST


@pytest.mark.parametrize(
    "content", ["", "[1, 2]", "null", "{", "\x00\x00", '{"format_version": 1}']
)
def test_without_a_version_that_can_be_read_it_is_an_error(
    manifest: Manifest, content: str
) -> None:
    manifest.lay(content)
    manifest.lay(content, name=f"{MANIFEST_FILE}.bak")
    with pytest.raises(ValueError):
        manifest.read()


def test_fields_are_missing_in_the_file_but_not_in_the_one_before(manifest: Manifest) -> None:
    manifest.write(MANIFEST)
    manifest.write(MANIFEST)
    manifest.lay({"format_version": FORMAT_VERSION, "index_slot_count": 5})
    assert manifest.read() == MANIFEST
