"""Sound stores of a real broker have no finding, its gaps are told exactly, damage is found."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from pocketmq.cli.store.access import sizes_of
from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import decode_checkpoint, encode_checkpoint
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.index_file import IndexFile
from pocketmq.model.finding import Finding
from pocketmq.tools.verify.collector import Collector, Fold
from pocketmq.tools.verify.verdict import next_step, verdict
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.golden_stores import NAMES, GoldenStores
from tests.kit.checked_store import CheckedStore
from tests.kit.golden_log import record_positions
from tests.kit.tool_sizes import golden_tool_sizes

SOUND = (
    "basic", "semantics", "propcrc", "cqext", "rebuild-base", "v533", "rebuild-all-full.after",
    "rebuild-all-abort-full.after", "crash-kill.before", "crash-kill.after",
)  # fmt: skip
REMOVED = {"absent": 981}
"""All units of a store whose consumequeue/ was removed."""
UNINDEXED = {"absent": 3064}
"""All entries of a store whose index/ was removed."""
NEWEST_TEN = {"pre_blank_unit": 107, "absent": 90}
"""The real broker looked at the newest ten files of the log only."""
OF_REAL_BROKERS: dict[str, dict[str, int]] = {
    # The last record was torn; queues and index already tell of it, the checkpoint too.
    "clean-torn.before": {
        "torn_tail": 1, "dangling_unit": 1, "dangling_entry": 5, "table": 1,
    },
    # On a clean start the real broker changed nothing of that.
    "clean-torn.after": {
        "torn_tail": 1, "dangling_unit": 1, "dangling_entry": 5, "table": 1,
    },
    "crash-torn.before": {"torn_tail": 1, "dangling_unit": 1, "dangling_entry": 5},
    # Index files made anew.
    "crash-torn.after": {"torn_tail": 1, "dangling_unit": 1},
    "crash-flip.before": {"record": 1},
    # Sound records behind the damaged one were lost to queues and index.
    "crash-flip.after": {"record": 1, "missing_key": 77, "absent": 6},
    # The newest index file's header is zeros, queues lack files.
    "crash-behind.before": {
        "index_count": 1, "index_slot": 83, "index_unused": 1, "missing_key": 234,
        "absent": 249, "missing_unit": 107,
    },
    # The guard against repeats was off; chains of a file with old slots.
    "crash-behind.after": {"index_chain": 27, "index_slot": 8},
    "rebuild-all.before": {"absent": 981 + 3064},
    "rebuild-all.after": {**NEWEST_TEN, "absent": 90 + 592},
    # No index file was ever full, says its checkpoint: the index may have been switched off.
    "rebuild-all-abort.before": REMOVED,
    "rebuild-all-abort.after": {**NEWEST_TEN, "absent": 90 + 592},
    "rebuild-all-full.before": {"absent": 981 + 3064},
    "rebuild-all-abort-full.before": REMOVED,
    "rebuild-cq.before": REMOVED,
    "rebuild-cq.after": NEWEST_TEN,
    "rebuild-index.before": UNINDEXED,
    # A clean start of the real broker never builds a removed index again, nor one queue.
    "rebuild-index.after": UNINDEXED,
    "rebuild-one-queue.before": {"absent": 78},
    "rebuild-one-queue.after": {"absent": 78},
}  # fmt: skip


REPEATED = {
    "clean-torn.before": [1],
    "clean-torn.after": [1],
    "crash-torn.after": [1],
    "crash-kill.after": [1],
    "crash-flip.after": [1],
    "crash-behind.after": [1197],
    "rebuild-cq.after": [4],
}
"""Index entries of records that a start after a crash dispatched once more."""
OF_A_REMOVED_TOPIC = (
    "topic Del was removed: config/topics.json and consumequeue/ do not contain it; "
    "the log still contains messages of it"
)
NOTES = {
    "bcq": ["topic Bcq has batch queues: batchconsumequeue/ is not verified"],
    "delaylevels": [],
    "deleted": [OF_A_REMOVED_TOPIC],
    "lmq": [],
    "noindex": ["there is no index: nothing is found by key (messageIndexEnable=false?)"],
    "upgrade": [],
}
"""Sound stores, and what is said of them."""
GEOMETRY = ("maxHashSlotNum=101", "maxIndexNum=500")


@pytest.mark.parametrize("name", NOTES)
def test_what_a_sound_broker_leaves_is_no_finding(golden: GoldenStores, name: str) -> None:
    store = golden.store(name)
    sizes = sizes_of(Disk(), store, GEOMETRY, with_index=True)
    found = verify(Disk(), store, sizes)
    assert found.findings == []
    assert found.notes == NOTES[name]
    assert found.units > 0
    assert (found.entries > 0) == (name != "noindex")


def test_a_copy_without_views_has_no_checked_units(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("upgrade", tmp_path / "s")
    sizes = sizes_of(Disk(), store, GEOMETRY, with_index=True)
    before = verify(Disk(), store, sizes)
    shutil.rmtree(store / "consumequeue")
    shutil.rmtree(store / "index")
    found = verify(Disk(), store, sizes)
    assert (found.records, found.units, found.entries) == (before.records, 0, 0)
    assert min(before.records, before.units, before.entries) > 0


def test_topics_count_as_removed_by_the_rules_of_a_start(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("deleted", tmp_path / "s")
    table = store / "config" / "topics.json"
    table.rename(table.with_name("topics.json.bak"))
    table.write_text("{")
    (store / "consumequeue" / "Del" / "0").mkdir(parents=True)
    sizes = sizes_of(Disk(), store, GEOMETRY, with_index=True)
    found = verify(Disk(), store, sizes)
    assert found.counts == {"table": 1}, "the damaged table itself"
    assert found.notes == [OF_A_REMOVED_TOPIC]


def test_a_part_of_the_log_does_not_speak_against_the_tables(golden: GoldenStores) -> None:
    sizes = golden_tool_sizes(golden, "basic")
    end = verify(Disk(), golden.store("basic"), sizes).log_end
    for upto in (1, 10_000, end // 2, end - 1, end):
        found = verify(Disk(), golden.store("basic"), sizes, VerifyOptions(upto=upto))
        assert found.findings == []


def test_the_newest_index_file_ends_where_indexing_was_switched_off(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = CheckedStore(golden, "rebuild-base", tmp_path / "s")
    path = sorted((store.directory / "index").iterdir())[-1]
    file = IndexFile(Disk(), path, store.sizes.geometry)
    file.load()
    begin, end = file.header.begin_physical_offset, file.header.end_physical_offset
    log = CommitLog(Disk(), store.directory / "commitlog", store.sizes.commit_log_file_size_bytes)
    log.load(read_only=True)
    file.truncate((begin + end) // 2, log.store_time_at)
    file.close()
    log.close()
    found = store.verify()
    assert found.findings == []
    assert ["have no index entries" in note for note in found.notes] == [True]
    path.unlink()
    assert store.kinds() == {"absent"}


def test_what_is_not_shown_of_the_findings_is_said(golden: GoldenStores) -> None:
    store, sizes = (
        golden.store("crash-behind.before"),
        golden_tool_sizes(golden, "crash-kill.before"),
    )
    total = 6 + sum(OF_REAL_BROKERS["crash-behind.before"].values()) - 249  # Six absent queues.
    for shown, is_cut in ((total - 1, True), (total, False)):
        options = VerifyOptions(findings_max=shown, fold=Fold.NONE)
        found = verify(Disk(), store, sizes, options)
        assert (len(found.findings), found.is_cut) == (shown, is_cut)
    collector = Collector(Path("s"), 4096, 1)
    collector.add_record("queue_offset", 0, expected="a", found="b", count=9)
    rows = [(row.kind, row.count) for row in collector.findings]
    assert (rows, collector.is_cut) == ([("queue_offset", 9)], False)
    collector.add("unit", "consumequeue/0", 0, expected="a", found="b")
    rows = [(row.kind, row.count) for row in collector.findings]
    assert (rows, collector.is_cut) == ([("queue_offset", 9)], True)


def test_every_golden_store_has_its_line() -> None:
    assert sorted([*SOUND, *OF_REAL_BROKERS]) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_golden_stores(golden: GoldenStores, name: str) -> None:
    found = verify(Disk(), golden.store(name), golden_tool_sizes(golden, name))
    assert found.counts == OF_REAL_BROKERS.get(name, {})
    if "crash-flip" not in name:  # There the real decoder stopped at the damage.
        assert found.records == len(golden.manifest(name)["records"])
    repeats = [note for note in found.notes if "exist twice" in note]
    assert [int(note.split()[0]) for note in repeats] == REPEATED.get(name, [])
    if name in SOUND:
        count = sum(file["indexCount"] - 1 for file in golden.manifest(name)["indexFiles"])
        assert found.entries + sum(REPEATED.get(name, [])) == count
        assert found.units > 0


def test_any_byte_of_a_record_with_a_property_crc(golden: GoldenStores, tmp_path: Path) -> None:
    store = CheckedStore(golden, "propcrc", tmp_path / "s", log_files=2)
    missed = []
    for path, position, record in store.record_bytes(200, seed=11):
        with store.changed(path, position):
            if not store.kinds(log_only=True):
                missed.append((path.name, record, position - record))
    assert missed == []


@pytest.mark.parametrize(
    ("name", "count"), [("basic", 20), ("semantics", 30), ("v533", 20), ("cqext", 30)]
)
def test_any_byte_of_a_view(golden: GoldenStores, tmp_path: Path, name: str, count: int) -> None:
    store = CheckedStore(golden, name, tmp_path / "s", with_wheel=False)
    assert not store.kinds()
    missed = []
    for path, position in store.view_bytes(count, seed=12):
        with store.changed(path, position):
            if not store.kinds():
                missed.append((str(path), position))
    assert missed == []


def test_without_a_property_crc_bodies_and_what_views_repeat_are_seen(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = CheckedStore(golden, "semantics", tmp_path / "s", with_wheel=False)
    assert not store.kinds()
    seen: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for path, position, record in store.record_bytes(80, seed=13):
        field = field_of(path, record, position)
        with store.changed(path, position):
            (seen if store.kinds() else missed)[field] += 1
    for field in ("size", "magic", "body_crc", "body", "physical_offset", "queue_offset"):
        assert missed[field] == 0, field
    assert seen["body"] > 8
    assert sum(seen.values()) > sum(missed.values())


def field_of(path: Path, record: int, position: int) -> str:
    """The field of a record a byte belongs to (README: what verify sees without property CRC)."""
    from pocketmq.format.record import split_record

    content = path.read_bytes()
    _, body, topic, topic_end, block, _ = split_record(content, record)
    at = position - record
    heads = {4: "size", 8: "magic", 12: "body_crc", 16: "queue_id", 20: "flag", 28: "queue_offset",
             36: "physical_offset"}  # fmt: skip
    for end, name in heads.items():
        if at < end:
            return name
    parts = [(body, "head"), (topic - 1, "body"), (topic_end, "topic"), (block, "lengths")]
    return next((name for end, name in parts if position < end), "properties")


def test_a_missing_and_a_short_file_of_the_log(golden: GoldenStores, tmp_path: Path) -> None:
    store = CheckedStore(golden, "rebuild-base", tmp_path / "s")
    files = sorted((store.directory / "commitlog").iterdir())
    files[2].unlink()
    files[5].write_bytes(b"short")
    found = store.verify()
    kinds = {(finding.kind, finding.file, finding.repairable) for finding in found.findings}
    assert ("missing_file", f"commitlog/{files[2].name}", True) in kinds
    assert ("file_size", f"commitlog/{files[5].name}", True) in kinds


def test_strays_and_tables(golden: GoldenStores, tmp_path: Path) -> None:
    store = CheckedStore(golden, "semantics", tmp_path / "s")
    (store.directory / "index/readme").touch()
    (store.directory / "consumequeue/DelayT").mkdir(exist_ok=True)
    (store.directory / "consumequeue/DelayT/x").touch()
    (store.directory / "config/topics.json").write_text('{"a":')
    counts = store.verify().counts
    assert counts == {"stray_file": 2, "table": 1}


def test_views_elsewhere_and_a_limit(golden: GoldenStores, tmp_path: Path) -> None:
    store = CheckedStore(golden, "rebuild-all.before", tmp_path / "s")
    assert store.kinds(views=golden.store("rebuild-base")) == set()
    assert store.verify(upto=10_000, log_only=True).records < 100


def test_findings_are_counted_beyond_what_is_kept(golden: GoldenStores, tmp_path: Path) -> None:
    store = CheckedStore(golden, "crash-behind.before", tmp_path / "s")
    found = store.verify(findings_max=5, fold=Fold.NONE)
    assert (len(found.findings), found.is_cut) == (5, True)
    assert found.counts["missing_key"] == 234


def test_findings_alike_are_one_row_with_a_count(golden: GoldenStores, tmp_path: Path) -> None:
    store = CheckedStore(golden, "crash-behind.before", tmp_path / "s")
    found = store.verify()
    (slots,) = [row for row in found.findings if row.kind == "index_slot"]
    assert (slots.count, slots.expected, slots.found) == (83, "0", "216")
    assert sum(row.count for row in found.findings) == sum(found.counts.values())
    assert len({(row.kind, row.file) for row in found.findings}) == len(found.findings)


def test_damage_that_lost_messages_comes_before_a_thousand_other_findings(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = CheckedStore(golden, "crash-behind.before", tmp_path / "s")
    path = sorted((store.directory / "commitlog").iterdir())[1]
    begin = [position for position, _ in record_positions(path)][10]
    with store.changed(path, begin, bytes(200)):
        for fold in Fold:
            found = store.verify(fold=fold, findings_max=3)
            (loss,) = found.findings[0].lost
            assert (found.findings[0].kind, loss.messages) == ("record", 1)
            assert found.lost_count == 1
            assert not found.is_sound


def test_absent_views_are_one_row_each_and_no_damage(golden: GoldenStores, tmp_path: Path) -> None:
    store = CheckedStore(golden, "rebuild-one-queue.before", tmp_path / "s")
    (row,) = store.verify().findings
    assert (row.kind, row.file, row.count) == ("absent", "consumequeue/RebuildTopic/1", 78)
    assert store.verify().is_sound
    shutil.rmtree(store.directory / "consumequeue")
    shutil.rmtree(store.directory / "index")
    found = store.verify(fold=Fold.NONE)
    rows = [(row.kind, row.file, row.found) for row in found.findings]
    built = "no file: built at the next start"
    assert rows == [("absent", "index", built), ("absent", "consumequeue", built)]
    assert found.is_sound


def test_views_elsewhere_that_lack_files_are_built_by_no_start(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = CheckedStore(golden, "rebuild-base", tmp_path / "s")
    found = store.verify(views=golden.store("rebuild-one-queue.before"))
    assert found.counts == {"missing_file": 78}
    assert not found.is_sound


def test_counts_go_on_when_no_more_are_kept() -> None:
    collector = Collector(Path("/s"), 1, 2)
    for number in range(4):
        collector.add("unit", Path(f"/s/a/{number}"), number, expected="x", found="y", count=2)
    assert collector.findings == [
        Finding("unit", "a/0", 0, "x", "y", count=2), Finding("unit", "a/1", 1, "x", "y", count=2),
    ]  # fmt: skip
    assert (collector.counts["unit"], collector.is_cut) == (8, True)


def test_notes_come_once_and_other_paths_stay() -> None:
    collector = Collector(Path("/s"), 1)
    collector.remark("a")
    collector.remark("a")
    assert collector.notes == ["a"]
    assert collector.shown("/elsewhere/x") == "/elsewhere/x"
    assert not collector.is_cut


def test_store_times_after_the_present_are_no_damaged_log(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = CheckedStore(golden, "rebuild-base", tmp_path / "s", with_wheel=False)
    found = store.verify(now_ms=1_700_000_000_000)
    assert set(found.counts) == {"store_time"}
    assert verdict(found) == "No message is lost; store times are ahead of this machine's clock"
    assert next_step(found, store.directory).startswith("correct the clock if it is wrong now")
    checkpoint = store.directory / "checkpoint"
    values = decode_checkpoint(checkpoint.read_bytes())
    later = values._replace(physic_msg_timestamp=values.physic_msg_timestamp + 10**9)
    checkpoint.write_bytes(encode_checkpoint(later).ljust(4096, b"\0"))
    of_both = store.verify(now_ms=1_700_000_000_000)
    assert set(of_both.counts) == {"store_time", "table"}
    assert verdict(of_both) == "No message is lost; store times are ahead of this machine's clock"
    file = sorted((store.directory / "commitlog").iterdir())[0]
    with store.changed(file, record_positions(file)[3][0] + 90):
        broken = store.verify(now_ms=1_700_000_000_000)
    assert "clock" not in verdict(broken)
