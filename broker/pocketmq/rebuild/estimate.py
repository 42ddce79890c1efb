"""Estimates the size of a log's views (consume queues and index) from samples of the log."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.columns.records import ENTRY_TYPE, decode
from pocketmq.format.consume_unit import UNIT_SIZE
from pocketmq.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from pocketmq.rebuild.index_builder import entries_per_file
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.rebuild.parallel import RebuildJob
from pocketmq.rebuild.plan import Range
from pocketmq.walk.reader import LogReader

SAMPLES: Final = 8
"""Approximate number of sampled ranges, spread evenly from the oldest to the newest range."""
BLOCK_BYTES: Final = 4096
"""Block size of a file system. Each queue's last block is partly empty."""
MARGIN: Final = 1.1
"""Safety factor: the samples may contain larger messages than the rest of the log."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated size of a rebuild's output, from averages over samples; all files are sparse.

    queue_bytes     consume units
    index_bytes     entries and slots
    scratch_bytes   temporary files of a parallel build
    """

    records: int = 0
    entries: int = 0
    queues: int = 0
    index_files: int = 0
    queue_bytes: int = 0
    index_bytes: int = 0
    scratch_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Peak disk usage of the rebuild."""
        return self.queue_bytes + self.index_bytes + self.scratch_bytes

    @property
    def view_bytes(self) -> int:
        """Free bytes that the views require, `MARGIN` included."""
        open_blocks = BLOCK_BYTES * (self.queues + self.index_files)
        return ceil((self.queue_bytes + self.index_bytes + open_blocks) * MARGIN)


def estimate(ranges: Sequence[Range], settings: KnownShape) -> Estimate:
    """Estimates the size of the views of ranges from the first chunk of some ranges.

    Cost     a read of 8 MiB for each sample
    """
    queues, levels, reader = QueueTable(), settings.levels, LogReader()
    records = entries = sampled_bytes = 0
    for part in ranges[:: max(len(ranges) // SAMPLES, 1)]:
        with part.file.opened() as source:
            for chunk in reader.chunks(source, part.begin, part.end):
                found = decode(
                    chunk.buffer, chunk.heads, queues, style=settings.index_style, levels=levels
                )
                records += len(chunk.heads)
                entries += len(found.entries.record)
                sampled_bytes += int(chunk.heads.size.sum())
                break
    if not records:
        return Estimate()
    share = _used_bytes(ranges) / sampled_bytes
    records, entries = ceil(records * share), ceil(entries * share)
    files = ceil(entries / entries_per_file(settings.geometry))
    return Estimate(
        records=records,
        entries=entries,
        queues=len(queues.keys),
        index_files=files,
        queue_bytes=UNIT_SIZE * records + BLOCK_BYTES * len(queues.keys),
        index_bytes=ENTRY_SIZE * entries
        + files * (HEADER_SIZE + SLOT_SIZE * settings.geometry.slot_count),
    )


def _used_bytes(ranges: Sequence[Range]) -> int:
    """Returns the bytes of the ranges without the zeros behind the log's last record.

    Cost     some twenty reads of a block
    """
    total = sum(part.end - part.begin for part in ranges)
    for part in reversed(ranges):
        used = _nonzero_end(part) - part.begin
        total -= part.end - part.begin - used
        if used:
            break
    assert total >= 0
    return total


def _nonzero_end(part: Range) -> int:
    """Returns about the end of the bytes of a range that are not zeros."""
    low, high = part.begin, part.end
    with open(part.file.path, "rb") as file:
        while low < high:
            middle = (low + high) // 2
            file.seek(middle - part.file.base)
            if any(file.read(min(BLOCK_BYTES, high - middle))):
                low = middle + 1
            else:
                high = middle
    return high


def estimate_job(job: RebuildJob, ranges: Sequence[Range]) -> Estimate:
    """Estimates a job's views and its temporary files: the spools of entries and units."""
    found = estimate(ranges, job.settings)
    scratch_bytes = ENTRY_TYPE.itemsize * found.entries + UNIT_SIZE * found.records
    return replace(found, scratch_bytes=scratch_bytes)
