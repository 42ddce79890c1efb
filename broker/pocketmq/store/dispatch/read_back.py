"""Runs from before this start, or no longer in memory: read from the log again."""

from pocketmq.format.record_scan import written_at
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.batch import Written
from pocketmq.model.errors import Corruption
from pocketmq.model.finding import ScanEnd
from pocketmq.model.store_shape import DelayLevels


def written_between(
    log: CommitLog, begin: int, end: int, levels: DelayLevels, *, count_max: int
) -> list[Written]:
    """Returns the first records in [begin, end), read from the log.

    Errors   Corruption when sound records end before `end`
    Cost     about 5 µs a record
    """
    scan = log.scan(begin, end)
    found: list[Written] = []
    for _, file, position, _ in scan:
        found.append(written_at(file.view, position, levels))
        if len(found) == count_max:
            return found
    if scan.end is not ScanEnd.END_OF_DATA and scan.position < end:
        raise Corruption(
            path=scan.path,
            file_position=scan.position % log.file_size_bytes,
            physical_offset=scan.position,
            why=scan.reason,
        )
    return found
