"""Units that are missing, wrong, too many, or told of records that are gone."""

from pathlib import Path

import pytest

from pocketmq.format.consume_unit import PRE_BLANK, UNIT
from pocketmq.tools.verify.units import OTHER_TAGS
from tests.golden_stores import GoldenStores
from tests.kit.checked_store import CheckedStore


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> CheckedStore:
    return CheckedStore(golden, "rebuild-base", tmp_path / "s")


def queue_file(store: CheckedStore, number: int = 0) -> Path:
    return sorted((store.directory / "consumequeue/RebuildTopic/0").iterdir())[number]


def test_each_kind_of_difference(store: CheckedStore) -> None:
    path = queue_file(store)
    for content, kind in (
        (bytes(20), "missing_unit"), (PRE_BLANK, "pre_blank_unit"), (UNIT.pack(7, 7, 7), "unit"),
    ):  # fmt: skip
        with store.changed(path, 60, content):
            (finding,) = store.verify().findings
        assert (finding.kind, finding.offset) == (kind, 60)
        assert finding.file == "consumequeue/RebuildTopic/0/" + "0" * 20


def test_a_unit_with_another_tags_code_may_be_the_intact_one(store: CheckedStore) -> None:
    path = queue_file(store)
    with store.changed(path, 60 + 19):
        found = store.verify()
    assert found.counts == {"unit": 1}
    assert OTHER_TAGS in found.notes
    with store.changed(path, 60 + 7):
        assert OTHER_TAGS not in store.verify().notes


def test_an_absent_topic_table_is_a_note_and_its_backup_is_enough(store: CheckedStore) -> None:
    table = store.directory / "config/topics.json"
    backup = table.with_name("topics.json.bak")
    table.rename(backup)
    assert not any("topics.json is absent" in note for note in store.verify().notes)
    backup.unlink()
    found = store.verify()
    assert found.findings == []
    assert [note.partition(":")[0] for note in found.notes] == ["config/topics.json is absent"]


def test_behind_the_end_nothing_may_lie(store: CheckedStore) -> None:
    path = queue_file(store, -1)
    size = path.stat().st_size
    with store.changed(path, size - 20, UNIT.pack(5, 5, 5)):
        assert store.kinds() == {"dangling_unit"}


def test_missing_and_additional_files(store: CheckedStore) -> None:
    path = queue_file(store, 1)
    content = path.read_bytes()
    path.unlink()
    assert store.kinds() == {"absent"}
    path.write_bytes(content)
    stray = path.with_name("00000000000000900000")
    stray.write_bytes(bytes(len(content)))
    assert store.kinds() == set()
    stray.write_bytes(content)
    assert store.kinds() == {"dangling_unit"}
    stray.rename(path.with_name("00000000000000900001"))
    assert store.kinds() == {"stray_file"}


def test_a_queue_the_log_knows_nothing_of(store: CheckedStore) -> None:
    directory = store.directory / "consumequeue/Unknown/0"
    directory.mkdir(parents=True)
    path = directory / ("0" * 20)
    path.write_bytes(UNIT.pack(100, 100, 0).ljust(800, b"\0"))
    assert store.kinds() == {"dangling_unit"}


def test_units_of_deleted_records_are_no_finding(store: CheckedStore) -> None:
    files = sorted((store.directory / "commitlog").iterdir())
    for path in files[:3]:
        path.unlink()
    assert store.kinds() == set()
