"""Copies are complete before they count, and are never written over."""

import json
from pathlib import Path

import pytest

from pocketmq.log.quarantine import (
    FINISHED,
    UNFINISHED,
    Quarantine,
    new_quarantine,
    unfinished_repair,
)
from tests.kit.damaged_store import NOW_MS
from tests.sim.quick_disk import PowerCut, QuickDisk

NOTE = {"reason": "torn"}


@pytest.fixture
def quarantine(tmp_path: Path) -> Quarantine:
    return new_quarantine(QuickDisk(), tmp_path, NOW_MS)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = tmp_path / f"{4096:020d}"
    path.write_bytes(bytes(range(256)) * 16)
    return path


def test_a_copy_and_its_note(quarantine: Quarantine, damaged: Path) -> None:
    name = quarantine.keep(damaged, 4_196, 4_296, base=4_096, note=NOTE)
    assert name == f"{damaged.name}@4196"
    assert (quarantine.directory / name).read_bytes() == damaged.read_bytes()[100:200]
    note = json.loads((quarantine.directory / f"{name}.json").read_bytes())
    assert note["reason"] == "torn"
    assert note["bytes"] == 100


def test_long_zeros_take_no_room(quarantine: Quarantine, tmp_path: Path) -> None:
    path = tmp_path / "0"
    path.write_bytes(bytes(1 << 20) + b"x" + bytes(3 << 20))
    name = quarantine.keep(path, 0, path.stat().st_size, base=0, note=NOTE)
    copy = quarantine.directory / name
    assert copy.read_bytes() == path.read_bytes()
    assert copy.stat().st_blocks * 512 <= 1 << 20


def test_the_same_bytes_are_copied_once(quarantine: Quarantine, damaged: Path) -> None:
    names = {quarantine.keep(damaged, 4_196, 4_296, base=4_096, note=NOTE) for _ in range(3)}
    assert len(names) == 1
    assert len(list(quarantine.directory.iterdir())) == 2


def test_changed_bytes_get_a_copy_of_their_own(quarantine: Quarantine, damaged: Path) -> None:
    first = quarantine.keep(damaged, 4_196, 4_296, base=4_096, note=NOTE)
    before = (quarantine.directory / first).read_bytes()
    damaged.write_bytes(bytes(4096))
    second = quarantine.keep(damaged, 4_196, 4_296, base=4_096, note=NOTE)
    assert second == f"{first}-2"
    assert (quarantine.directory / first).read_bytes() == before
    assert (quarantine.directory / second).read_bytes() == bytes(100)


@pytest.mark.parametrize("call", ["make_sparse_file", "allocate", "write_at", "sync", "rename"])
def test_a_copy_that_was_cut_short_is_made_again(tmp_path: Path, damaged: Path, call: str) -> None:
    disk = QuickDisk()
    quarantine = new_quarantine(disk, tmp_path, NOW_MS)
    disk.fail(call, PowerCut())
    with pytest.raises(PowerCut):
        quarantine.keep(damaged, 4_096, 8_192, base=4_096, note=NOTE)
    name = quarantine.keep(damaged, 4_096, 8_192, base=4_096, note=NOTE)
    assert (quarantine.directory / name).read_bytes() == damaged.read_bytes()


def test_everything_is_durable_before_it_counts(tmp_path: Path, damaged: Path) -> None:
    disk = QuickDisk()
    quarantine = new_quarantine(disk, tmp_path, NOW_MS)
    disk.calls.clear()
    quarantine.keep(damaged, 4_096, 8_192, base=4_096, note=NOTE)
    assert len(disk.calls["sync"]) >= 1
    assert disk.calls["sync_directory"][-1] == (quarantine.directory,)


def test_an_unfinished_repair_is_found(tmp_path: Path, quarantine: Quarantine) -> None:
    assert unfinished_repair(QuickDisk(), tmp_path) is None
    quarantine.write_report({"state": UNFINISHED, "log": []})
    found = unfinished_repair(QuickDisk(), tmp_path)
    assert found is not None
    assert found[0].directory == quarantine.directory
    assert found[1] == {"state": UNFINISHED, "log": []}
    quarantine.write_report({"state": FINISHED})
    assert unfinished_repair(QuickDisk(), tmp_path) is None


def test_two_repairs_of_one_second_have_two_directories(tmp_path: Path) -> None:
    made = [new_quarantine(QuickDisk(), tmp_path, NOW_MS).directory.name for _ in range(3)]
    assert made == ["20261121T054640Z", "20261121T054640Z-2", "20261121T054640Z-3"]
