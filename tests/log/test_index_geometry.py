"""How many slots and entries index files have, told by the files themselves."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.index_entries import ENTRY_TYPE, link_entries
from pocketmq.format.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    OWN_GEOMETRY,
    ROCKETMQ_GEOMETRY,
    SLOT_SIZE,
    IndexGeometry,
)
from pocketmq.log.index_geometry import (
    complete_geometry,
    find_geometry,
)
from pocketmq.model.errors import UnknownGeometry
from tests.golden_stores import NAMES, GoldenStores

STATED = IndexGeometry(8, 16)
"""What the settings say; no file here has its length unless a test makes one."""
NAME = "2026112100351{:04}"


class IndexDirectory:
    """Index files written by the rules of the format, as sparse as the real ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def add(self, geometry: IndexGeometry, count: int, *, first: int = 1) -> Path:
        """Adds a file with entries `first` to `count`; older ones are no longer there."""
        path = self.path / NAME.format(len(list(self.path.iterdir())))
        hashes = np.random.default_rng(count).integers(0, 2**31 - 1, count - first + 1)
        slots = np.zeros(geometry.slot_count, dtype=np.int64)
        entries = np.zeros(len(hashes), dtype=ENTRY_TYPE)
        entries["hash"], entries["physical"] = hashes, np.arange(first, count + 1) * 300
        entries["previous"], _ = link_entries(hashes, slots, first)
        with path.open("wb") as file:
            file.truncate(geometry.file_size)
            file.write(HEADER.pack(1, 2, first * 300, count * 300, 0, count + 1))
            for slot in np.flatnonzero(slots).tolist():
                file.seek(HEADER_SIZE + SLOT_SIZE * slot)
                file.write(int(slots[slot]).to_bytes(SLOT_SIZE))
            file.seek(geometry.entries_position + ENTRY_SIZE * first)
            file.write(entries.tobytes())
        return path

    def add_full(self, geometry: IndexGeometry) -> Path:
        """Adds a file that holds all it can."""
        return self.add(geometry, geometry.entry_count_max - 1)

    def add_stub(self, length: int) -> Path:
        """Adds a file of zeros."""
        path = self.path / NAME.format(len(list(self.path.iterdir())))
        path.write_bytes(bytes(length))
        return path

    def found(self, stated: IndexGeometry = STATED) -> IndexGeometry | None:
        """Returns the geometry that the files show."""
        return find_geometry(Disk(), self.path, stated)

    def refused(self, stated: IndexGeometry = STATED) -> UnknownGeometry:
        """The error, where files show nothing."""
        with pytest.raises(UnknownGeometry) as caught:
            self.found(stated)
        return caught.value


@pytest.fixture
def index(tmp_path: Path) -> IndexDirectory:
    return IndexDirectory(tmp_path / "index")


def overwrite(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def break_entries(path: Path, geometry: IndexGeometry, numbers: Iterable[int]) -> None:
    """Overwrites entries with bytes that are none."""
    for number in numbers:
        overwrite(path, geometry.entries_position + ENTRY_SIZE * number, b"\x77" * ENTRY_SIZE)


# -- real and synthetic stores ---------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_real_files_show_their_geometry(golden: GoldenStores, name: str) -> None:
    directory, params = golden.store(name) / "index", golden.manifest(name)["params"]
    wanted = (params["maxHashSlotNum"], params["maxIndexNum"])
    found = find_geometry(Disk(), directory, STATED)
    assert found == (wanted if any(directory.glob("2*")) else None)


@pytest.mark.parametrize("name", NAMES)
def test_each_real_file_shows_it_alone(golden: GoldenStores, name: str, tmp_path: Path) -> None:
    params = golden.manifest(name)["params"]
    for path in (golden.store(name) / "index").glob("2*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
        if HEADER.unpack_from(path.read_bytes())[5] > 1:  # crash-behind left one without entries
            found = find_geometry(Disk(), tmp_path, STATED)
            assert found == (params["maxHashSlotNum"], params["maxIndexNum"])
        (tmp_path / path.name).unlink()


@pytest.mark.parametrize(
    ("known", "first", "count"),
    [(ROCKETMQ_GEOMETRY, 1, 1), (ROCKETMQ_GEOMETRY, 1, 3_000),
     (ROCKETMQ_GEOMETRY, 15_000_000, 15_080_000), (OWN_GEOMETRY, 1, 50)],
)  # fmt: skip
def test_a_file_of_a_default_size_is_known_at_once(
    index: IndexDirectory, known: IndexGeometry, first: int, count: int
) -> None:
    index.add(known, count, first=first)
    assert index.found() == known


@pytest.mark.parametrize(
    ("slots", "entries", "count"),
    [*((*shape, count) for shape in [(7, 40), (100, 400), (500, 2_000)] for count in (1, 12, 39)),
     (3, 4, 2), (3, 4, 3), (300_000, 2_000_000, 1), (300_000, 2_000_000, 20_000)],
)  # fmt: skip
def test_one_file_shows_its_geometry(
    index: IndexDirectory, slots: int, entries: int, count: int
) -> None:
    index.add(IndexGeometry(slots, entries), count)
    assert index.found() == (slots, entries)


def test_without_files_nothing_is_shown(index: IndexDirectory) -> None:
    (index.path / "readme").write_text("no index file")
    (index.path / NAME.format(1)).mkdir()
    assert index.found() is None
    assert find_geometry(Disk(), index.path / "absent", STATED) is None


# -- several files ---------------------------------------------------------------------------------


def test_a_full_file_shows_its_geometry_by_its_count(index: IndexDirectory) -> None:
    index.add_full(IndexGeometry(50, 60))
    index.add(IndexGeometry(50, 60), 0)
    assert index.found() == (50, 60)


def test_a_file_behind_a_damaged_one_shows_it(index: IndexDirectory) -> None:
    geometry = IndexGeometry(50, 60)
    overwrite(index.add_full(geometry), 36, (10_000).to_bytes(4))
    overwrite(index.add_full(geometry), 36, (31).to_bytes(4))
    break_entries(index.add_full(geometry), geometry, range(1, 60, 2))
    index.add_stub(0)
    index.add(geometry, 5)
    assert index.found() == geometry


def test_a_file_that_a_crash_left_half_full_in_the_middle_is_not_taken_for_full(
    index: IndexDirectory,
) -> None:
    geometry = IndexGeometry(50, 60)
    index.add(geometry, 30)
    index.add_full(geometry)
    assert index.found() == geometry


# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [[2, 3], [297, 299], range(2, 300)])
def test_damage_between_first_and_newest_entry_does_not_matter(
    index: IndexDirectory, broken: Iterable[int]
) -> None:
    geometry = IndexGeometry(500, 2_000)
    break_entries(index.add(geometry, 300), geometry, broken)
    assert index.found() == geometry


@pytest.mark.parametrize("broken", [1, 300])
def test_a_file_that_does_not_agree_with_its_header_is_told_of_with_both_keys(
    index: IndexDirectory, broken: int
) -> None:
    geometry = IndexGeometry(500, 2_000)
    path = index.add(geometry, 300)
    break_entries(path, geometry, [broken])
    error = index.refused()
    assert error.path == str(path)
    assert str(error).endswith(
        f"{geometry.file_size} bytes do not show how many slots and entries an index file has; "
        "set maxHashSlotNum and maxIndexNum"
    )


@pytest.mark.parametrize("known", [STATED, ROCKETMQ_GEOMETRY, OWN_GEOMETRY])
def test_a_file_without_a_header_of_a_well_known_length_shows_its_geometry(
    index: IndexDirectory, known: IndexGeometry
) -> None:
    overwrite(index.add(known, 10), 0, bytes(HEADER_SIZE))
    assert index.found() == known


@pytest.mark.parametrize("known", [STATED, OWN_GEOMETRY])
def test_a_damaged_file_of_a_well_known_length_shows_its_geometry(
    index: IndexDirectory, known: IndexGeometry
) -> None:
    break_entries(index.add(known, 10), known, range(1, 11))
    assert index.found() == known


@pytest.mark.parametrize("length", [0, 4, 41, 43, 64])
def test_a_stub_of_a_file_shows_nothing(index: IndexDirectory, length: int) -> None:
    path = index.add_stub(length)
    assert index.refused().path == str(path)
    index.add(IndexGeometry(50, 60), 5)
    assert index.found() == (50, 60)


@pytest.mark.parametrize("count", [0, -1, 1, 20, 400, 2**31 - 1])
def test_counts_that_cannot_be_are_no_trouble(index: IndexDirectory, count: int) -> None:
    path = index.add(IndexGeometry(100, 400), 40)
    overwrite(path, 36, (count % 2**32).to_bytes(4))
    assert index.refused().path == str(path)


def test_where_several_geometries_fit_none_is_taken(index: IndexDirectory) -> None:
    path = index.add_stub(IndexGeometry(40, 50).file_size)
    overwrite(path, 0, HEADER.pack(1, 1, 100, 100, 1, 2) + (1).to_bytes(4))
    for geometry in (IndexGeometry(40, 50), IndexGeometry(25, 53)):
        place = geometry.entries_position + ENTRY_SIZE
        overwrite(path, place, ENTRY.pack(0, 100, 0, 0))
    assert index.refused().path == str(path)
    assert index.found(IndexGeometry(25, 53)) == (25, 53)


# -- one number known ------------------------------------------------------------------------------


def test_one_number_and_a_length_tell_the_other_if_they_go_together(index: IndexDirectory) -> None:
    index.add_stub(41)
    index.add_stub(IndexGeometry(50, 60).file_size)
    assert complete_geometry(Disk(), index.path, slot_count=50) == (50, 60)
    assert complete_geometry(Disk(), index.path, entry_count_max=60) == (50, 60)
    assert complete_geometry(Disk(), index.path, slot_count=51) is None
    assert complete_geometry(Disk(), index.path, slot_count=5_000) is None
    assert complete_geometry(Disk(), index.path, entry_count_max=1_000) is None
