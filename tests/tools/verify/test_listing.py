"""Log files with wrong names: renamed files, and second copies of others."""

import os
import shutil
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.model.errors import StoreGap
from pocketmq.rebuild.log_files import find_readable_files
from pocketmq.tools.repair.planning import blocked_step, plan_repair
from pocketmq.tools.repair.repair import NOTHING_TO_DO
from pocketmq.tools.verify.verdict import next_step
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.golden_stores import GoldenStores
from tests.kit.damaged_store import NOW_MS, DamagedStore
from tests.kit.golden_log import files_below


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> DamagedStore:
    return DamagedStore.of_golden(golden, "rebuild-base", tmp_path / "s")


def logs(store: DamagedStore) -> dict[str, bytes]:
    return files_below(store.directory / "commitlog")


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("distance", [1, 7_700])
def test_a_renamed_file_is_read_and_gets_its_name_back(
    store: DamagedStore, number: int, distance: int
) -> None:
    before, file = logs(store), store.file(number)
    file.rename(file.with_name(f"{int(file.name) + distance * store.file_size // 77:020d}"))
    assert store.kinds() == {"file_name": 1}
    report = store.repair()
    assert report["is_sound"]
    assert report["messages_lost"] == 0
    assert logs(store) == before
    assert store.kinds() == {}
    assert store.repair()["state"] == NOTHING_TO_DO


def test_damage_in_a_renamed_file_is_repaired_after_it_has_its_name(store: DamagedStore) -> None:
    inside = [place for place in store.places if place >= 2 * store.file_size]
    store.flip(inside[3] + 90)
    store.file(2).rename(store.file(2).with_name(f"{2 * store.file_size + 1:020d}"))
    assert store.kinds().keys() >= {"file_name", "record"}
    assert store.repair()["is_sound"]
    assert store.kinds() == {}
    assert store.lost() == [inside[3]]


@pytest.mark.parametrize("distance", [0, 1])
def test_a_second_copy_of_a_file_is_moved_aside(store: DamagedStore, distance: int) -> None:
    before, file = logs(store), store.file(1)
    copy = file.with_name(f"{90 * store.file_size + distance:020d}")
    shutil.copyfile(file, copy)
    assert store.kinds() == {"stray_file": 1}
    assert store.repair()["is_sound"]
    assert logs(store) == before
    assert store.quarantined() == {f"{copy.name}@0": before[file.name]}


def test_a_file_whose_first_record_is_damaged_keeps_its_name(store: DamagedStore) -> None:
    store.write(2 * store.file_size + 28, bytes(8))
    assert "file_name" not in store.kinds()
    assert "stray_file" not in store.kinds()


@pytest.mark.parametrize("length", [1, 3])
def test_a_file_that_begins_inside_another_one_is_another_stores(
    store: DamagedStore, length: int
) -> None:
    before, file = logs(store), store.file(1)
    foreign = file.with_name(f"{int(file.name) + store.file_size // 4:020d}")
    foreign.write_bytes(store.file(0).read_bytes()[: store.file_size * length // 4])
    readable = find_readable_files(store.directory, store.file_size)
    assert [gap.path for gap in readable.gaps] == [str(foreign)]
    assert str(foreign) not in {found.path for found in readable.files}
    assert store.kinds() == {"stray_file": 1}
    assert store.repair()["messages_lost"] == 0
    assert logs(store) == before
    assert [*store.quarantined()] == [f"{foreign.name}@0"]


def test_a_foreign_file_in_the_place_of_a_missing_one_leaves_in_the_same_repair(
    store: DamagedStore,
) -> None:
    file, foreign = store.file(1), store.file(0).read_bytes()
    store.remove(file)
    file.write_bytes(foreign)
    assert store.kinds() == {"missing_file": 1, "stray_file": 1}
    with pytest.raises(StoreGap, match="a file is missing before it"):
        store.repair()
    report = store.repair(accept_loss=True)
    assert report["is_sound"]
    assert store.kinds() == {}
    assert store.lost() == store.hit()
    assert store.quarantined()[f"{file.name}@0"] == foreign


@pytest.mark.parametrize("length", [1, 3, 6])
def test_a_foreign_file_inside_a_missing_one_is_named_and_leaves_in_the_same_repair(
    store: DamagedStore, length: int
) -> None:
    file, foreign = store.file(1), store.file(0).read_bytes()
    inside = file.with_name(f"{int(file.name) + store.file_size // 4:020d}")
    store.remove(file)
    inside.write_bytes((foreign * 2)[: store.file_size * length // 4])
    readable = find_readable_files(store.directory, store.file_size)
    assert {gap.path for gap in readable.gaps} == {str(inside), str(file)}
    found = verify(Disk(), store.directory, store.sizes, VerifyOptions(now_ms=NOW_MS))
    assert found.counts == {"missing_file": 1, "stray_file": 1}
    assert next_step(found, store.directory) == (
        f"move commitlog/{inside.name} out of commitlog/; restore the missing files from a backup; "
        f"or pocketmq store repair {store.directory} --accept-loss, which shows what it would do"
    )
    assert " pocketmq store repair '/my store' --accept-loss," in next_step(
        found, Path("/my store")
    )
    assert store.repair(accept_loss=True)["is_sound"]
    assert store.kinds() == {}
    assert store.lost() == store.hit()
    assert f"{inside.name}@0" in store.quarantined()


def test_the_advice_about_a_missing_file_quotes_the_path(store: DamagedStore) -> None:
    store.remove(store.file(1))
    found = verify(Disk(), store.directory, store.sizes, VerifyOptions(now_ms=NOW_MS))
    step = next_step(found, Path("/my store"))
    assert "without one: pocketmq store repair '/my store' --accept-loss," in step


def test_the_right_part_of_a_file_that_is_too_long_is_verified(store: DamagedStore) -> None:
    """Without it all later records of its queues would look as if offsets were missing."""
    before, file = logs(store), store.file(1)
    with file.open("ab") as end:
        end.write(bytes(1000))
    assert store.kinds() == {"file_size": 1}
    sizes = store.sizes
    found = verify(Disk(), store.directory, sizes, VerifyOptions(now_ms=NOW_MS))
    step = f"cut it: truncate -s {store.file_size} {file}"
    assert next_step(found, store.directory).endswith(step)
    plan = plan_repair(Disk(), store.directory, sizes, now_ms=NOW_MS)
    assert blocked_step(plan, store.directory).endswith(step)
    store.flip([place for place in store.places if place >= store.file_size][3] + 90)
    assert store.kinds().keys() >= {"file_size", "record"}
    os.truncate(file, store.file_size)
    store.flip([place for place in store.places if place >= store.file_size][3] + 90)
    assert logs(store) == before
    assert store.kinds() == {}
