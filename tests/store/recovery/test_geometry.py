"""Precedence of the sources that state the sizes of a store."""

from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.index_layout import STYLE_5_3, STYLE_5_5, IndexGeometry
from pocketmq.format.names import offset_file_name
from pocketmq.log.hash_index import HashIndex
from pocketmq.log.store_directory import StoreManifest
from pocketmq.model.errors import UnknownGeometry
from pocketmq.store.recovery.geometry import fit_to_disk
from pocketmq.store.settings import StoreSettings
from tests.golden_stores import GoldenStores
from tests.kit.records import Records
from tests.kit.store_golden import READ_WHOLE, golden_parts, golden_sizes
from tests.kit.store_language import small_settings, store_at
from tests.sim.quick_disk import QuickDisk

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


def index_of(directory: Path, geometry: IndexGeometry, records: int) -> Path:
    """Writes an index of so many records with one key each; returns its newest file."""
    index = HashIndex(QuickDisk(), directory / "index", geometry, style=STYLE_5_5, zone=UTC)
    index.apply(Records().take(records))
    path = index.files[-1].path
    index.close()
    return path


def found(directory: Path, **changes: Any) -> IndexGeometry:
    """The geometry a start would take without a manifest."""
    fitted = fit_to_disk(small_settings(directory, **changes), None, Disk())
    return IndexGeometry(fitted.index_slot_count, fitted.index_entry_count_max)


# -- what goes before what -------------------------------------------------------------------------


def test_the_manifest_goes_before_defaults(tmp_path: Path) -> None:
    fitted = fit_to_disk(StoreSettings(directory=tmp_path), MANIFEST, Disk())
    assert sizes_of(fitted) == (1 << 20, 4_000, 70, 700)
    assert (fitted.index_style, fitted.time_zone) == (STYLE_5_3, "Asia/Shanghai")


def test_what_an_operator_set_goes_before_the_manifest(tmp_path: Path) -> None:
    explicit = frozenset({"index_slot_count", "time_zone"})
    asked = StoreSettings(
        directory=tmp_path, index_slot_count=9, time_zone="UTC", explicit=explicit
    )
    fitted = fit_to_disk(asked, MANIFEST, Disk())
    assert sizes_of(fitted) == (1 << 20, 4_000, 9, 700)
    assert (fitted.index_style, fitted.time_zone) == (STYLE_5_3, "UTC")


def test_a_new_store_has_the_sizes_of_the_settings(tmp_path: Path) -> None:
    asked = StoreSettings(directory=tmp_path / "new")
    assert fit_to_disk(asked, None, Disk()) == asked


def test_what_an_operator_set_goes_before_what_files_show(tmp_path: Path) -> None:
    index_of(tmp_path, IndexGeometry(7, 40), 20)
    both = frozenset({"index_slot_count", "index_entry_count_max"})
    assert found(tmp_path, explicit=both) == IndexGeometry(8, 16)
    assert found(tmp_path) == IndexGeometry(7, 40)


def test_what_an_operator_set_need_not_be_shown_by_the_chains(tmp_path: Path) -> None:
    path = index_of(tmp_path, IndexGeometry(7, 40), 20)
    content = path.read_bytes()
    path.write_bytes(content[:68] + b"\x77" * (len(content) - 68))
    with pytest.raises(UnknownGeometry):
        found(tmp_path)
    both = frozenset({"index_slot_count", "index_entry_count_max"})
    given = {"index_slot_count": 7, "index_entry_count_max": 40}
    assert found(tmp_path, explicit=both, **given) == IndexGeometry(7, 40)
    for name in both:
        one: dict[str, Any] = {name: given[name], "explicit": frozenset({name})}
        assert found(tmp_path, **one) == IndexGeometry(7, 40)


def test_one_number_that_goes_with_no_file_stands_beside_the_settings(tmp_path: Path) -> None:
    index_of(tmp_path, IndexGeometry(7, 40), 20)
    one = frozenset({"index_slot_count"})
    assert found(tmp_path, index_slot_count=9, explicit=one) == IndexGeometry(9, 16)


def test_a_removed_index_leaves_the_settings(golden: GoldenStores) -> None:
    fitted = fit_to_disk(small_settings(golden.store("rebuild-index.before")), None, Disk())
    wanted = golden_sizes(golden, "rebuild-index.before")
    assert fitted.commit_log_file_size_bytes == wanted["commit_log_file_size_bytes"]
    assert (fitted.index_slot_count, fitted.index_entry_count_max) == (8, 16)


def test_the_manifest_of_a_damaged_index_counts(tmp_path: Path) -> None:
    path = index_of(tmp_path, IndexGeometry(70, 700), 20)
    path.write_bytes(b"\x77" * path.stat().st_size)
    fitted = fit_to_disk(small_settings(tmp_path), MANIFEST, Disk())
    assert (fitted.index_slot_count, fitted.index_entry_count_max) == (70, 700)


# -- what files show -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READ_WHOLE)
def test_the_files_of_a_real_store_show_its_sizes(golden: GoldenStores, name: str) -> None:
    fitted = fit_to_disk(StoreSettings(directory=golden.store(name)), None, Disk())
    wanted = golden_sizes(golden, name)
    assert sizes_of(fitted) == (
        wanted["commit_log_file_size_bytes"],
        wanted["consume_queue_file_size_bytes"],
        wanted["index_slot_count"],
        wanted["index_entry_count_max"],
    )


def row(directory: Path, lengths: Mapping[int, int]) -> None:
    """Makes files of these lengths, by the offset of their first byte."""
    directory.mkdir(parents=True, exist_ok=True)
    for base, length in lengths.items():
        (directory / offset_file_name(base)).write_bytes(bytes(length))


def test_without_files_the_settings_stand(tmp_path: Path) -> None:
    row(tmp_path / "commitlog", {})
    (tmp_path / "commitlog" / "notes.txt").write_text("x")
    row(tmp_path / "consumequeue" / "T" / "0", {})
    asked = StoreSettings(directory=tmp_path)
    assert fit_to_disk(asked, None, Disk()) == asked


@pytest.mark.parametrize(
    "lengths",
    [
        {0: 100}, {0: 100, 100: 0}, {0: 7, 100: 100}, {0: 100, 100: 7},
        {300: 100, 400: 7, 500: 7, 600: 7}, {0: 100, 200: 100, 500: 7},
    ],
    ids=["one", "unused", "first cut", "last cut", "most cut, names tell", "gaps, most tell"],
)  # fmt: skip
def test_files_that_were_cut_short_are_outvoted(tmp_path: Path, lengths: dict[int, int]) -> None:
    row(tmp_path / "commitlog", lengths)
    fitted = fit_to_disk(StoreSettings(directory=tmp_path), None, Disk())
    assert fitted.commit_log_file_size_bytes == 100


def test_the_first_queue_that_has_a_file_tells(tmp_path: Path) -> None:
    for queue, lengths in (("A/0", {}), ("B/0", {0: 0}), ("B/1", {0: 60, 60: 60})):
        row(tmp_path / "consumequeue" / queue, lengths)
        row(tmp_path / "consumequeue_ext" / queue, lengths)
    fitted = fit_to_disk(StoreSettings(directory=tmp_path), None, Disk())
    assert fitted.consume_queue_file_size_bytes == 60
    assert fitted.consume_queue_extension
    assert fitted.consume_queue_extension_file_size_bytes == 60


async def test_an_own_store_is_read_without_its_manifest(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", index_slot_count=5, index_entry_count_max=9) as store:
        for number in range(30):
            await store.send("T", "x" * 400, key=f"k{number}")
        await store.settled()
        wanted = sizes_of(store.store.settings)
    fitted = fit_to_disk(StoreSettings(directory=tmp_path / "s"), None, Disk())
    assert sizes_of(fitted) == wanted


@pytest.mark.parametrize("size", [0, 4, 41, 43])
async def test_a_stub_of_an_index_file_is_told_of(tmp_path: Path, size: int) -> None:
    path = tmp_path / "s" / "index" / "20261121003515660"
    for directory in (path.parent, tmp_path / "s" / "commitlog"):
        directory.mkdir(parents=True)
    path.write_bytes(bytes(size))
    (tmp_path / "s" / "commitlog" / f"{0:020d}").write_bytes(bytes(4096))
    with pytest.raises(UnknownGeometry) as caught:
        async with store_at(tmp_path / "s"):
            pass
    assert caught.value.path == str(path)
    assert caught.value.key_names == "maxHashSlotNum and maxIndexNum"


# -- the writer's style ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "style"), [("basic", STYLE_5_5), ("semantics", STYLE_5_5), ("v533", STYLE_5_3)]
)
def test_an_opened_store_goes_on_in_the_style_of_its_index(
    golden: GoldenStores, tmp_path: Path, name: str, style: str
) -> None:
    with golden_parts(golden, name, tmp_path) as parts:
        assert parts.settings.index_style == parts.index.style == style


async def test_without_tags_or_without_an_index_the_style_is_the_configured_one(
    tmp_path: Path,
) -> None:
    for name, key in (("keys", "k"), ("nothing", "")):
        async with store_at(tmp_path / name, index_style=STYLE_5_3) as store:
            await store.send("T", "a", key=key)
            await store.settled()
        (tmp_path / name / "pocketmq" / "store.json").unlink()
        async with store_at(tmp_path / name, index_style=STYLE_5_3) as store:
            assert store.store.views.index.style == STYLE_5_3


def test_an_operators_style_is_taken_whoever_wrote_the_index(
    golden: GoldenStores, tmp_path: Path
) -> None:
    sizes = golden_sizes(golden, "v533")
    with golden_parts(golden, "v533", tmp_path, **sizes) as parts:
        assert parts.index.style == STYLE_5_3
    asked = StoreSettings(directory=tmp_path, **{**sizes, "index_style": STYLE_5_5})
    assert fit_to_disk(asked, MANIFEST, Disk()).index_style == STYLE_5_5
