"""Summarizes a store: its files, their sizes, the log's offsets, and the last stop.

It reads names, headers and one commit log file. Message counts are the lengths of queues.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pocketmq.files.disk import Disk
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, OWN_DIRECTORY, offset_file_name
from pocketmq.log.checkpoint import read_checkpoint
from pocketmq.log.store_directory import ManifestFile
from pocketmq.log.table_files import read_topics
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_readable_files, records_end
from pocketmq.tools.dump import loaded_index, loaded_queues
from pocketmq.tools.durable import left_in_order, marked_upto
from pocketmq.tools.store_access import is_live
from pocketmq.tools.verify.head import lost_head
from pocketmq.walk.log_walk import Hole

Description = dict[str, Any]


def describe(disk: Disk, directory: Path, sizes: KnownShape) -> Description:
    """Returns a summary of a store that can be printed as JSON.

    Files of the log that are missing or cut short are reported as its `missing` ranges. Those at
    its begin and end are known only if PocketMQ wrote the store last.

    Errors   NotAStore, WrongFileSize, StoreTooNew
    """
    log = _commit_log(disk, directory, sizes)
    return {
        "directory": str(directory),
        "in_use": is_live(directory),
        "left_in_order": left_in_order(disk, directory, sizes.commit_log_file_size_bytes),
        "commit_log": log,
        "consume_queues": _consume_queues(disk, directory, sizes, log["min_offset"]),
        "index": _index(disk, directory, sizes),
        "checkpoint": read_checkpoint(disk, directory)._asdict(),
        "flushed_mark": marked_upto(disk, directory),
        "manifest": _manifest(disk, directory),
        "topics": _topics(disk, directory),
    }


def _commit_log(disk: Disk, directory: Path, sizes: KnownShape) -> Description:
    files, gaps = find_readable_files(directory, sizes.commit_log_file_size_bytes)
    head, end = lost_head(disk, directory, files), records_end(files)
    gaps = [*([head] if head is not None else []), *gaps, *_lost_end(disk, directory, files, end)]
    return {
        "files": len(files),
        "file_size_bytes": sizes.commit_log_file_size_bytes,
        "min_offset": files[0].base if files else 0,
        "end_offset": end,
        "missing": [
            {"path": gap.path, "begin": gap.begin, "end": gap.end, "reason": gap.reason}
            for gap in gaps
        ],
    }


def _lost_end(disk: Disk, directory: Path, files: Sequence[LogFile], end: int) -> Iterator[Hole]:
    """Yields the range after the last record that the flushed mark covers: its records are lost."""
    mark = marked_upto(disk, directory)
    if mark is None or mark <= end or is_live(directory):
        return
    is_file_missing = bool(files) and files[-1].end < mark
    base = files[-1].end if is_file_missing else files[-1].base if files else 0
    path = directory / COMMIT_LOG_DIRECTORY / offset_file_name(base)
    why = f"the last record ends at {end}, but bytes up to {mark} were durable"
    yield Hole(str(path), end, mark, why, is_followed=False)


def _consume_queues(
    disk: Disk, directory: Path, sizes: KnownShape, min_physical_offset: int
) -> Description:
    with loaded_queues(disk, directory, sizes, log_begin=min_physical_offset) as table:
        queues = [
            {
                "topic": topic,
                "queue_id": queue_id,
                "files": len(queue.files.files),
                "min_offset": queue.min_offset,
                "max_offset": queue.max_offset,
            }
            for (topic, queue_id), queue in sorted(table.queues.items())
        ]
        messages = sum(queue.max_offset - queue.min_offset for queue in table.queues.values())
    return {
        "file_size_bytes": sizes.consume_queue_file_size_bytes,
        "messages": messages,
        "damaged_queues": [f"{topic}:{queue_id}" for topic, queue_id in sorted(table.damaged)],
        "queues": queues,
    }


def _index(disk: Disk, directory: Path, sizes: KnownShape) -> Description:
    with loaded_index(disk, directory, sizes) as index:
        files = [
            {
                "name": file.path.name,
                "entries": file.entry_count,
                "begin_timestamp_ms": file.header.begin_timestamp,
                "end_timestamp_ms": file.header.end_timestamp,
                "begin_physical_offset": file.header.begin_physical_offset,
                "end_physical_offset": file.header.end_physical_offset,
            }
            for file in index.files
        ]
    return {
        "slot_count": sizes.geometry.slot_count,
        "entry_count_max": sizes.geometry.entry_count_max,
        "files": files,
    }


def _manifest(disk: Disk, directory: Path) -> Description | None:
    manifest = ManifestFile(disk, directory / OWN_DIRECTORY).read()
    return None if manifest is None else asdict(manifest)


def _topics(disk: Disk, directory: Path) -> list[str]:
    return sorted(read_topics(disk, directory) or ())
