"""The log's oldest files: whether they expired, or are missing.

The flushed mark has the base of the oldest file that has not expired, and expiry changes it before
it removes a file. So a log that begins later lacks files. Without a valid mark both look the same.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, offset_file_name
from pocketmq.model.finding import Loss
from pocketmq.rebuild.log_files import LogFile
from pocketmq.tools.durable import oldest_base
from pocketmq.tools.verify.collector import Collector
from pocketmq.walk.log_walk import Hole

HEAD_MISSING: Final = "the oldest files are missing, and have not expired"


def lost_head(disk: Disk, directory: Path, files: Sequence[LogFile]) -> Hole | None:
    """Returns the range of the oldest files if they are missing; None: they expired, or unknown.

    files   the files of the log, listed before this call: expiry may go on meanwhile
    """
    begin = oldest_base(disk, directory)
    if begin is None or not files or begin >= files[0].base:
        return None
    path = directory / COMMIT_LOG_DIRECTORY / offset_file_name(begin)
    return Hole(str(path), begin, files[0].base, HEAD_MISSING, is_followed=True)


def report_head(head: Hole, lost: tuple[Loss, ...], file_size: int, collector: Collector) -> None:
    """Reports missing oldest files, with their messages according to the queues."""
    count = (head.end - head.begin) // file_size
    collector.add(
        "missing_file", head.path, 0, expected="a file of the log", count=max(count, 1),
        found=f"a log that begins at {head.end}: {HEAD_MISSING}",
        lost=lost,
    )  # fmt: skip


def tell_unknown_head(
    disk: Disk, directory: Path, log_begin: int, old_count: int, collector: Collector
) -> None:
    """Adds the note that nothing shows whether older files expired, if nothing does.

    old_count   number of units that refer to offsets below the log's begin
    """
    if old_count and oldest_base(disk, directory) is None:
        collector.remark(
            f"the log begins at {log_begin}; queues still refer to {old_count} older messages: "
            "they have expired, or the oldest files are missing; only a backup can show which"
        )
