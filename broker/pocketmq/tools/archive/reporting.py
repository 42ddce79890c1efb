"""Reports to a store's retention how much an archive has (format/archived.py)."""

from pathlib import Path
from typing import Final

from pocketmq.files.archive_mark import write_archived
from pocketmq.files.disk import Disk
from pocketmq.format.archived import ArchivedUpto
from pocketmq.format.names import OWN_DIRECTORY
from pocketmq.model.errors import BrokerError
from pocketmq.tools.archive.objects import URL_MARK

ANY: Final = 1


def known_as(target: str) -> str:
    """Returns the name by which retention knows a target: a URL, or an absolute path."""
    return target if URL_MARK in target else str(Path(target).resolve())


class ArchiveReports:
    """Records in a store's directory how much an archive has; `failure` is the last error.

    A directory that only RocketMQ has used is not changed: RocketMQ would not read the file.
    """

    __slots__ = ("_directory", "_disk", "_step", "_target", "_upto", "failure")

    def __init__(self, disk: Disk, directory: Path, target: str, step: int = ANY) -> None:
        """Begins without a report.

        target   place of the archive, without credentials
        step     size of a log file: only progress across a file's end matters to retention
        """
        self._disk, self._directory, self._step = disk, directory, step
        self._target = known_as(target)
        self._upto = 0
        self.failure = ""

    def report(self, upto: int, now_ms: int) -> None:
        """Records a physical offset below which the archive has all messages; -1: unknown."""
        if upto < 0 or (self._upto and upto // self._step <= self._upto // self._step):
            return
        if not self._disk.is_directory(self._directory / OWN_DIRECTORY):
            return
        try:
            write_archived(self._disk, self._directory, ArchivedUpto(upto, self._target, now_ms))
        except (BrokerError, OSError) as error:
            self.failure = str(error)
            return
        self.failure, self._upto = "", upto
        assert self._upto >= 0
