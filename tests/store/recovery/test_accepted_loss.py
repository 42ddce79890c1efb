"""A start that goes on without the first or last files of the log keeps the lost messages."""

import shutil
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.model.errors import LogMissing
from pocketmq.model.finding import Loss
from pocketmq.tools.verify.verification import Verification, VerifyOptions, verify
from tests.kit.store_language import small_settings, store_at, view_files
from tests.kit.tool_sizes import shape_of
from tests.store.recovery.test_lost_head import FILE_SIZE, FOLLOWER, expired, filled, log_file


def found_in(store: Path) -> Verification:
    return verify(Disk(), store, shape_of(small_settings(store)), VerifyOptions())


def shortened(caplog: pytest.LogCaptureFixture) -> list[tuple[int, int, int]]:
    """Returns begin, bytes and messages of each logged loss."""
    names = ("physical_offset", "bytes", "messages")
    rows = [each for each in caplog.records if each.message == "log.shortened"]
    begin, size, count = ([getattr(row, name) for row in rows] for name in names)
    return [*zip(begin, size, count, strict=True)]


@pytest.mark.parametrize("is_killed", [True, False])
async def test_lost_oldest_files_are_logged_once_and_named_until_the_next_file_expires(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_killed: bool
) -> None:
    async with store_at(tmp_path / "s") as store:
        await filled(store)
        image = store.killed(tmp_path / "killed") if is_killed else tmp_path / "s"
    for number in (0, 1):
        log_file(image, number).unlink()
    for _ in range(2):
        async with store_at(image) as store:
            assert store.store.damage is None
        assert shortened(caplog) == [(0, 2 * FILE_SIZE, 8)]
        found = found_in(image)
        assert (found.counts, found.lost_earlier) == ({}, (Loss("T", 0, 0, 8),))
    async with store_at(image) as store:
        await expired(store)
    assert found_in(image).lost_earlier == ()


async def test_expired_files_leave_no_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with store_at(tmp_path / "s") as store:
        await filled(store)
        await expired(store)
    async with store_at(tmp_path / "s"):
        pass
    assert shortened(caplog) == []
    assert not (tmp_path / "s/pocketmq/quarantine").exists()


async def test_an_accepted_loss_of_the_last_files_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with store_at(tmp_path / "s") as store:
        await filled(store)
        durable = store.store.flushed
    log_file(tmp_path / "s", 4).unlink()
    async with store_at(tmp_path / "s", accept_damage=True) as store:
        assert store.store.damage is None
        end = store.store.appended
    assert shortened(caplog) == [(end, durable - end, 4)]
    found = found_in(tmp_path / "s")
    assert (found.counts, found.lost_earlier) == ({}, (Loss("T", 0, 16, 4),))


async def test_without_any_file_of_its_log_a_store_is_refused_and_unchanged(
    tmp_path: Path,
) -> None:
    async with store_at(tmp_path / "s") as store:
        await filled(store)
    shutil.rmtree(tmp_path / "s" / "commitlog")
    was = view_files(tmp_path / "s")
    with pytest.raises(LogMissing, match="accept-damage, which gives up all messages"):
        async with store_at(tmp_path / "s"):
            pass
    assert view_files(tmp_path / "s") == was
    async with store_at(tmp_path / "s", **FOLLOWER) as store:  # It can be copied again.
        assert store.store.damage is not None
    async with store_at(tmp_path / "s", accept_damage=True) as store:
        assert store.store.damage is None
    assert found_in(tmp_path / "s").lost_earlier == (Loss("T", 0, 0, 20),)
