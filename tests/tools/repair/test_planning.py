"""Every finding is mended, left, or keeps the repair from beginning."""

from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import (
    CHECKPOINT_FILE_SIZE,
    CheckpointValues,
    encode_checkpoint,
)
from pocketmq.format.consume_unit import UNIT_SIZE
from pocketmq.format.order_changes import encode_changes
from pocketmq.log.checkpoint import FlushedMark
from pocketmq.log.quarantine import UNFINISHED, new_quarantine
from pocketmq.tools.repair.actions import FileAct, LogAct, RepairPlan, summary
from pocketmq.tools.repair.planning import plan_repair
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.golden_stores import GoldenStores
from tests.kit.damaged_store import NOW_MS, DamagedStore
from tests.kit.golden_log import files_below


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> DamagedStore:
    return DamagedStore.of_golden(golden, "rebuild-base", tmp_path / "s")


def planned(store: DamagedStore) -> RepairPlan:
    before = files_below(store.directory)
    told: list[int] = []
    plan = plan_repair(Disk(), store.directory, store.sizes, now_ms=NOW_MS, advance=told.append)
    assert files_below(store.directory) == before
    return plan


def test_damage_and_what_it_costs(store: DamagedStore) -> None:
    store.flip(store.places[20] + 90)
    plan = planned(store)
    assert [(a.begin, a.end, a.act) for a in plan.log] == [
        (store.places[20], store.places[21], LogAct.STAND_IN)
    ]
    assert plan.lost_count <= 1
    assert plan.builds_views
    assert plan.view_findings == {}


def test_damaged_views(store: DamagedStore) -> None:
    unit_file = next(p for p in (store.directory / "consumequeue").rglob("0*") if p.is_file())
    unit_file.write_bytes(b"\x01" + unit_file.read_bytes()[1:])
    (store.directory / "index/notes").write_text("stray")
    plan = planned(store)
    assert plan.builds_views
    assert plan.view_findings == {"unit": 1, "stray_file": 1}
    kept = "the old ones, with the foreign files, are kept in pocketmq/replaced"
    assert kept in [*summary(plan.document)]
    assert plan.log == []


@pytest.mark.parametrize("byte", [1, 5, 7, 8, 11, 12])
@pytest.mark.parametrize("number", [0, 7, -1])
def test_a_damaged_unit_of_a_real_store_is_no_lost_end_of_its_log(
    store: DamagedStore, number: int, byte: int
) -> None:
    path = sorted((store.directory / "consumequeue/RebuildTopic/1").iterdir())[-1]
    content = bytearray(path.read_bytes())
    begins = [begin for begin in range(0, len(content), UNIT_SIZE) if any(content[begin:][:12])]
    content[begins[number] + byte] ^= 0x7F
    path.write_bytes(content)
    plan = planned(store)
    assert (plan.losses, plan.view_findings) == ([], {"unit": 1})
    store.repair()
    found = verify(Disk(), store.directory, store.sizes, VerifyOptions(now_ms=NOW_MS))
    assert (found.counts, found.lost_earlier) == ({}, ())


@pytest.mark.parametrize(
    ("table", "backup", "act"),
    [
        (b"{torn", b'{"a": 1}', FileAct.RESTORE),
        (b"{torn", b"torn too", FileAct.REMOVE),
        (b"{torn", None, FileAct.REMOVE),
        (b"[1]", b"{}", FileAct.RESTORE),
    ],
)
def test_a_table(store: DamagedStore, table: bytes, backup: bytes | None, act: FileAct) -> None:
    config = store.directory / "config"
    (config / "topics.json").write_bytes(table)
    (config / "topics.json.bak").unlink(missing_ok=True)
    if backup is not None:
        (config / "topics.json.bak").write_bytes(backup)
    (action,) = planned(store).files
    assert (action.file, action.act) == ("config/topics.json", act)


def test_a_damaged_journal_of_orders_stays(store: DamagedStore) -> None:
    """Its sound entries count; the broker writes over it."""
    rows = [encode_changes([], 7, number) for number in (1, 2, 3)]
    journal = store.directory / "pocketmq" / "order.journal"
    journal.parent.mkdir()
    journal.write_bytes(rows[0] + bytes(len(rows[1])) + rows[2])
    (store.directory / "config/consumerOrderInfo.json").write_text(
        '{"pocketmqVersion":7,"table":{}}'
    )
    plan = planned(store)
    assert plan.files == []
    assert [finding.file for finding in plan.left] == ["pocketmq/order.journal"]


def test_an_unreadable_manifest_goes(store: DamagedStore) -> None:
    (store.directory / "pocketmq").mkdir()
    (store.directory / "pocketmq/store.json").write_bytes(b"{}")
    (action,) = planned(store).files
    assert (action.file, action.act) == ("pocketmq/store.json", FileAct.REMOVE)


def test_files_in_the_log_that_are_none_of_it(store: DamagedStore) -> None:
    (store.directory / "commitlog/core.dump").touch()
    (store.directory / f"commitlog/{1 << 40:020d}").touch()
    plan = planned(store)
    assert sorted((action.file, action.act) for action in plan.files) == [
        (f"commitlog/{1 << 40:020d}", FileAct.REMOVE),
        ("commitlog/core.dump", FileAct.REMOVE),
    ]
    assert plan.blocked == []


def test_a_checkpoint_beyond_the_log(store: DamagedStore) -> None:
    content = encode_checkpoint(CheckpointValues(1, 1, 1, 0, 1 << 40, 0))
    (store.directory / "checkpoint").write_bytes(content.ljust(CHECKPOINT_FILE_SIZE, b"\0"))
    plan = planned(store)
    assert plan.checkpoint
    assert not plan.builds_views


def test_acknowledged_records_that_are_gone(store: DamagedStore) -> None:
    own = store.directory / "pocketmq"
    own.mkdir()
    mark = FlushedMark(Disk(), own)
    mark.open()
    mark.write(store.end + 500, (store.directory / "checkpoint").read_bytes()[:48])
    mark.close()
    plan = planned(store)
    assert plan.missing == (store.end, store.end + 500)
    assert (plan.log, plan.left, plan.builds_views) == ([], [], False)


def test_an_earlier_repair_is_gone_on_with(store: DamagedStore) -> None:
    new_quarantine(Disk(), store.directory, NOW_MS).write_report({"state": UNFINISHED})
    plan = planned(store)
    assert plan.is_continued
    assert plan.builds_views


@pytest.mark.parametrize(
    ("field", "value", "acts", "left"),
    [
        ((12, 4), b"\xff\xff\xff\xff", [LogAct.STAND_IN], []),  # the queue id
        ((20, 8), (1 << 40).to_bytes(8), [], ["queue_offset"]),  # sound by itself
        ((56, 8), b"\x7f" * 8, [LogAct.TIME], []),  # the store time
        ((40, 8), b"\x80" * 8, [], ["born_time"]),  # a client's own number
    ],
)
def test_a_damaged_head(
    store: DamagedStore, field: tuple[int, int], value: bytes, acts: list[Any], left: list[str]
) -> None:
    queued = [
        place
        for place, record in store.records.items()
        if record[36:40] == bytes(4) and record[20:28] == (2).to_bytes(8)
    ]
    store.write(queued[0] + field[0], value)
    plan = planned(store)
    assert [action.act for action in plan.log] == acts
    assert [finding.kind for finding in plan.left] == left
