"""The files of consumer offsets: RocketMQ keeps them in another one with `enableLmq`.

    config/consumerOffset.json       of brokers without it
    config/lmqConsumerOffset.json    of brokers with it, for all groups; never read by the others

A store that has the second one was served with `enableLmq` at some time. Both are read, and both
are written from then on, so that a real broker goes on with either setting. Each has a mark of ours
which a real broker drops when it writes:

    the newer or the older one has the mark    the newer one has everything
    none has it                                a row of the newer one wins, others are joined

Source: LmqConsumerOffsetManager, ConsumerOffsetManager.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import Content, TableFile
from pocketmq.format.json_text import table_of
from pocketmq.format.names import (
    CONFIG_DIRECTORY,
    CONSUMER_OFFSETS_FILE,
    LMQ_CONSUMER_OFFSETS_FILE,
)
from pocketmq.format.table_json import decode_members

OFFSETS_MEMBER: Final = "offsetTable"
BOTH_MEMBER: Final = "pocketmqBoth"
"""In a file that was written together with the other one."""


class OffsetFiles(TableFile):
    """Both files of one store as one table; `parse` returns the members of a text."""

    __slots__ = ("_lmq", "is_pair")

    def __init__(self, disk: Disk, directory: Path) -> None:
        config = directory / CONFIG_DIRECTORY
        super().__init__(disk, config / CONSUMER_OFFSETS_FILE)
        self._lmq = TableFile(disk, config / LMQ_CONSUMER_OFFSETS_FILE)
        self.is_pair = False
        """Whether there is the file of brokers with `enableLmq`; known once they were read."""

    def read(self, parse: Callable[[bytes], Content]) -> Content | None:
        """Returns the rows of both files, None without any.

        Errors   TableUnreadable: one exists and cannot be read, nor its `.bak`
        """
        found, lmq = super().read(parse), self._lmq.read(parse)
        self.is_pair = lmq is not None
        if found is None or lmq is None:
            return lmq if found is None else found
        assert isinstance(found, dict)
        assert isinstance(lmq, dict)
        newer, older = (lmq, found) if _written_ms(lmq) >= _written_ms(found) else (found, lmq)
        if BOTH_MEMBER not in newer and BOTH_MEMBER not in older:
            newer[OFFSETS_MEMBER] = joined(older, newer)
        return newer

    def write(self, content: bytes) -> None:
        """Replaces the table durably, in both files where there are two; see `TableFile.write`."""
        super().write(content)
        assert self._lmq.path != self.path
        if self.is_pair:
            self._lmq.write(content)


def read_table(disk: Disk, directory: Path, name: str) -> dict[str, Any]:
    """Returns a table under config/, or its .bak; empty where there is none.

    Errors   TableUnreadable: neither can be read
    """
    return TableFile(disk, directory / CONFIG_DIRECTORY / name).read(decode_members) or {}


def read_offsets(disk: Disk, directory: Path) -> dict[str, Any]:
    """Returns the table of consumer offsets of a store, empty where there is none.

    Errors   TableUnreadable
    """
    return OffsetFiles(disk, directory).read(decode_members) or {}


def joined(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """Returns the rows of two tables; one that both have is that of the newer table."""
    return {**table_of(older.get(OFFSETS_MEMBER)), **table_of(newer.get(OFFSETS_MEMBER))}


def _written_ms(table: dict[str, Any]) -> int:
    found = table_of(table.get("dataVersion")).get("timestamp")
    return found if isinstance(found, int) else -1
