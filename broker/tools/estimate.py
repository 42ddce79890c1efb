"""How much room the views of a log take, from samples of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from broker.format.columns.queues import QueueTable
from broker.format.columns.records import decode
from broker.format.consume_unit import UNIT_SIZE
from broker.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from broker.model.delay_levels import DelayLevels
from broker.rebuild.index_builder import entries_per_file
from broker.rebuild.log_files import LogFile, ViewSettings
from broker.rebuild.reader import LogReader

SAMPLES: Final = 8
"""Files looked into, from the oldest to the newest."""
BLOCK_BYTES: Final = 4096
"""What a file system gives out at least; every queue has blocks that are not full."""
MARGIN: Final = 1.1
"""Samples may be of larger messages than the rest."""


@dataclass(frozen=True, slots=True)
class ViewEstimate:
    """What views will hold, all of it following from the samples' averages.

    view_bytes   that will lie on the disk: files are sparse
    """

    records: int = 0
    entries: int = 0
    view_bytes: int = 0


def estimate_views(files: Sequence[LogFile], settings: ViewSettings, upto: int) -> ViewEstimate:
    """Return what the views of a log's records below an offset will take.

    Cost     8 MiB read for each sample
    """
    queues, levels, reader = QueueTable(), DelayLevels(settings.delay_levels), LogReader()
    files = [file for file in files if file.base < upto]
    records = entries = sampled_bytes = 0
    for file in files[:: max(len(files) // SAMPLES, 1)]:
        for chunk in reader.chunks(file, file.base, min(file.end, upto)):
            decoded = decode(chunk.buffer, chunk.heads, queues, style=settings.style, levels=levels)
            records += len(chunk.heads)
            entries += len(decoded.entries.record)
            sampled_bytes += int(chunk.heads.size.sum())
            break
    if not records:
        return ViewEstimate()
    share = sum(min(file.end, upto) - file.base for file in files) / sampled_bytes
    records, entries = ceil(records * share), ceil(entries * share)
    geometry = settings.geometry
    index_files = ceil(entries / entries_per_file(geometry))
    size = UNIT_SIZE * records + 2 * BLOCK_BYTES * len(queues.keys) + ENTRY_SIZE * entries
    size += index_files * (HEADER_SIZE + SLOT_SIZE * geometry.slot_count + BLOCK_BYTES)
    return ViewEstimate(records, entries, ceil(size * MARGIN))
