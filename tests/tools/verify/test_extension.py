"""Extension units: what a consume unit leads to must fit, and sizes must lead on."""

from pathlib import Path

import pytest

from tests.golden_stores import GoldenStores
from tests.kit.checked_store import CheckedStore


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> CheckedStore:
    return CheckedStore(golden, "cqext", tmp_path / "s")


def extension_file(store: CheckedStore) -> Path:
    return min(
        path for path in (store.directory / "consumequeue_ext").rglob("0*") if path.is_file()
    )


def test_sizes_tags_codes_and_what_lies_behind(store: CheckedStore) -> None:
    path = extension_file(store)
    with store.changed(path, 1):
        assert "extension_unit" in store.kinds()
    with store.changed(path, 9):
        assert store.kinds() == {"unit"}
    with store.changed(path, path.stat().st_size - 3):
        assert store.kinds() == {"extension_unit"}


def test_an_extension_that_is_gone(store: CheckedStore) -> None:
    extension_file(store).unlink()
    assert store.kinds() == {"unit"}
