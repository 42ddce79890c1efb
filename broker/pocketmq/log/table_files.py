"""Reads tables under config/, for the broker and for offline tools.

Consumer offsets have two files, as RocketMQ uses another file if `enableLmq` is set:

    config/consumerOffset.json       of brokers without enableLmq
    config/lmqConsumerOffset.json    of brokers with enableLmq, for all groups

If the second file exists, some broker served the store with `enableLmq`. Then both files are read,
and both are written, so that RocketMQ can continue with either setting. PocketMQ writes a mark into
each file, which RocketMQ drops when it writes the file. A start reads:

    a file has the mark          the rows of the newer file, which has all rows
    neither file has the mark    the newer file's rows, and rows of the older file that it lacks

Source: LmqConsumerOffsetManager, ConsumerOffsetManager.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.json_text import Content
from pocketmq.format.names import (
    CONFIG_DIRECTORY,
    CONSUMER_OFFSETS_FILE,
    LMQ_CONSUMER_OFFSETS_FILE,
    TOPICS_FILE,
)
from pocketmq.format.table_json import TOPICS_MEMBER, decode_file, merged_offsets
from pocketmq.model.errors import ReadFailed, TableUnreadable


class OffsetFiles(TableFile):
    """Both files of consumer offsets of one store, as one table."""

    __slots__ = ("_lmq", "is_pair")

    def __init__(self, disk: Disk, directory: Path) -> None:
        config = directory / CONFIG_DIRECTORY
        super().__init__(disk, config / CONSUMER_OFFSETS_FILE)
        self._lmq = TableFile(disk, config / LMQ_CONSUMER_OFFSETS_FILE)
        self.is_pair = False
        """Whether the file of brokers with `enableLmq` exists; known after `read`."""

    def read(self, parse: Callable[[bytes], Content]) -> Content | None:
        """Returns the rows of both files; None if there are no files.

        Errors   TableUnreadable: a file exists, but neither it nor its `.bak` can be parsed;
                 ReadFailed
        """
        found: Any = super().read(parse)
        lmq: Any = self._lmq.read(parse)
        self.is_pair = lmq is not None
        merged: Any = merged_offsets(found, lmq)
        return cast("Content | None", merged)

    def write(self, content: bytes) -> None:
        """Replaces the table durably, in both files if two exist; see `TableFile.write`."""
        super().write(content)
        assert self._lmq.path != self.path
        if self.is_pair:
            self._lmq.write(content)


def read_table(disk: Disk, directory: Path, name: str) -> dict[str, Any]:
    """Returns a table under config/, or its .bak, as a broker reads it; empty without files.

    Errors   TableUnreadable: neither the file nor its .bak can be parsed; ReadFailed
    """
    is_offsets = name == CONSUMER_OFFSETS_FILE
    path = directory / CONFIG_DIRECTORY / name
    file = OffsetFiles(disk, directory) if is_offsets else TableFile(disk, path)
    return file.read(partial(decode_file, name)) or {}


def read_topics(disk: Disk, directory: Path) -> dict[str, dict[str, Any]] | None:
    """Returns the rows of the topic table; None if there is none or it cannot be read."""
    with suppress(TableUnreadable, ReadFailed):
        return read_table(disk, directory, TOPICS_FILE).get(TOPICS_MEMBER)
    return None
