"""Objects and manifests: every byte proved, whole or not there, and thinned out with care."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model.errors import Corruption, NotAStore, StoreTooNew
from broker.tools import backup_manifest
from broker.tools.backup_manifest import (
    BackupTarget,
    Content,
    Generation,
    StoredFile,
    generation_name,
)
from tests.fakes.quick_disk import PowerCut, QuickDisk, full_disk

LOG_FILE = "commitlog/00000000000000004096"


@pytest.fixture
def target(tmp_path: Path) -> BackupTarget:
    place = BackupTarget(QuickDisk(), tmp_path / "b")
    with place.held():
        return place


def put(
    target: BackupTarget, *pieces: bytes, path: str = LOG_FILE, sealed: bool = False
) -> StoredFile:
    made: Content = target.put(iter(pieces), 3)
    return StoredFile(
        path, 4096, made.taken, made.sha256, made.object, made.object_size, 7, 8, sealed
    )


def add(target: BackupTarget, name: str, *files: StoredFile) -> Generation:
    generation = Generation(name, 1000, "/store", files=list(files))
    target.add(generation)
    return generation


def taken_back(target: BackupTarget, file: StoredFile) -> bytes:
    return b"".join(target.content(file))


# -- objects ---------------------------------------------------------------------------------------
@given(pieces=st.lists(st.binary(min_size=1, max_size=300), max_size=5))
def test_what_is_put_comes_back(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    place = BackupTarget(QuickDisk(), tmp_path_factory.mktemp("b"))
    with place.held():
        file = put(place, *pieces)
    assert taken_back(place, file) == b"".join(pieces)
    assert file.taken == len(b"".join(pieces))
    assert place.has_object(file)
    assert place.is_sound(file)


def test_the_same_content_is_one_object(target: BackupTarget) -> None:
    first, second = target.put(iter([b"abc"]), 3), target.put(iter([b"abc"]), 3)
    assert (first.is_new, second.is_new) == (True, False)
    assert first.object == second.object


def test_every_single_damaged_byte_is_found(target: BackupTarget) -> None:
    file = put(target, b"some text " * 20, bytes(1000), b"the end")
    path = target.object_path(file.object)
    content = path.read_bytes()
    for position in range(len(content)):
        for mask in (0x01, 0x10, 0x80, 0xFF):
            changed = bytearray(content)
            changed[position] ^= mask
            path.write_bytes(changed)
            with pytest.raises(Corruption, match=f"it holds {LOG_FILE}"):
                taken_back(target, file)
    for changed_length in (content[:-1], content + b"\0", content + content, b""):
        path.write_bytes(changed_length)
        assert not target.is_sound(file)
    path.write_bytes(content)
    assert target.is_sound(file)


def test_an_object_that_is_missing_or_cut(target: BackupTarget) -> None:
    file = put(target, b"content")
    path = target.object_path(file.object)
    path.write_bytes(path.read_bytes()[:-1])
    assert not target.has_object(file)
    path.unlink()
    assert not target.has_object(file)
    with pytest.raises(Corruption, match="No such file"):
        taken_back(target, file)


def test_a_frame_that_asks_for_gigabytes_is_refused(target: BackupTarget) -> None:
    file = put(target, b"content" * 100)
    # Magic, a descriptor without content size, and a window of 2 TiB.
    target.object_path(file.object).write_bytes(b"\x28\xb5\x2f\xfd\x00\xf8" + bytes(20))
    with pytest.raises(Corruption):
        taken_back(target, file)


def test_more_than_the_manifest_tells_is_not_taken(target: BackupTarget) -> None:
    file = put(target, b"ab" * 500)
    short = replace(file, taken=10)
    with pytest.raises(Corruption, match="another"):
        taken_back(target, short)


@pytest.mark.parametrize("call", ["sync", "rename"])
def test_a_put_that_fails_leaves_nothing(tmp_path: Path, call: str) -> None:
    disk = QuickDisk()
    target = BackupTarget(disk, tmp_path / "b")
    with target.held():
        disk.fail(call, full_disk())
        with pytest.raises(type(full_disk())):
            put(target, b"abc")
    assert list((tmp_path / "b/objects").iterdir()) == []


# -- manifests -------------------------------------------------------------------------------------
def test_generations_come_back_oldest_first(target: BackupTarget) -> None:
    file = put(target, b"abc", sealed=True)
    made = [add(target, name, file) for name in ("b", "a")]
    assert target.catalog() == ([made[1], made[0]], [])
    assert made[0].log_files == [file]
    assert file.base == 4096
    assert put(target, b"{}", path="config/topics.json").base is None


def test_a_place_where_nothing_was_ever_put(tmp_path: Path) -> None:
    assert BackupTarget(QuickDisk(), tmp_path / "none").catalog() == ([], [])


def test_a_changed_manifest_is_told_and_the_others_stay(target: BackupTarget) -> None:
    add(target, "a", put(target, b"abc"))
    add(target, "b", put(target, b"abc"))
    path = target.path / "manifests/a.json"
    content = path.read_text()
    changes = {
        "an offset": content.replace('"upto": 0', '"upto": 1'),
        "cut": content[:-2],
        "empty": "",
        "a list": "[]",
        "deep": "[" * 100_000,
        "a number": content.replace('"format_version": 1', '"format_version": "x"'),
        "a copy": (target.path / "manifests/b.json").read_text(),
    }
    for text in changes.values():
        path.write_text(text)
        generations, damaged = target.catalog()
        assert [generation.name for generation in generations] == ["b"]
        assert [Path(error.path).name for error in damaged] == ["a.json"]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", ""])
def test_a_path_that_leads_out_of_the_store(target: BackupTarget, path: str) -> None:
    add(target, "a", put(target, b"abc", path=path))
    assert target.catalog().damaged


def test_a_manifest_of_a_later_version(
    target: BackupTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_manifest, "FORMAT_VERSION", 2)
    add(target, "a")
    monkeypatch.undo()
    with pytest.raises(StoreTooNew, match="version 2"):
        target.catalog()


def test_the_manifest_is_one_that_others_can_read(target: BackupTarget) -> None:
    add(target, "a", put(target, b"abc"))
    document = json.loads((target.path / "manifests/a.json").read_bytes())
    (file,) = document["generation"]["files"]
    assert (file["path"], file["size"], file["taken"]) == (LOG_FILE, 4096, 3)


def test_names_rise_even_when_the_clock_does_not() -> None:
    now = datetime(2026, 11, 21, 2, 30, tzinfo=UTC)
    first = generation_name(now)
    assert first == "20261121T023000.000000Z"
    assert generation_name(now, first) == "20261121T023000.000001Z"
    assert generation_name(now, "20261231T235959.999999Z") == "20270101T000000.000000Z"
    assert generation_name(now, "20261121T022959.999999Z") == first


# -- thinning out ----------------------------------------------------------------------------------
def test_what_goes_and_what_stays(target: BackupTarget) -> None:
    shared = put(target, b"shared", sealed=True)
    own = [put(target, b"own %d" % number) for number in range(3)]
    for number in range(3):
        add(target, f"g{number}", shared, own[number])
    plan = target.plan_drop(1)
    assert plan.generations == ["g0", "g1"]
    assert sorted(plan.objects) == sorted(file.object for file in own[:2])
    assert plan.object_bytes == sum(file.object_size for file in own[:2])
    assert len(target.catalog().generations) == 3
    target.drop(plan)
    assert [generation.name for generation in target.catalog().generations] == ["g2"]
    assert taken_back(target, shared) + taken_back(target, own[2]) == b"sharedown 2"
    assert not target.has_object(own[0])
    assert target.plan_drop(1) == ([], [], 0)


def test_a_plan_before_the_next_backup(target: BackupTarget) -> None:
    shared, own = put(target, b"shared", sealed=True), put(target, b"own")
    add(target, "g0", shared, own)
    assert target.plan_drop(1, with_next=True) == (["g0"], [own.object], own.object_size)
    assert target.plan_drop(2, with_next=True).generations == []


def test_nothing_goes_while_a_manifest_cannot_be_read(target: BackupTarget) -> None:
    add(target, "g0", put(target, b"abc"))
    (target.path / "manifests/g1.json").write_text("{")
    with pytest.raises(Corruption, match=r"g1\.json"):
        target.plan_drop(1)


def test_a_removal_that_is_cut_off_leaves_the_kept_whole(tmp_path: Path) -> None:
    disk = QuickDisk()
    target = BackupTarget(disk, tmp_path / "b")
    for skip in range(4):
        with target.held():
            files = [put(target, b"%d" % number) for number in range(2)]
            add(target, f"g{2 * skip}", files[0])
            add(target, f"g{2 * skip + 1}", files[1])
            disk.fail("unlink", PowerCut(), skip=skip)
            with suppress(PowerCut):
                target.drop(target.plan_drop(1))
            for generation in target.catalog().generations[-1:]:
                assert all(map(target.is_sound, generation.files))


# -- the place -------------------------------------------------------------------------------------
def test_a_place_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    with pytest.raises(NotAStore, match="letters"), BackupTarget(QuickDisk(), tmp_path).held():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_drafts_of_a_killed_backup_go(target: BackupTarget) -> None:
    (target.path / "objects/99.draft").write_bytes(b"half")
    (target.path / "manifests/g.draft").write_bytes(b"half")
    with target.held():
        assert list(target.path.glob("*/*")) == []
