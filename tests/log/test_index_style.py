"""Which release's style an index is written in, told by entries and the records they are of."""

from datetime import UTC
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.index_layout import (
    ENTRY_SIZE,
    HEADER_SIZE,
    STYLE_5_3,
    STYLE_5_5,
    IndexGeometry,
    StyleSpans,
)
from pocketmq.format.names import offset_file_name
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import encode_blank
from pocketmq.format.record_scan import written_at
from pocketmq.log import index_style
from pocketmq.log.hash_index import HashIndex
from pocketmq.log.index_style import written_styles
from pocketmq.model.message import KEYS, TAGS, UNIQUE_KEY
from pocketmq.model.store_shape import DEFAULT_DELAY_LEVELS, DelayLevels
from tests.golden_stores import NAMES, GoldenStores
from tests.kit.records import record
from tests.sim.quick_disk import QuickDisk

STYLES = pytest.mark.parametrize("style", [STYLE_5_3, STYLE_5_5])
GEOMETRY = IndexGeometry(8, 200)
LOG_FILE_BYTES = 1_000
"""Room for some four records."""
LEVELS = DelayLevels(DEFAULT_DELAY_LEVELS)


class SmallStore:
    """A log and its index, written side by side in one style."""

    def __init__(self, path: Path, style: str, geometry: IndexGeometry = GEOMETRY) -> None:
        self.path = path
        self.written_in = style
        self.geometry = geometry
        self._place = 0
        self._is_indexing = True
        self.index = HashIndex(QuickDisk(), path / "index", geometry, style=style, zone=UTC)
        (path / "commitlog").mkdir()

    def put(self, *, unique_key: str = "", key: str = "", tag: str = "", count: int = 1) -> None:
        """Appends records with these properties; numbers make unique keys unique."""
        for number in range(count):
            name = f"{unique_key}{number}" if unique_key else ""
            given = {UNIQUE_KEY: name, KEYS: key, TAGS: tag}
            self._append({name: value for name, value in given.items() if value})

    def skip(self, *, unique_key: str = "", tag: str = "") -> None:
        """Appends a record that the index does not learn of."""
        self._is_indexing = False
        self.put(unique_key=unique_key, tag=tag)
        self._is_indexing = True

    def _append(self, properties: dict[str, str]) -> None:
        block = encode_properties(properties)
        size = len(record(self._place, properties=block))
        left = LOG_FILE_BYTES - self._place % LOG_FILE_BYTES
        if left < size + 8:
            self._write(self._place, encode_blank(left))
            self._place += left
        content = record(self._place, properties=block)
        self._write(self._place, content)
        if self._is_indexing:
            self.index.apply([written_at(content, 0, LEVELS)])
        self._place += size

    def _write(self, place: int, content: bytes) -> None:
        base = place - place % LOG_FILE_BYTES
        path = self.path / "commitlog" / offset_file_name(base)
        before = path.read_bytes() if path.exists() else bytes(LOG_FILE_BYTES)
        at = place - base
        path.write_bytes(before[:at] + content + before[at + len(content) :])

    def first_behind(self, place: int) -> int:
        """Returns where the next record of some size goes."""
        left = LOG_FILE_BYTES - place % LOG_FILE_BYTES
        return place if left > 250 else place + left

    @property
    def log_files(self) -> list[Path]:
        """Files of the log, oldest first."""
        return sorted((self.path / "commitlog").iterdir())

    @property
    def index_files(self) -> list[Path]:
        """Files of the index, oldest first."""
        return sorted((self.path / "index").iterdir())

    def break_entries(self, *numbers: int, content: bytes = b"\x00", file: int = 0) -> None:
        """Overwrites entries of an index file."""
        for number in numbers:
            position = self.geometry.entries_position + ENTRY_SIZE * number
            overwrite(self.index_files[file], position, content * ENTRY_SIZE)

    def style(self) -> str | None:
        """Returns the style that the files show."""
        return self.styles()[1]

    def styles(self) -> tuple[StyleSpans, str | None]:
        """Returns the styles that the files show, older ones first."""
        return written_styles(
            Disk(), self.path, log_file_bytes=LOG_FILE_BYTES, geometry=self.geometry
        )

    @property
    def end(self) -> int:
        """Where the next record goes, unless it does not fit in the file."""
        return self._place


@pytest.fixture(params=[STYLE_5_3, STYLE_5_5])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> SmallStore:
    return SmallStore(tmp_path, request.param)


def overwrite(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_index_shows_which_release_wrote_it(golden: GoldenStores, name: str) -> None:
    store, params = golden.store(name), golden.manifest(name)["params"]
    geometry = IndexGeometry(params["maxHashSlotNum"], params["maxIndexNum"])
    found = written_styles(
        Disk(), store, log_file_bytes=params["mappedFileSizeCommitLog"], geometry=geometry
    )
    wanted = STYLE_5_3 if name == "v533" else STYLE_5_5
    assert found == ((), wanted if any((store / "index").glob("2*")) else None)


def test_a_real_index_shows_from_which_record_on_a_newer_release_wrote_it(
    golden: GoldenStores,
) -> None:
    found = written_styles(
        Disk(), golden.store("upgrade"), log_file_bytes=262_144, geometry=IndexGeometry(101, 500)
    )
    assert found == (((74_340, STYLE_5_3),), STYLE_5_5)


def test_the_first_record_with_a_tag_tells(store: SmallStore) -> None:
    store.put(unique_key="u", key="a b", count=5)
    store.put(unique_key="v", key="a b", tag="t")
    assert store.style() == store.written_in


@pytest.mark.parametrize("counts", [(1, 9), (150, 150), (700, 400, 300)])
def test_each_change_of_style_shows_at_its_record(
    store: SmallStore, counts: tuple[int, ...]
) -> None:
    ends: list[int] = []
    for number, count in enumerate(counts):
        store.put(unique_key=f"u{number}-", tag="t", count=count)
        ends.append(store.first_behind(store.end))
        store.index.style = STYLE_5_3 if store.index.style == STYLE_5_5 else STYLE_5_5
    styles = [store.written_in, *{STYLE_5_3, STYLE_5_5} - {store.written_in}] * 2
    older = tuple(zip(ends[:-1], styles, strict=False))
    assert store.styles() == (older, styles[len(older)])


def test_a_lost_entry_is_no_change_of_style(tmp_path: Path) -> None:
    store = SmallStore(tmp_path, STYLE_5_3)
    store.put(unique_key="u", tag="t", count=30)
    change = store.first_behind(store.end)
    store.index.style = STYLE_5_5
    store.put(unique_key="v", tag="t", count=30)
    store.break_entries(43)
    assert store.styles() == (((change, STYLE_5_3),), STYLE_5_5)


def test_without_tags_nothing_shows(tmp_path: Path) -> None:
    store = SmallStore(tmp_path, STYLE_5_3)
    store.put(unique_key="u", key="k", count=50)
    store.put(count=5)
    assert store.style() is None


def test_without_an_index_or_without_a_log_nothing_shows(store: SmallStore) -> None:
    """An index of one record is enough."""
    assert store.style() is None
    store.put(unique_key="u", tag="t")
    assert store.style() == store.written_in
    store.log_files[0].unlink()
    assert store.style() is None
    (store.path / "commitlog").rmdir()
    assert store.style() is None


@pytest.mark.parametrize("content", [b"\x00", b"\x77", b"\xff"])
def test_damaged_first_entries_tell_nothing(store: SmallStore, content: bytes) -> None:
    store.put(unique_key="u", key="k", tag="t", count=30)
    store.break_entries(*range(1, 20), content=content)
    assert store.style() == store.written_in


@pytest.mark.parametrize("content", [bytes(HEADER_SIZE), b"\xff" * HEADER_SIZE])
def test_a_damaged_header_does_not_matter(store: SmallStore, content: bytes) -> None:
    store.put(unique_key="u", tag="t", count=9)
    overwrite(store.index_files[0], 0, content)
    overwrite(store.index_files[0], 36, (store.geometry.entry_count_max + 1).to_bytes(4))
    assert store.style() == store.written_in


def test_a_damaged_tag_entry_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    store = SmallStore(tmp_path, STYLE_5_5)
    store.put(unique_key="u", tag="t", count=3)
    store.break_entries(2, content=b"\x77")
    assert store.style() == STYLE_5_5


@STYLES
def test_a_head_of_the_log_that_was_deleted_is_passed_over(tmp_path: Path, style: str) -> None:
    store = SmallStore(tmp_path, style, IndexGeometry(8, 2_000))
    store.put(unique_key="u", tag="t", count=300)
    for path in store.log_files[:-2]:
        path.unlink()
    assert store.style() == store.written_in


def test_files_of_the_log_that_are_damaged_are_passed_over(store: SmallStore) -> None:
    store.put(unique_key="u", tag="t", count=30)
    first, second, third = store.log_files[:3]
    overwrite(first, 0, bytes(LOG_FILE_BYTES))
    overwrite(second, 0, b"\x77" * LOG_FILE_BYTES)
    third.write_bytes(third.read_bytes()[:100])
    assert store.style() == store.written_in


@STYLES
def test_an_index_file_that_tells_nothing_is_passed_over(tmp_path: Path, style: str) -> None:
    store = SmallStore(tmp_path, style, IndexGeometry(8, 20))
    store.put(unique_key="u", tag="t", count=30)
    store.break_entries(*range(1, 20))
    (tmp_path / "index" / "20200101000000000").write_bytes(b"a stub")
    (tmp_path / "index" / "20200101000000001").mkdir()
    (tmp_path / "index" / "readme").touch()
    assert store.style() == store.written_in


def test_entries_that_go_on_in_the_next_file_are_not_taken_for_all(tmp_path: Path) -> None:
    """The first file ends with half a record.

    Three entries a file: u t | u … t u t | u.
    """
    store = SmallStore(tmp_path, STYLE_5_5, IndexGeometry(8, 4))
    store.put(unique_key="u", tag="t", count=5)
    store.break_entries(1, 2)
    store.break_entries(1, 2, 3, file=1)
    assert store.style() == STYLE_5_5


# -- records with a tag and no key -----------------------------------------------------------------


def test_a_tag_without_a_key_between_two_others_tells(store: SmallStore) -> None:
    store.put(unique_key="u", count=9)
    store.put(tag="d")
    store.put(unique_key="v", count=9)
    assert store.style() == store.written_in


def test_it_does_not_where_a_neighbour_is_damaged_or_entries_were_lost(tmp_path: Path) -> None:
    """Nor do records without any property."""
    names = ("damaged", "lost", "bare")
    for name in names:
        (tmp_path / name).mkdir()
    damaged, lost, bare = (SmallStore(tmp_path / name, STYLE_5_5) for name in names)
    damaged.put(unique_key="u", count=4)
    damaged.put(tag="d")
    damaged.put(unique_key="v")
    damaged.break_entries(5, 6)
    lost.put(unique_key="u")
    lost.skip(tag="d")
    lost.skip(unique_key="v", tag="t")
    lost.put(unique_key="w")
    for _ in range(4):
        bare.put(unique_key="u")
        bare.put(count=3)
    assert [damaged.style(), lost.style(), bare.style()] == [None] * 3


# -- much ------------------------------------------------------------------------------------------


@STYLES
def test_tags_that_come_late_are_found_by_samples(
    tmp_path: Path, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_style, "FIRST_ENTRIES", 16)
    monkeypatch.setattr(index_style, "SAMPLE_ENTRIES", 8)
    store = SmallStore(tmp_path, style, IndexGeometry(8, 900))
    store.put(unique_key="u", count=300)
    store.put(unique_key="v", tag="t", count=100)
    assert store.style() == store.written_in


def test_only_some_files_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_style, "FILES_MAX", 2)
    store = SmallStore(tmp_path, STYLE_5_3, IndexGeometry(8, 11))
    store.put(unique_key="u", count=20)
    store.put(unique_key="v", tag="t", count=5)
    store.put(unique_key="w", count=20)
    assert len(store.index_files) == 5
    assert store.style() is None
    monkeypatch.setattr(index_style, "FILES_MAX", 3)
    assert store.style() == STYLE_5_3
