"""The golden stores unpack whole, are shared, and cannot be written into unnoticed."""

import hashlib
from pathlib import Path

import pytest

from tests.golden_stores import ARCHIVES, NAMES, SPECIAL_NAMES, GoldenStores


def test_every_archive_has_its_manifest() -> None:
    assert len(NAMES) == 30
    assert {path.name for path in ARCHIVES.glob("*.expect.json.gz")} == {
        f"{name}.expect.json.gz" for name in NAMES
    }


@pytest.mark.parametrize("name", SPECIAL_NAMES)
def test_a_special_store_unpacks_with_a_log_of_its_size(golden: GoldenStores, name: str) -> None:
    files = sorted((golden.store(name) / "commitlog").iterdir())
    assert {path.stat().st_size for path in files} == {
        golden.shape(name)["commit_log_file_size_bytes"]
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_store_has_the_log_its_manifest_was_made_of(golden: GoldenStores, name: str) -> None:
    files = sorted((golden.store(name) / "commitlog").iterdir())
    expected = golden.manifest(name)["commitLogFiles"]
    for path, row in zip(files, expected, strict=False):
        digest = hashlib.sha1(path.read_bytes()).hexdigest()
        assert {"name": path.name, "size": path.stat().st_size, "sha1": digest} == row
    # A killed broker leaves the file it had made for later; its manifest does not count that one.
    ahead = files[len(expected) :]
    assert len(files) >= len(expected)
    assert not any(any(path.read_bytes()) for path in ahead)


def test_a_copy_can_be_written_and_leaves_the_store_alone(tmp_path: Path) -> None:
    stores = GoldenStores(tmp_path)
    copy = stores.copy("propcrc", tmp_path / "copy")
    (copy / "checkpoint").write_bytes(b"")
    (copy / "commitlog" / "new").touch()
    assert stores.changed() == []
    assert (stores.store("propcrc") / "checkpoint").stat().st_size == 4096


def test_two_processes_unpack_into_one_folder(tmp_path: Path) -> None:
    first, second = GoldenStores(tmp_path), GoldenStores(tmp_path)
    assert first.store("propcrc") == second.store("propcrc")
    first._unpack("propcrc", tmp_path / "propcrc")  # as one does that came a moment later
    assert [path.name for path in tmp_path.iterdir()] == ["propcrc"]
    assert second.changed() == []


def test_writing_into_a_shared_store_is_noticed(tmp_path: Path) -> None:
    stores = GoldenStores(tmp_path)
    store = stores.store("propcrc")
    store.chmod(0o755)
    (store / "abort").touch()
    assert stores.changed() == ["propcrc"]
