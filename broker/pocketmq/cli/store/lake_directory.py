"""Archives a store's directory for `pocketmq archive run`."""

from pathlib import Path
from typing import TYPE_CHECKING

from pocketmq.cli.options import wall_ms
from pocketmq.cli.output import progress
from pocketmq.cli.store.access import accessible, sizes_of
from pocketmq.cli.store.archive_target import talk_unreported

if TYPE_CHECKING:
    from pocketmq.tools.lake.archiving import Archived
    from pocketmq.tools.lake.commits import Lake
    from pocketmq.tools.selection import LogSearch


def of_directory(
    lake: "Lake", directory: Path, patterns: tuple[str, ...], until_ms: int | None,
    assignments: tuple[str, ...],
) -> "tuple[Archived, LogSearch]":  # fmt: skip
    """Archives a store's directory; see archive_log."""
    from pocketmq.tools.archive.reporting import ArchiveReports
    from pocketmq.tools.lake.archiving import Archiver, archive_log, log_to_archive

    disk = accessible(directory, read_only=True)
    sizes = sizes_of(disk, directory, assignments, with_index=False)
    size = sizes.commit_log_file_size_bytes
    log = log_to_archive(disk, directory, size, patterns, until_ms)
    begin = lake.manifest.marks.begin(patterns)
    reports = ArchiveReports(disk, directory, lake.target)
    archiver = Archiver(lake, committed=lambda now: reports.report(now.marks.upto, wall_ms()))
    with progress("Archiving", sum(file.size for file in log.files if file.end > begin)) as advance:
        found = archive_log(archiver, lake, log, advance=advance)
    reports.report(found[0].upto, wall_ms())
    talk_unreported(reports.failure)
    return found
