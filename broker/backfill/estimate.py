"""How much disk a rebuild needs, from samples of the log."""

from dataclasses import dataclass
from math import ceil
from typing import Final

from broker.format.columns.queues import QueueTable
from broker.format.columns.records import ENTRY_TYPE, decode
from broker.format.consume_unit import UNIT_SIZE
from broker.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from broker.model.delay_levels import DelayLevels
from broker.rebuild.index_builder import entries_per_file
from broker.rebuild.index_pieces import PIECES_MAX
from broker.rebuild.parallel import Job
from broker.rebuild.plan import Range
from broker.rebuild.reader import LogReader

SAMPLES: Final = 8
"""Ranges looked into, from the oldest to the newest."""
BLOCK_BYTES: Final = 4096
"""What a file system gives out at least; every queue has a block that is not full."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a rebuild will write; all numbers follow from the samples' averages.

    queue_bytes     consume units; files are sparse
    index_bytes     entries and slots; files are sparse
    scratch_bytes   spooled entries and slot tables, removed at the end
    """

    records: int = 0
    entries: int = 0
    queues: int = 0
    queue_bytes: int = 0
    index_bytes: int = 0
    scratch_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """The most that lies on the disk at one time."""
        return self.queue_bytes + self.index_bytes + self.scratch_bytes


def estimate(job: Job, ranges: list[Range]) -> Estimate:
    """Return what a job will write, from the first chunk of some of its ranges.

    Cost     8 MiB read for each sample
    """
    queues, levels = QueueTable(), DelayLevels(job.settings.delay_levels)
    reader = LogReader()
    records = entries = sampled_bytes = 0
    step = max(len(ranges) // SAMPLES, 1)
    for part in ranges[::step]:
        for chunk in reader.chunks(part.file, part.begin, part.end):
            decoded = decode(
                chunk.buffer, chunk.heads, queues, style=job.settings.style, levels=levels
            )
            records += len(chunk.heads)
            entries += len(decoded.entries.record)
            sampled_bytes += int(chunk.heads.size.sum())
            break
    if not records:
        return Estimate()
    share = sum(part.end - part.begin for part in ranges) / sampled_bytes
    return _written(job, ceil(records * share), ceil(entries * share), len(queues.keys))


def _written(job: Job, records: int, entries: int, queues: int) -> Estimate:
    geometry = job.settings.geometry
    full = entries_per_file(geometry)
    files = ceil(entries / full)
    slots_bytes = SLOT_SIZE * geometry.slot_count
    pieces = 1 if files >= 2 * job.workers else min(full // job.piece_entries, PIECES_MAX)
    return Estimate(
        records=records,
        entries=entries,
        queues=queues,
        queue_bytes=UNIT_SIZE * records + BLOCK_BYTES * queues,
        index_bytes=ENTRY_SIZE * entries + files * (HEADER_SIZE + slots_bytes),
        scratch_bytes=ENTRY_TYPE.itemsize * entries + files * max(pieces - 1, 0) * slots_bytes,
    )
