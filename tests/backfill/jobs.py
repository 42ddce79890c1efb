"""Jobs over golden stores and logs made to measure, in this process."""

from pathlib import Path
from typing import Any

from pocketmq.backfill.job import new_job
from pocketmq.rebuild.parallel import RebuildJob
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import SMALL, LogBytes, golden_settings

FILE_SIZE = 1024


def golden_job(golden: GoldenStores, name: str, out: Path, **options: Any) -> RebuildJob:
    """A job for a golden store; records are checked by their CRCs."""
    size = golden.manifest(name)["params"]["mappedFileSizeCommitLog"]
    settings = golden_settings(golden, name, check_crc=True)
    return new_job(golden.store(name), out, settings, log_file_bytes=size, **options)


def small_log(store: Path, count: int = 40) -> LogBytes:
    """A log of one queue, some records a file; it can be closed again after more were added."""
    log = LogBytes(store, FILE_SIZE)
    for number in range(count):
        log.add(queue_offset=number, keys=f"k{number}")
    return log.close()


def small_job(log: LogBytes, out: Path, **options: Any) -> RebuildJob:
    """A job for such a log."""
    return new_job(log.store, out, SMALL, log_file_bytes=FILE_SIZE, **options)
