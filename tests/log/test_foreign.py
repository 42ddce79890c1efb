"""Files of a store that this broker does not use are reported by name and left unchanged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.log.foreign import batch_topics, check_understood, refusals
from pocketmq.model.errors import LogMissing, StorageError, UnsupportedStore
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.tools.backup import backup
from pocketmq.tools.install import stage_and_install
from pocketmq.tools.rebuild import plan_rebuild
from pocketmq.tools.repair.planning import plan_repair
from pocketmq.tools.repair.repair import repair_store
from tests.golden_stores import NAMES, SPECIAL_NAMES, GoldenStores
from tests.kit.golden_log import files_below
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import small_settings
from tests.kit.tool_sizes import golden_tool_sizes
from tests.sim.quick_disk import QuickDisk

ROCKSDB = "CURRENT", "IDENTITY", "LOCK", "MANIFEST-000005", "OPTIONS-000009"
"""The files of a RocksDB, as a broker of 5.5.0 leaves them."""


def rocksdb_at(directory: Path) -> None:
    directory.mkdir(parents=True)
    for name in ROCKSDB:
        (directory / name).write_bytes(b"x")


def dledger(store: Path) -> None:
    """As enableDLegerCommitLog=true leaves it: the log is elsewhere and of another format."""
    shutil.copytree(store / "commitlog", store / "dledger-n0" / "data")
    shutil.rmtree(store / "commitlog")


def rocksdb_queues(store: Path) -> None:
    """As storeType=defaultRocksDB leaves them."""
    shutil.rmtree(store / "consumequeue")
    rocksdb_at(store / "consumequeue")


def without_log(store: Path) -> None:
    """As a log that was on another disk."""
    for path in (store / "commitlog").iterdir():
        path.unlink()


FOREIGN: dict[str, tuple[Callable[[Path], object], type[StorageError], str, str]] = {
    "dledger": (dledger, UnsupportedStore, "dledger-n0", "enableDLegerCommitLog"),
    "rocksdb queues": (rocksdb_queues, UnsupportedStore, "consumequeue", "storeType"),
    "rocksdb queues beside files": (
        lambda store: rocksdb_at(store / "consumequeue_rocksdb"),
        UnsupportedStore, "consumequeue_rocksdb", "storeType",
    ),
    "rocksdb tables": (
        lambda store: rocksdb_at(store / "config" / "topics"),
        UnsupportedStore, "config/topics", "RocksDB",
    ),
    "a log on other paths": (
        lambda store: (store / "commitlog").rename(store / "cl-a"),
        LogMissing, "commitlog", "storePathCommitLog",
    ),
    "a log that is gone": (without_log, LogMissing, "commitlog", "copy"),
}  # fmt: skip
"""What makes a store foreign; the error, the path it names and what its text says."""


@pytest.fixture(params=FOREIGN)
def foreign(request: pytest.FixtureRequest, golden: GoldenStores, tmp_path: Path) -> Path:
    """A store of each kind; how it is refused is checked when the test has ended."""
    store = golden.copy("basic", tmp_path / request.param.replace(" ", "-"))
    FOREIGN[request.param][0](store)
    return store


def test_a_foreign_store_is_refused_and_stays_as_it_is(
    foreign: Path, golden: GoldenStores, tmp_path: Path
) -> None:
    _, kind, named, says = FOREIGN[foreign.name.replace("-", " ")]
    sizes = golden_tool_sizes(golden, "basic")
    settings = small_settings(foreign, **golden_sizes(golden, "basic"))
    was = files_below(foreign)
    disk = Disk()
    for act in (
        lambda: StoreComponents(settings, QuickDisk()),
        lambda: plan_rebuild(disk, foreign, sizes),
        lambda: stage_and_install(disk, foreign, sizes, lambda _: pytest.fail("nothing to stage")),
        lambda: plan_repair(disk, foreign, sizes, now_ms=0),
        lambda: repair_store(disk, foreign, sizes, now_ms=0),
        lambda: backup(disk, foreign, tmp_path / "copy", sizes, now_ms=0),
    ):
        with pytest.raises(kind) as refused:
            act()
        assert refused.value.path == str(foreign / named)  # type: ignore[attr-defined]
        assert says in str(refused.value)
        assert files_below(foreign) == was
    assert not (tmp_path / "copy").exists()
    assert not (foreign / "pocketmq").exists()


@pytest.mark.parametrize("name", [*NAMES, *SPECIAL_NAMES])
def test_no_store_of_plain_files_is_refused(golden: GoldenStores, name: str) -> None:
    assert list(refusals(Disk(), golden.store(name))) == []


def test_a_new_store_is_not_refused(tmp_path: Path) -> None:
    check_understood(Disk(), tmp_path / "none")
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "consumequeue" / "T" / "0").mkdir(parents=True)
    (tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}").touch()
    (tmp_path / "dledger-n0").mkdir()
    check_understood(Disk(), tmp_path)


def test_topics_of_batch_queues_are_known_by_their_directories(golden: GoldenStores) -> None:
    assert batch_topics(Disk(), golden.store("bcq")) == {"Bcq"}
    assert batch_topics(Disk(), golden.store("basic")) == frozenset()
