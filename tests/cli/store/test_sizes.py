"""Offline commands take sizes as set, as the store says, or as its files show."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pocketmq.cli.store.access import sizes_of
from pocketmq.files.disk import Disk
from pocketmq.format.index_layout import OWN_GEOMETRY, STYLE_5_3, STYLE_5_5
from pocketmq.log.store_directory import ManifestFile, StoreManifest
from pocketmq.model.errors import IllegalConfig, StoreTooNew, UnknownGeometry
from tests.golden_stores import NAMES, GoldenStores
from tests.kit.tool_sizes import golden_tool_sizes, known_shape

MANIFEST = StoreManifest(
    commit_log_file_size_bytes=65_536,
    consume_queue_file_size_bytes=2_000,
    index_slot_count=7,
    index_entry_count_max=9,
    index_style="5.5",
    time_zone="",
    cluster="c",
    broker="b",
)


def write_manifest(directory: Path, manifest: StoreManifest = MANIFEST) -> Path:
    """Writes the manifest of a store; returns the file."""
    (directory / "pocketmq").mkdir(exist_ok=True)
    ManifestFile(Disk(), directory / "pocketmq").write(manifest)
    return directory / "pocketmq" / "store.json"


@pytest.mark.parametrize("name", NAMES)
def test_files_show_their_sizes(golden: GoldenStores, name: str) -> None:
    store, wanted = golden.store(name), replace(golden_tool_sizes(golden, name), time_zone="")
    sizes = replace(sizes_of(Disk(), store, [], with_index=True), left_over="")
    if name == "cqext":
        wanted = replace(wanted, filters=(store / "config" / "consumerFilter.json").read_text())
    if not (store / "consumequeue").exists():
        wanted = replace(wanted, consume_queue_file_size_bytes=6_000_000)
    if not any((store / "index").glob("2*")):
        slots, entries = OWN_GEOMETRY
        wanted = replace(wanted, index_slot_count=slots, index_entry_count_max=entries)
    if (store / "consumequeue_ext").exists():
        assert sizes.consume_queue_extension
        size = sizes.consume_queue_extension_file_size_bytes
        wanted = replace(
            wanted, consume_queue_extension=True, consume_queue_extension_file_size_bytes=size
        )
    assert sizes == wanted


def test_a_new_store_has_the_sizes_of_the_settings(tmp_path: Path) -> None:
    sizes = sizes_of(Disk(), tmp_path, [], with_index=True)
    assert sizes == known_shape(64 << 20, 6_000_000, OWN_GEOMETRY)


def test_what_the_store_says_counts(tmp_path: Path) -> None:
    write_manifest(tmp_path, replace(MANIFEST, index_style=STYLE_5_3, time_zone="Asia/Shanghai"))
    for with_index in (True, False):
        sizes = sizes_of(Disk(), tmp_path, [], with_index=with_index)
        assert sizes.commit_log_file_size_bytes == asdict(MANIFEST)["commit_log_file_size_bytes"]
        assert sizes.geometry == (7, 9)
        assert (sizes.index_style, sizes.time_zone) == (STYLE_5_3, "Asia/Shanghai")


def test_what_the_store_says_counts_more_than_its_files(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("v533", tmp_path / "s")
    write_manifest(store)
    sizes = sizes_of(Disk(), store, [], with_index=True)
    assert (sizes.geometry, sizes.index_style) == ((7, 9), STYLE_5_5)


def test_what_is_set_counts_most(golden: GoldenStores, tmp_path: Path) -> None:
    given = [
        "mappedFileSizeCommitLog=4096",
        "maxHashSlotNum=3",
        "maxIndexNum=5",
        "store.index_style=5.3",
        "store.time_zone=Europe/Berlin",
        "messageDelayLevel=1s 2s",
        "enabledAppendPropCRC=true",
    ]
    write_manifest(tmp_path)
    for store in (golden.store("basic"), tmp_path):
        sizes = sizes_of(Disk(), store, given, with_index=True)
        assert sizes.commit_log_file_size_bytes == 4_096
        assert sizes.geometry == (3, 5)
        assert (sizes.index_style, sizes.time_zone) == (STYLE_5_3, "Europe/Berlin")
        assert (sizes.delay_levels, sizes.property_crc) == ("1s 2s", True)
        assert (sizes.removed, sizes.property_crc_from) == ("", 0)


def test_one_number_of_the_geometry_is_enough(golden: GoldenStores) -> None:
    for given in ("maxHashSlotNum=500", "maxIndexNum=2000"):
        sizes = sizes_of(Disk(), golden.store("basic"), [given], with_index=True)
        assert sizes.geometry == (500, 2_000)


def test_without_the_index_no_file_of_it_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "20261121003515660").write_bytes(b"damaged")
    assert sizes_of(Disk(), tmp_path, [], with_index=False).geometry == OWN_GEOMETRY
    with pytest.raises(UnknownGeometry, match="maxHashSlotNum and maxIndexNum"):
        sizes_of(Disk(), tmp_path, [], with_index=True)


def test_a_damaged_manifest_is_told_of_and_the_files_count(
    golden: GoldenStores, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = golden.copy("v533", tmp_path / "s")
    path = write_manifest(store)
    path.write_text("{")
    sizes = replace(sizes_of(Disk(), store, [], with_index=True), left_over="")
    assert sizes == replace(golden_tool_sizes(golden, "v533"), time_zone="")
    said = capsys.readouterr().err
    assert said.startswith(f"Note: {path} cannot be read (")
    assert said.endswith("; sizes are taken from the files\n")


def test_a_manifest_of_a_later_release_is_refused(tmp_path: Path) -> None:
    write_manifest(tmp_path, replace(MANIFEST, format_version=99))
    with pytest.raises(StoreTooNew):
        sizes_of(Disk(), tmp_path, [], with_index=False)


def test_a_setting_without_a_meaning_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes_of(Disk(), tmp_path, ["brokerIP2=10.0.0.1"], with_index=False)
    said = capsys.readouterr().err
    assert said.startswith("Note: brokerIP2 has no meaning here and is ignored: ")
    assert said.count("\n") == 1


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IllegalConfig):
        sizes_of(Disk(), tmp_path, ["nonsense=1"], with_index=False)


def test_sizes_that_no_file_shows_are_told(
    golden: GoldenStores, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes_of(Disk(), golden.store("noindex"), ["maxIndexNum=500"], with_index=True)
    (told,) = capsys.readouterr().err.splitlines()
    assert told == (
        "Note: no file shows maxHashSlotNum: assuming 200000; set another: "
        "--set maxHashSlotNum=NUMBER"
    )
    sizes_of(Disk(), golden.store("lmq"), [], with_index=True)
    assert capsys.readouterr().err == ""
