"""Finds parts of a store that PocketMQ does not support, by names, before any file is opened.

found                                    RocketMQ's setting                 result
dledger-NAME/                            enableDLegerCommitLog=true         the store is refused
consumequeue_rocksdb/, RocksDB's files   storeType=defaultRocksDB           the store is refused
under consumequeue/ or config/
no file under commitlog/, files of views storePathCommitLog set             the store is refused
batchconsumequeue/TOPIC                  queue.type=BatchCQ of that topic   its queues are not built

Offline tools can still read refused stores.
Source: DLedgerConfig, RocksDBConsumeQueueStore, ConsumeQueueStore, MultiPathMappedFileQueue.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.format.names import (
    BATCH_QUEUE_DIRECTORY,
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    MARK_FILE,
    OWN_DIRECTORY,
    ROCKSDB_QUEUE_DIRECTORY,
    is_junk,
    offset_from_file_name,
    queue_directory,
)
from pocketmq.format.table_json import read_texts
from pocketmq.log.table_files import read_topics
from pocketmq.model.errors import (
    LogMissing,
    NotAStore,
    StorageError,
    UnsupportedStore,
)
from pocketmq.model.topic import BATCH_QUEUES

_DLEDGER_PREFIX: Final = "dledger-"
_ROCKSDB_FILE: Final = "CURRENT"
"""File that every RocksDB database has."""
_ALONE: Final = "only commitlog/ and config/*.json to a new directory: queues are rebuilt there"


def check_understood(disk: Disk, store: Path, *, may_lack_log: bool = False) -> None:
    """Raises unless this broker may write to a store.

    may_lack_log   accepts views without a log, which the caller handles
    Errors   UnsupportedStore, LogMissing
    Cost     looks up about ten names; without a log, the names of all queues
    """
    for error in refusals(disk, store):
        if not (may_lack_log and isinstance(error, LogMissing)):
            raise error


def check_place(disk: Disk, store: Path, topic: str, queue_id: int) -> None:
    """Raises if the directory of a new queue cannot be created.

    Errors   NotAStore: a file has the name of its directory or of its topic's directory
    """
    place = queue_directory(store / CONSUME_QUEUE_DIRECTORY, topic, queue_id)
    for path in (place.parent, place):
        if disk.exists(path) and not disk.is_directory(path):
            why = "a file is where a directory of queues must be; move it away"
            raise NotAStore(path=str(path), why=why)


def refusals(disk: Disk, store: Path) -> Iterator[StorageError]:
    """Yields the reasons why only a RocketMQ broker may write to a store."""
    for name in disk.names(store):
        if name.startswith(_DLEDGER_PREFIX) and disk.names(store / name):
            yield UnsupportedStore(
                path=str(store / name),
                why="it is a log in the format of DLedger (enableDLegerCommitLog=true)",
                way_out="consume its messages there and send them to this broker",
            )
    for place, what in _rocksdb_places(disk, store):
        yield UnsupportedStore(
            path=str(place),
            why=f"{what} are kept in RocksDB (storeType=defaultRocksDB, or configs in RocksDB)",
            way_out=f"copy {_ALONE}",
        )
    if not _log_files(disk, store / COMMIT_LOG_DIRECTORY):
        views = _views_with_files(disk, store)
        if views:
            shown = " and ".join(views)
            way_out = f"remove {shown} to start empty"
            if disk.exists(store / OWN_DIRECTORY / MARK_FILE):
                way_out = "start with --accept-damage, which gives up all messages"
            log = store / COMMIT_LOG_DIRECTORY
            yield LogMissing(path=str(log), views=shown, way_out=way_out)


def batch_topics(disk: Disk, store: Path) -> frozenset[str]:
    """Returns the topics with batch queues, whose units have another length.

    Their directories show them, and their attributes in the topic table if it can be parsed.
    """
    directory = store / BATCH_QUEUE_DIRECTORY
    names = {name for name in disk.names(directory) if disk.is_directory(directory / name)}
    rows = read_topics(disk, store) or {}
    return frozenset(names.union(name for name, row in rows.items() if _is_batch(row)))


def _is_batch(row: dict[Any, Any]) -> bool:
    attributes = read_texts(row.get("attributes"))
    return any(
        attributes.get(name, "").upper() == value.upper() for name, value in BATCH_QUEUES.items()
    )


def _rocksdb_places(disk: Disk, store: Path) -> Iterator[tuple[Path, str]]:
    queues, config = store / CONSUME_QUEUE_DIRECTORY, store / CONFIG_DIRECTORY
    for place in (store / ROCKSDB_QUEUE_DIRECTORY, queues):
        if disk.exists(place / _ROCKSDB_FILE):
            yield place, "its consume queues"
    for name in disk.names(config):
        if disk.exists(config / name / _ROCKSDB_FILE):
            yield config / name, "its topics, groups and offsets"


def _log_files(disk: Disk, directory: Path) -> list[str]:
    return [
        name
        for name in disk.names(directory)
        if offset_from_file_name(name) is not None and disk.file_size(directory / name)
    ]


def _views_with_files(disk: Disk, store: Path) -> list[str]:
    queues = store / CONSUME_QUEUE_DIRECTORY
    of_queues = (
        queues / topic / queue_id
        for topic in disk.names(queues)
        for queue_id in disk.names(queues / topic)
    )
    views = {CONSUME_QUEUE_DIRECTORY: of_queues, INDEX_DIRECTORY: iter([store / INDEX_DIRECTORY])}
    return [
        f"{name}/"
        for name, directories in views.items()
        if any(_has_bytes(disk, directory) for directory in directories)
    ]


def _has_bytes(disk: Disk, directory: Path) -> bool:
    names = (name for name in disk.names(directory) if not is_junk(name))
    return any(disk.file_size(directory / name) for name in names)
