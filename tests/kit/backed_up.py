"""Backups of small stores.

await stocked(tmp_path / "s", 0, 40)                  40 messages in queue 0 of T, and closed
made = backed_up(tmp_path / "s", tmp_path / "b")      the copy's backup.json
restored(tmp_path / "b", tmp_path / "again")          the copy, as a store
"""

from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.tools.backup import backup
from pocketmq.tools.copies import Backup
from pocketmq.tools.restore import restore
from tests.kit.store_language import TalkingStore, small_settings, store_at
from tests.kit.tool_sizes import shape_of
from tests.sim.quick_disk import QuickDisk

NOW_MS = 1_795_228_200_000
SETTINGS = small_settings(Path())
SIZES = shape_of(SETTINGS)


async def fill(store: TalkingStore, begin: int, end: int) -> None:
    """Sends messages with numbered bodies and keys; about 25 fill a file of the log."""
    for number in range(begin, end):
        await store.send("T", f"body {number}", key=f"k{number}")
    await store.settled()


async def stocked(directory: Path, begin: int, end: int) -> Path:
    """Opens a store, fills it and closes it."""
    async with store_at(directory) as store:
        await fill(store, begin, end)
    return directory


def backed_up(
    store: Path, copy: Path, *, sizes: KnownShape = SIZES, disk: Disk | None = None,
    with_views: bool = False,
) -> Backup:  # fmt: skip
    """Copies a store, or brings an existing copy up to date."""
    return backup(disk or QuickDisk(), store, copy, sizes, now_ms=NOW_MS, with_views=with_views)


def restored(copy: Path, directory: Path) -> Path:
    """Copies a backup as a store; returns the directory."""
    restore(QuickDisk(), copy, directory)
    return directory
