"""Index files by themselves and against the log."""

import struct
from pathlib import Path

import pytest

from tests.golden_stores import GoldenStores
from tests.kit.checked_store import CheckedStore


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> CheckedStore:
    return CheckedStore(golden, "rebuild-base", tmp_path / "s")


def index_file(store: CheckedStore, number: int = 0) -> Path:
    return sorted((store.directory / "index").iterdir())[number]


def entry_position(store: CheckedStore, number: int) -> int:
    return store.sizes.geometry.entries_position + 20 * number


@pytest.mark.parametrize(
    ("position", "kind"),
    [(0, "index_header"), (8, "index_header"), (16, "index_header"), (24, "index_header")],
)
def test_header_fields(store: CheckedStore, position: int, kind: str) -> None:
    with store.changed(index_file(store, 1), position + 7):
        assert kind in store.kinds()


def test_a_cycle_and_a_dangling_link(store: CheckedStore) -> None:
    for previous in (50, 51, 10**6, -1):
        position = entry_position(store, 50) + 16
        with store.changed(index_file(store), position, struct.pack(">i", previous)):
            (finding,) = store.verify().findings
        assert (finding.kind, finding.offset) == ("index_chain", entry_position(store, 50))


def test_counts_that_are_too_small_too_large_or_none(store: CheckedStore) -> None:
    for count in (0, -5, 10, 10**6):
        with store.changed(index_file(store, -1), 36, struct.pack(">i", count)):
            assert store.kinds()


def test_an_entry_of_another_key_record_or_time(store: CheckedStore) -> None:
    path = index_file(store, 2)
    with store.changed(path, entry_position(store, 9) + 4, struct.pack(">q", 77)):
        assert {"missing_key", "dangling_entry"} <= store.kinds()
    with store.changed(path, entry_position(store, 9) + 12, struct.pack(">i", 999)):
        assert store.kinds() == {"index_time"}


def test_unused_bytes(store: CheckedStore) -> None:
    path = index_file(store, -1)
    for position in (entry_position(store, 0) + 3, path.stat().st_size - 1):
        with store.changed(path, position):
            assert store.kinds() == {"index_unused"}


def test_a_file_of_the_middle_that_is_gone(store: CheckedStore) -> None:
    index_file(store, 3).unlink()
    found = store.verify()
    full = store.sizes.geometry.entry_count_max - 1
    assert found.counts == {"absent": full}
    (row,) = found.findings
    assert (row.file, row.count, row.found) == ("index", full, "no file: built at the next start")
    assert found.is_sound


@pytest.mark.parametrize("number", [0, -1])
def test_the_first_or_the_newest_file_that_is_gone(store: CheckedStore, number: int) -> None:
    index_file(store, number).unlink()
    assert store.kinds() == {"absent"}


def test_entries_that_a_damaged_file_lacks_are_not_absent(store: CheckedStore) -> None:
    path = index_file(store, 3)
    with store.changed(path, 0, bytes(40)):
        assert "missing_key" in store.kinds()
        assert not store.verify().is_sound


def test_a_file_of_another_length(store: CheckedStore) -> None:
    index_file(store).write_bytes(b"short")
    assert "file_size" in store.kinds()


def test_a_newest_file_that_is_being_written_may_tell_of_more(store: CheckedStore) -> None:
    path = index_file(store, -1)
    count, place = struct.unpack(">i", path.read_bytes()[36:40])[0], 0
    while True:  # The header as it stood before the newest record came.
        count -= 1
        number = entry_position(store, count)
        (before,) = struct.unpack(">q", path.read_bytes()[number + 4 : number + 12])
        if place and before != place:
            break
        place = before
    with store.changed(path, 36, struct.pack(">i", count + 1)):
        assert store.kinds(upto=place, is_live=True) == set()
        assert {"index_slot", "index_unused"} <= store.kinds(upto=place)
