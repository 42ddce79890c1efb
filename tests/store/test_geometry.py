"""Geometry: which sizes an existing store has, and which style its index."""

from dataclasses import replace
from datetime import UTC
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.files.disk import Disk
from broker.format.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    STYLE_5_3,
    STYLE_5_5,
    IndexGeometry,
    IndexHeaderValues,
    key_hash,
)
from broker.format.java_hash import java_hash
from broker.log.hash_index import HashIndex
from broker.log.store_manifest import StoreManifest
from broker.model.errors import UnknownGeometry, WrongFileSize
from broker.model.message import DispatchEntry
from broker.store.geometry import candidate_geometries, settle_sizes, writer_style
from broker.store.settings import StoreSettings
from tests.fakes.quick_disk import QuickDisk
from tests.fakes.records import Records, entry
from tests.fakes.store_golden import READ_WHOLE, golden_parts, golden_sizes
from tests.fakes.store_language import small_settings, store_at
from tests.golden_stores import GoldenStores

MANIFEST = StoreManifest(
    commit_log_file_size_bytes=1 << 20,
    consume_queue_file_size_bytes=4_000,
    index_slot_count=70,
    index_entry_count_max=700,
    index_style=STYLE_5_3,
    time_zone="Asia/Shanghai",
    cluster="c",
    broker="b",
)


def sizes_of(settings: StoreSettings) -> tuple[int, int, int, int]:
    return (
        settings.commit_log_file_size_bytes,
        settings.consume_queue_file_size_bytes,
        settings.index_slot_count,
        settings.index_entry_count_max,
    )


def index_of(directory: Path, geometry: IndexGeometry, records: int | list[DispatchEntry]) -> Path:
    """Write an index of records, or so many with one key each; returns its newest file."""
    index = HashIndex(QuickDisk(), directory / "index", geometry, style=STYLE_5_5, zone=UTC)
    index.apply(Records().take(records) if isinstance(records, int) else records)
    path = index.files[-1].path
    index.close()
    return path


def found(directory: Path, **changes: Any) -> IndexGeometry:
    """The geometry a start would take without a manifest."""
    settled = settle_sizes(small_settings(directory, **changes), None, Disk())
    return IndexGeometry(settled.index_slot_count, settled.index_entry_count_max)


# -- what goes before what -------------------------------------------------------------------------


def test_the_manifest_goes_before_defaults(tmp_path: Path) -> None:
    settled = settle_sizes(StoreSettings(directory=tmp_path), MANIFEST, Disk())
    assert sizes_of(settled) == (1 << 20, 4_000, 70, 700)
    assert (settled.index_style, settled.time_zone) == (STYLE_5_3, "Asia/Shanghai")


def test_what_an_operator_set_goes_before_the_manifest(tmp_path: Path) -> None:
    explicit = frozenset({"index_slot_count", "time_zone"})
    asked = StoreSettings(
        directory=tmp_path, index_slot_count=9, time_zone="UTC", explicit=explicit
    )
    settled = settle_sizes(asked, MANIFEST, Disk())
    assert sizes_of(settled) == (1 << 20, 4_000, 9, 700)
    assert (settled.index_style, settled.time_zone) == (STYLE_5_3, "UTC")


def test_a_new_store_has_the_sizes_of_the_settings(tmp_path: Path) -> None:
    asked = StoreSettings(directory=tmp_path / "new")
    assert settle_sizes(asked, None, Disk()) == asked


async def test_what_an_operator_set_goes_before_what_files_show(tmp_path: Path) -> None:
    index_of(tmp_path, IndexGeometry(7, 40), 20)
    both = frozenset({"index_slot_count", "index_entry_count_max"})
    assert found(tmp_path, explicit=both) == IndexGeometry(8, 16)
    assert found(tmp_path) == IndexGeometry(7, 40)


# -- what files show -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READ_WHOLE)
def test_the_files_of_a_real_store_show_its_sizes(golden: GoldenStores, name: str) -> None:
    settled = settle_sizes(StoreSettings(directory=golden.store(name)), None, Disk())
    wanted = golden_sizes(golden, name)
    assert sizes_of(settled) == (
        wanted["commit_log_file_size_bytes"],
        wanted["consume_queue_file_size_bytes"],
        wanted["index_slot_count"],
        wanted["index_entry_count_max"],
    )


async def test_an_own_store_is_read_without_its_manifest(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", index_slot_count=5, index_entry_count_max=9) as store:
        for number in range(30):
            await store.send("T", "x" * 400, key=f"k{number}")
        await store.settled()
        wanted = sizes_of(store.store.settings)
    settled = settle_sizes(StoreSettings(directory=tmp_path / "s"), None, Disk())
    assert sizes_of(settled) == wanted


@pytest.mark.parametrize(
    "geometry", [IndexGeometry(7, 40), IndexGeometry(100, 400), IndexGeometry(500, 2_000)]
)
@pytest.mark.parametrize("records", [12, 39])
def test_one_file_shows_its_geometry_by_its_chains(
    tmp_path: Path, geometry: IndexGeometry, records: int
) -> None:
    index_of(tmp_path, geometry, records)
    assert found(tmp_path) == geometry


def test_a_full_file_shows_its_geometry_by_its_count(tmp_path: Path) -> None:
    index_of(tmp_path, IndexGeometry(3, 4), 4)
    assert found(tmp_path) == IndexGeometry(3, 4)


def lone_entry(slot_count: int) -> DispatchEntry:
    """A record whose key falls into slot 0: files of fewer slots would show the same."""
    hashes = ((f"k{n}", key_hash(java_hash(f"T#k{n}"))) for n in count(1))
    return entry(0, keys=next(key for key, hashed in hashes if hashed % slot_count == 0))


def test_where_several_geometries_fit_both_keys_are_named(tmp_path: Path) -> None:
    path = index_of(tmp_path, IndexGeometry(100, 400), [lone_entry(100)])
    with pytest.raises(UnknownGeometry) as caught:
        found(tmp_path)
    assert caught.value.path == str(path)
    assert "maxHashSlotNum and maxIndexNum" in str(caught.value)
    assert "geometries fit" in str(caught.value)


def test_settings_that_fit_are_taken_where_others_fit_too(tmp_path: Path) -> None:
    index_of(tmp_path, IndexGeometry(8, 16), [lone_entry(8)])
    assert found(tmp_path) == IndexGeometry(8, 16)
    with pytest.raises(UnknownGeometry):
        found(tmp_path, index_slot_count=9)


def test_a_file_without_entries_shows_nothing(tmp_path: Path) -> None:
    path = index_of(tmp_path, IndexGeometry(100, 400), 1)
    path.write_bytes(bytes(path.stat().st_size))
    assert found(tmp_path) == IndexGeometry(8, 16)


def test_a_count_that_cannot_be_leaves_the_settings(tmp_path: Path) -> None:
    index_of(tmp_path, IndexGeometry(8, 16), 40)
    first = sorted((tmp_path / "index").iterdir())[0]
    content = bytearray(first.read_bytes())
    content[36:40] = (10_000).to_bytes(4)
    first.write_bytes(content)
    assert found(tmp_path) == IndexGeometry(8, 16)


@pytest.mark.parametrize("size", [0, 4, 41, 43])
async def test_a_stub_of_a_file_is_a_file_of_wrong_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "s" / "index" / "20261121003515660"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(size))
    with pytest.raises(WrongFileSize) as caught:
        async with store_at(tmp_path / "s"):
            pass
    assert (caught.value.path, caught.value.found_bytes) == (str(path), size)
    assert caught.value.key_names == "maxHashSlotNum and maxIndexNum"


@settings(max_examples=60, deadline=None)
@given(
    slot_count=st.integers(1, 12),
    entry_max=st.integers(3, 14),
    hashes=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=12),
)
def test_candidates_are_those_of_a_plain_search(
    slot_count: int, entry_max: int, hashes: list[int]
) -> None:
    geometry = IndexGeometry(slot_count, entry_max)
    content = index_bytes(geometry, hashes[: entry_max - 1])
    words = np.frombuffer(content, dtype=">i4")
    index_count = len(hashes[: entry_max - 1]) + 1
    candidates = candidate_geometries(words, index_count)
    assert (geometry in candidates) == (index_count > 1)
    assert sorted(candidates) == sorted(plain_search(content, index_count))


def index_bytes(geometry: IndexGeometry, hashes: list[int]) -> bytes:
    """An index file written out by the rules of the format."""
    content = bytearray(geometry.file_size)
    heads = [0] * geometry.slot_count
    for number, hashed in enumerate(hashes, 1):
        slot = hashed % geometry.slot_count
        place = geometry.entries_position + ENTRY_SIZE * number
        ENTRY.pack_into(content, place, hashed, 100 * number, 0, heads[slot])
        heads[slot] = number
    for slot, head in enumerate(heads):
        content[HEADER_SIZE + SLOT_SIZE * slot : HEADER_SIZE + SLOT_SIZE * (slot + 1)] = (
            head.to_bytes(SLOT_SIZE)
        )
    return bytes(content)


def plain_search(content: bytes, index_count: int) -> list[IndexGeometry]:
    """Every pair of sizes that gives this length and lets every chain be followed."""
    fitting = []
    for entry_max in range(index_count, len(content)):
        slots_size = len(content) - HEADER_SIZE - ENTRY_SIZE * entry_max
        if slots_size < SLOT_SIZE:
            break
        geometry = IndexGeometry(slots_size // SLOT_SIZE, entry_max)
        begin = geometry.entries_position
        places = [begin + ENTRY_SIZE * number for number in range(1, index_count)]
        entries = [ENTRY.unpack_from(content, place) for place in places]
        hashes = [entry[0] for entry in entries]
        if min(hashes) >= 0:
            written = index_bytes(geometry, hashes)
            slots = slice(HEADER_SIZE, HEADER_SIZE + SLOT_SIZE * geometry.slot_count)
            used = {hashed % geometry.slot_count for hashed in hashes}
            links = [ENTRY.unpack_from(written, place) for place in places]
            pairs = zip(_words(written[slots]), _words(content[slots]), strict=True)
            is_same = [mine == theirs for mine, theirs in pairs]
            if all(is_same[slot] for slot in used):
                if [link[3] for link in links] == [entry[3] for entry in entries]:
                    fitting.append(geometry)
    return fitting


def _words(content: bytes) -> list[int]:
    return [int.from_bytes(content[at : at + 4]) for at in range(0, len(content), 4)]


def test_one_entry_has_no_candidates_to_choose_from() -> None:
    words = np.frombuffer(bytes(IndexGeometry(8, 16).file_size), dtype=">i4")
    assert candidate_geometries(words, IndexHeaderValues().index_count) == []


# -- the writer's style ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "style"), [("basic", STYLE_5_5), ("semantics", STYLE_5_5), ("v533", STYLE_5_3)]
)
def test_an_index_tells_which_release_wrote_it(
    golden: GoldenStores, tmp_path: Path, name: str, style: str
) -> None:
    with golden_parts(golden, name, tmp_path) as parts:
        assert parts.settings.index_style == parts.index.style == style
        parts.index.style = "neither"
        assert writer_style(parts.log, parts.index, parts.levels) == style


async def test_without_tags_or_without_an_index_the_style_is_the_configured_one(
    tmp_path: Path,
) -> None:
    for name, words in (("keys", {"key": "k"}), ("nothing", {})):
        async with store_at(tmp_path / name, index_style=STYLE_5_3) as store:
            await store.send("T", "a", **words)  # type: ignore[arg-type]
            await store.settled()
            parts = store.store.structures
            assert writer_style(parts.log, parts.index, parts.levels) == STYLE_5_3


def test_an_operators_style_is_taken_whoever_wrote_the_index(
    golden: GoldenStores, tmp_path: Path
) -> None:
    sizes = golden_sizes(golden, "v533")
    with golden_parts(golden, "v533", tmp_path, **sizes) as parts:
        assert parts.index.style == STYLE_5_3
    asked = replace(StoreSettings(directory=tmp_path), **{**sizes, "index_style": STYLE_5_5})
    assert settle_sizes(asked, MANIFEST, Disk()).index_style == STYLE_5_5
