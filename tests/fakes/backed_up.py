"""Backups of small stores, said in a line.

await stocked(tmp_path / "s", 0, 40)                  40 messages in queue 0 of T, and closed
made = backed_up(tmp_path / "s", tmp_path / "b")      a generation
restored(tmp_path / "b", tmp_path / "again")          the newest one, as a store
"""

from datetime import UTC, datetime
from pathlib import Path

from broker.files.disk import Disk
from broker.format.index_layout import IndexGeometry
from broker.tools.backup import BackupOptions, BackupResult, backup
from broker.tools.backup_manifest import BackupTarget
from broker.tools.restore import restore
from broker.tools.store_access import Sizes
from tests.fakes.quick_disk import QuickDisk
from tests.fakes.store_language import TalkingStore, small_settings, store_at

NOW = datetime(2026, 11, 21, 2, 30, tzinfo=UTC)
SETTINGS = small_settings(Path())
SIZES = Sizes(
    SETTINGS.commit_log_file_size_bytes,
    SETTINGS.consume_queue_file_size_bytes,
    IndexGeometry(SETTINGS.index_slot_count, SETTINGS.index_entry_count_max),
    time_zone=SETTINGS.time_zone,
)


async def fill(store: TalkingStore, begin: int, end: int) -> None:
    """Send messages with numbered bodies and keys; about 25 fill a file of the log."""
    for number in range(begin, end):
        await store.send("T", f"body {number}", key=f"k{number}")
    await store.settled()


async def stocked(directory: Path, begin: int, end: int) -> Path:
    """Open a store, fill it and close it."""
    async with store_at(directory) as store:
        await fill(store, begin, end)
    return directory


def backed_up(
    store: Path, target: Path, *, sizes: Sizes = SIZES, disk: Disk | None = None,
    now: datetime = NOW, with_views: bool = False, check: bool = False,
) -> BackupResult:  # fmt: skip
    """Add a generation; its time is always the same, its name is not."""
    disk = disk or QuickDisk()
    options = BackupOptions(with_views=with_views, check=check)
    return backup(disk, store, BackupTarget(disk, target), sizes, options, now=now)


def restored(target: Path, directory: Path, number: int = -1) -> Path:
    """Bring a generation back, the newest unless another is said; returns the directory."""
    disk = QuickDisk()
    place = BackupTarget(disk, target)
    restore(disk, place, place.catalog().generations[number], directory)
    return directory
