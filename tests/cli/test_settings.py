"""Offline commands take sizes as set, as the store says, or as its files show."""

from dataclasses import asdict
from pathlib import Path

import pytest

from broker.cli.settings import sizes_of
from broker.files.disk import Disk
from broker.log.store_manifest import ManifestFile, StoreManifest
from broker.model.errors import IllegalConfig
from tests.golden_stores import GoldenStores
from tests.tools import offline

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


@pytest.mark.parametrize("name", ["basic", "v533", "semantics", "cqext"])
def test_files_show_their_sizes(golden: GoldenStores, name: str) -> None:
    sizes = sizes_of(Disk(), golden.store(name), [], with_index=True)
    assert sizes == offline.sizes_of(golden.manifest(name))


def test_what_the_store_says_counts(tmp_path: Path) -> None:
    disk = Disk()
    (tmp_path / "pocketmq").mkdir()
    ManifestFile(disk, tmp_path / "pocketmq").write(MANIFEST)
    sizes = sizes_of(disk, tmp_path, [], with_index=True)
    assert sizes.commit_log_file_bytes == asdict(MANIFEST)["commit_log_file_size_bytes"]
    assert sizes.geometry == (7, 9)


def test_what_is_set_counts_more(golden: GoldenStores) -> None:
    given = ["mappedFileSizeCommitLog=4096", "maxHashSlotNum=3", "maxIndexNum=5"]
    sizes = sizes_of(Disk(), golden.store("basic"), given, with_index=True)
    assert sizes.commit_log_file_bytes == 4_096
    assert sizes.geometry == (3, 5)


def test_a_setting_without_a_meaning_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes_of(Disk(), tmp_path, ["brokerRole=SLAVE"], with_index=False)
    assert capsys.readouterr().err == "Note: brokerRole has no meaning here and is ignored\n"


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IllegalConfig):
        sizes_of(Disk(), tmp_path, ["nonsense=1"], with_index=False)
