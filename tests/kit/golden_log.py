"""Contents of a golden store: records as views get them, files, its manifest."""

import hashlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from pocketmq.files.disk import Disk
from pocketmq.format.addresses import offset_message_id
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, INDEX_DIRECTORY
from pocketmq.format.record_scan import RecordScan, written_at
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.batch import Written
from pocketmq.model.message import StoredMessage
from pocketmq.model.store_shape import DelayLevels
from tests.golden_stores import GoldenStores


def open_log(golden: GoldenStores, name: str) -> CommitLog:
    """Opens the log of a golden store for reading."""
    size = golden.manifest(name)["params"]["mappedFileSizeCommitLog"]
    log = CommitLog(Disk(), golden.store(name) / COMMIT_LOG_DIRECTORY, size)
    log.load(read_only=True)
    return log


@lru_cache(maxsize=8)
def golden_entries(golden: GoldenStores, name: str) -> tuple[Written, ...]:
    """Every record of a golden store, as dispatch gives it to views."""
    log, levels = open_log(golden, name), DelayLevels()
    entries = tuple(written_at(file.view, position, levels) for _, file, position, _ in log.scan(0))
    log.close()
    assert len(entries) == golden.manifest(name)["recordCount"]
    return entries


def files_below(directory: Path) -> dict[str, bytes]:
    """The content of every file below a directory, by its path from there.

    A broker may remove files meanwhile; they are left out.
    """
    found = {}
    for path in sorted(directory.rglob("*")):
        with suppress(FileNotFoundError):
            if path.is_file():
                found[path.relative_to(directory).as_posix()] = path.read_bytes()
    return found


def index_contents(store: Path) -> list[bytes]:
    """The index files of a store, oldest first; their names depend on their writer's clock."""
    return [path.read_bytes() for path in sorted((store / INDEX_DIRECTORY).iterdir())]


# -- what a manifest says --------------------------------------------------------------------------


def shown(message: StoredMessage) -> dict[str, object]:
    """Returns a record that PocketMQ decoded as a row of the manifest."""
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "size": message.store_size,
        "uniqKey": message.unique_key or None,
        "keys": message.keys,
        "tags": message.tag,
        "storeTimestamp": message.store_timestamp_ms,
        "msgId": offset_message_id(message.store_host, message.physical_offset),
        "body": hashlib.sha1(message.body).hexdigest(),
    }


def wanted(record: dict[str, Any]) -> dict[str, object]:
    """Returns the comparable part of a manifest's row."""
    names = (
        "topic",
        "queueId",
        "queueOffset",
        "size",
        "uniqKey",
        "tags",
        "storeTimestamp",
        "msgId",
    )
    return {name: record[name] for name in names} | {
        "keys": [key for key in (record["keys"] or "").split(" ") if key],
        "body": record.get("plainBodySha1", record["bodySha1"]),
    }


def carries(record: dict[str, Any], query: dict[str, Any]) -> bool:
    """Whether a record of a manifest has a key itself, not only its hash."""
    if record["topic"] != query["topic"] or not query["key"]:
        return False
    if not query["begin"] <= record["storeTimestamp"] <= query["end"]:
        return False
    if query["indexType"] == "T":
        return bool(record["tags"] == query["key"])
    return query["key"] in (record["keys"] or "").split(" ") or query["key"] == record["uniqKey"]


def record_positions(file: Path) -> list[tuple[int, int]]:
    """Returns (position, size) of every record of a commit-log file."""
    return list(RecordScan(file.read_bytes(), int(file.name)))
