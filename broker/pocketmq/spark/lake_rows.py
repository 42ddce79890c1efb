"""Rows of a lake for Spark, selected by a reader's options."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.backfill.request import Request
from pocketmq.backfill.row_filter import RowFilter
from pocketmq.files.disk import Disk
from pocketmq.model.message import OFFSET_MAX, QueueKey
from pocketmq.tools.archive.objects import open_objects
from pocketmq.tools.lake.catalog import Manifest
from pocketmq.tools.lake.commits import read_lake
from pocketmq.tools.lake.ownership import check_own
from pocketmq.tools.lake.reading import (
    LakeBounds,
    LakePart,
    ends,
    filtered,
    last_offsets,
    parts_of,
    read_part,
    with_text,
)

__all__ = ["LakePart", "check_own", "lake_rows", "last_offsets", "manifest_of", "parts_for"]

NOTHING: Final[Mapping[QueueKey, int]] = {}


def manifest_of(target: str) -> Manifest:
    """Returns the manifest of a lake.

    Errors   NotAStore: there is no lake; Corruption, OSError; ValueError: no such kind of URL
    """
    return read_lake(open_objects(Disk(), target))


def parts_for(manifest: Manifest, wanted: RowFilter) -> list[LakePart]:
    """Returns the parts of a lake that may contain rows that a filter selects."""
    return parts_of(manifest, _bounds(wanted))


def lake_rows(
    target: str, part: LakePart, request: Request, wanted: RowFilter, names: Sequence[str],
    last: Mapping[QueueKey, int], first: Mapping[QueueKey, int] = NOTHING,
) -> Iterator[Any]:  # fmt: skip
    """Yields rows that a filter selects as `pyarrow.RecordBatch`es with the columns `names`.

    last, first   physical offsets by queue; only rows after `first`, up to `last`
    Errors        NotAStore, Corruption, OSError
    """
    numbers = [name for name in wanted.bounds if name in request.table.numbers]
    of_keys = ("keys", "message_id") if wanted.keys is not None else ()
    for batch in read_part(open_objects(Disk(), target), part, (*names, *numbers, *of_keys), last):
        if first:
            batch = filtered(batch, batch.column("physical_offset").to_numpy() > ends(batch, first))
        batch = _selected(batch, wanted, numbers)
        if batch.num_rows:
            yield batch.select(list(names))


def _bounds(wanted: RowFilter) -> LakeBounds:
    offsets, times = wanted.bound("physical_offset"), wanted.bound("store_timestamp_ms")
    return LakeBounds(
        wanted.topics,
        (max(offsets[0], 0), min(offsets[1] + 1, OFFSET_MAX)),
        (times[0], times[1] + 1),
    )


def _selected(batch: Any, wanted: RowFilter, numbers: Sequence[str]) -> Any:
    """Returns the rows of a lake's batch that a filter selects."""
    kept: NDArray[np.bool_] = np.ones(batch.num_rows, dtype=np.bool_)
    within = wanted.rows(numbers, lambda name: batch.column(name).to_numpy())
    if within is not None:
        kept &= within
    if wanted.topics is not None and batch.num_rows:
        topics = batch.column("topic").dictionary_encode()
        known = [wanted.has_topic(topic) for topic in topics.dictionary.to_pylist()]
        kept &= np.array(known, dtype=np.bool_)[topics.indices.to_numpy()]
    if wanted.keys is not None:
        kept &= with_text(batch, wanted.keys)
    return batch if kept.all() else filtered(batch, kept)
