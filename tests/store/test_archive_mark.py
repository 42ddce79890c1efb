"""Marks of archives that a process beside the broker reports: followers get them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pocketmq.files.archive_mark import write_archived
from pocketmq.format.archived import NOTHING_ARCHIVED, ArchivedUpto
from pocketmq.store.tables.archive_mark import ArchiveMark
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk


async def test_followers_get_a_mark_that_another_process_wrote(tmp_path: Path) -> None:
    disk, told = QuickDisk(), list[Path]()
    disk.tables.begin(lambda path, changed: told.append(path), lambda path, then: then(None))
    with ThreadPoolExecutor(1) as pool:
        mark = ArchiveMark(disk, tmp_path, FakeClock(), pool)
        assert await mark.read() == NOTHING_ARCHIVED
        assert told == []
        found = ArchivedUpto(100, "s3://bucket/a", 5)
        write_archived(QuickDisk(), tmp_path, found)
        assert await mark.read() == await mark.read() == found
    assert told == [tmp_path / "pocketmq" / "archived.json"]
