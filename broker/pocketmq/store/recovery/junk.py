"""Reports files that operating systems and editors leave in a store's directories."""

import logging
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    TIMER_LOG_DIRECTORY,
    is_junk,
)

SEARCHED: Final = (
    COMMIT_LOG_DIRECTORY, CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY, TIMER_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
)  # fmt: skip
"""Directories whose files a start checks, beside the store's own."""

logger = logging.getLogger(__name__)


def report_junk(disk: Disk, store: Path) -> None:
    """Logs each file of a store that no broker wrote and that is safe to ignore.

    Cost     one listing of each directory
    """
    for directory in (store, *(store / name for name in SEARCHED)):
        for name in filter(is_junk, disk.names(directory)):
            logger.warning("store.junk", extra={"path": str(directory / name)})
