"""Missing oldest files of the log: verify reports them, and a repair accepts their loss."""

from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, offset_file_name
from pocketmq.model.errors import StoreGap
from pocketmq.model.finding import Loss
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.tools.durable import oldest_base
from pocketmq.tools.repair.planning import plan_repair
from pocketmq.tools.repair.repair import repair_store
from pocketmq.tools.verify.verification import Verification, VerifyOptions, verify
from tests.golden_stores import GoldenStores
from tests.kit.damaged_store import NOW_MS, DamagedStore
from tests.kit.store_language import small_settings, store_at
from tests.kit.tool_sizes import shape_of
from tests.store.recovery.test_lost_head import FILE_SIZE, FOLLOWER, filled, log_file


def sizes(store: Path) -> KnownShape:
    return shape_of(small_settings(store))


def found_in(store: Path) -> Verification:
    return verify(Disk(), store, sizes(store), VerifyOptions())


def contents(store: Path) -> dict[str, bytes]:
    """The bytes of all files of a store; a file `lock` is no part of it."""
    files = (path for path in store.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


def begin_notes(found: Verification) -> list[str]:
    return [note for note in found.notes if note.startswith("the log begins")]


@pytest.fixture
async def headless(tmp_path: Path) -> Path:
    """A store without the first two files of its log, which had not expired."""
    async with store_at(tmp_path / "s") as store:
        await filled(store)
    for number in (0, 1):
        log_file(tmp_path / "s", number).unlink()
    return tmp_path / "s"


async def test_verify_reports_the_oldest_files_and_their_messages(headless: Path) -> None:
    found = found_in(headless)
    assert found.counts == {"missing_file": 2}
    assert found.findings[0].file == f"{COMMIT_LOG_DIRECTORY}/{offset_file_name(0)}"
    assert found.findings[0].lost == (Loss("T", 0, 0, 8),)
    assert found.lost_count == 8
    assert not begin_notes(found)


async def test_a_repair_accepts_the_loss_only_if_asked(headless: Path) -> None:
    before = contents(headless)
    plan = plan_repair(Disk(), headless, sizes(headless), now_ms=NOW_MS)
    assert [finding.kind for finding in plan.blocked] == ["missing_file"]
    with pytest.raises(StoreGap):
        repair_store(Disk(), headless, sizes(headless), now_ms=NOW_MS)
    assert contents(headless) == before
    plan = plan_repair(Disk(), headless, sizes(headless), now_ms=NOW_MS, accept_loss=True)
    assert plan.document["oldest_files_missing"] == [0, 2 * FILE_SIZE]
    assert plan.losses == [Loss("T", 0, 0, 8)]
    assert not plan.builds_views


async def test_a_replicated_broker_serves_the_repaired_store(headless: Path) -> None:
    report = repair_store(Disk(), headless, sizes(headless), now_ms=NOW_MS, accept_loss=True)
    assert report["is_sound"]
    assert report["oldest_files_missing"] == [0, 2 * FILE_SIZE]
    assert any("watermark@" in name for name in contents(headless))
    assert oldest_base(Disk(), headless) == 2 * FILE_SIZE
    found = found_in(headless)
    assert found.counts == {}
    assert found.lost_earlier == (Loss("T", 0, 0, 8),)
    async with store_at(headless, **FOLLOWER) as opened:
        assert opened.store.damage is None


async def test_expiry_ends_the_report_of_the_loss(headless: Path) -> None:
    repair_store(Disk(), headless, sizes(headless), now_ms=NOW_MS, accept_loss=True)
    async with store_at(headless) as store:
        oldest = store.store.views.expiry.oldest()
        assert oldest is not None
        await store.store.views.expiry.drop(oldest)
    found = found_in(headless)
    assert (found.counts, found.lost_earlier, begin_notes(found)) == ({}, (), [])


def test_without_a_mark_verify_notes_that_nothing_shows_it(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = DamagedStore.of_golden(golden, "rebuild-base", tmp_path / "s")
    store.remove(store.file(0))
    found = verify(Disk(), store.directory, store.sizes, VerifyOptions())
    assert found.counts == {}
    older = sum(place < store.file_size for place in store.places)
    (note,) = begin_notes(found)
    assert f"at {store.file_size}; queues still refer to {older} older messages" in note
