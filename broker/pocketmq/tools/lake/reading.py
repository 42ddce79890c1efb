"""Reads a lake by its manifest: each message once, also while runs and compactions change it.

A message is in a lake if its physical offset is at most the mark of its queue in the manifest.
A compaction does not change this. So a reader whose files were replaced reads the new files,
without the messages that were added since.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.model.message import OFFSET_MAX, QueueKey
from pocketmq.tools.archive.objects import Objects
from pocketmq.tools.lake.catalog import LakeFile, Manifest, topic_part
from pocketmq.tools.lake.commits import read_lake
from pocketmq.tools.selection import TIME_MAX, TIME_MIN

PART_SIZE: Final = 256 * 1024 * 1024
"""Bytes of files from which on a part is complete."""
OWN_COLUMNS: Final = ("topic", "queue_id", "physical_offset")
"""Columns that every batch has."""
_LOOKS: Final = 16
_QUEUES: Final = 1 << 32

Rows = NDArray[np.bool_]
Matches = Callable[[Any], Rows]
"""Returns a mask of the rows of a batch."""


class LakeBounds(NamedTuple):
    """Conditions that exclude files.

    topics    None: all
    offsets   physical offsets [begin, end)
    times     store times [begin, end)
    """

    topics: Collection[str] | None = None
    offsets: tuple[int, int] = (0, OFFSET_MAX)
    times: tuple[int, int] = (TIME_MIN, TIME_MAX)

    def holds(self, file: LakeFile) -> bool:
        """Returns whether a file may contain messages that meet the conditions."""
        return (
            file.first_offset < self.offsets[1]
            and file.last_offset >= self.offsets[0]
            and file.first_ms < self.times[1]
            and file.last_ms >= self.times[0]
        )


class LakePart(NamedTuple):
    """Messages of a partition whose physical offsets are in [begin, end), and their files."""

    partition: str
    begin: int
    end: int
    files: tuple[LakeFile, ...]


def parts_of(manifest: Manifest, bounds: LakeBounds, size: int = PART_SIZE) -> list[LakePart]:
    """Returns the parts of a lake, ascending by physical offset within a partition."""
    names = None if bounds.topics is None else {topic_part(topic) for topic in bounds.topics}
    partitions: dict[str, list[LakeFile]] = {}
    for file in sorted(manifest.files, key=lambda file: file.first_offset):
        if bounds.holds(file) and (names is None or file.partition.partition("/")[2] in names):
            partitions.setdefault(file.partition, []).append(file)
    found = []
    for partition, files in sorted(partitions.items()):
        begins, room = [bounds.offsets[0]], size
        for file in files:
            if room <= 0 and file.first_offset > begins[-1]:
                begins.append(file.first_offset)
                room = size
            room -= file.size
        for begin, end in zip(begins, [*begins[1:], bounds.offsets[1]], strict=True):
            own = tuple(one for one in files if one.first_offset < end and one.last_offset >= begin)
            found.append(LakePart(partition, begin, end, own))
    return found


def last_offsets(manifest: Manifest, topics: Collection[str] | None = None) -> dict[QueueKey, int]:
    """Returns the physical offset of the last message in the lake, by queue."""
    marks = manifest.marks.queues
    return {
        key: mark.physical_offset
        for key, mark in marks.items()
        if topics is None or key[0] in topics
    }


def read_part(
    objects: Objects, part: LakePart, columns: Sequence[str], last: Mapping[QueueKey, int]
) -> Iterator[Any]:
    """Yields the messages of a part as `pyarrow.RecordBatch`es.

    columns   names; OWN_COLUMNS are added
    last      last physical offset of each queue; later messages are left out
    Errors    NotAStore, Corruption, OSError
    """
    wanted = list(dict.fromkeys((*columns, *OWN_COLUMNS)))
    with ExitStack() as stack:
        for opened in _opened(objects, part, stack):
            groups = _groups(opened, part)
            for batch in opened.iter_batches(row_groups=groups, columns=wanted):
                batch = batch.select(wanted)
                places = batch.column("physical_offset").to_numpy()
                kept = (places >= part.begin) & (places < part.end) & (places <= ends(batch, last))
                if kept.any():
                    yield batch if kept.all() else filtered(batch, kept)


def _opened(objects: Objects, part: LakePart, stack: ExitStack) -> list[Any]:
    import pyarrow.parquet as pq

    files: Sequence[LakeFile] = part.files
    is_far = objects.directory is None
    for look in range(_LOOKS):
        with ExitStack() as some:
            try:
                sources = [some.enter_context(objects.opened(file.path)) for file in files]
                opened = [
                    some.enter_context(pq.ParquetFile(source, pre_buffer=is_far))
                    for source in sources
                ]
            except FileNotFoundError:  # A compaction has replaced it.
                if look == _LOOKS - 1:
                    raise
                bounds = LakeBounds(offsets=(part.begin, part.end))
                files = [
                    file
                    for file in read_lake(objects).files
                    if file.partition == part.partition and bounds.holds(file)
                ]
                continue
            stack.push(some.pop_all())
            return opened
    raise AssertionError("every look returns or raises")


def _groups(opened: Any, part: LakePart) -> list[int]:
    """Returns the row groups that may contain physical offsets of the part."""
    metadata = opened.metadata
    column = opened.schema_arrow.get_field_index("physical_offset")
    found = []
    for number in range(metadata.num_row_groups):
        leaf = metadata.row_group(number).column(column)
        bounds = leaf.statistics if leaf.is_stats_set else None
        if bounds is None or (bounds.min < part.end and bounds.max >= part.begin):
            found.append(number)
    return found


def ends(batch: Any, last: Mapping[QueueKey, int]) -> NDArray[np.int64]:
    """Returns for each row the last physical offset of its queue; -1 if the queue has none."""
    topics = batch.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    queues = batch.column("queue_id").to_numpy().astype(np.int64)
    keys, numbers = np.unique(
        topics.indices.to_numpy().astype(np.int64) * _QUEUES + queues, return_inverse=True
    )
    found = [last.get((names[key // _QUEUES], key % _QUEUES), -1) for key in keys.tolist()]
    offsets: NDArray[np.int64] = np.array(found, dtype=np.int64)[numbers]
    return offsets


def filtered(batch: Any, kept: Rows) -> Any:
    """Returns the rows of a batch that a mask selects."""
    import pyarrow as pa

    return batch.filter(pa.array(kept))


def with_text(batch: Any, texts: Collection[str]) -> Rows:
    """Returns a mask of the messages that have one of some keys or message ids."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted(texts), pa.string())
    keys = batch.column("keys")
    hits = pc.list_parent_indices(keys).filter(pc.is_in(keys.flatten(), value_set=wanted))
    kept: Rows = pc.is_in(batch.column("message_id"), value_set=wanted).to_numpy(
        zero_copy_only=False
    )
    kept = kept.copy()
    kept[hits.to_numpy()] = True
    return kept


def find_messages(
    objects: Objects, manifest: Manifest, bounds: LakeBounds, columns: Sequence[str],
    matches: Matches,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yields the messages that match as values of all columns, newest first.

    columns   those that `matches` needs
    Errors    NotAStore, Corruption, OSError
    Cost      reads the columns of all files that meet the bounds; other columns of row groups with
              matches
    """
    from pocketmq.tools.lake.schema import SCHEMA

    last = last_offsets(manifest, bounds.topics)
    parts = parts_of(manifest, bounds)
    for part in sorted(parts, key=lambda part: part.files[-1].last_ms, reverse=True):
        places = [
            place
            for batch in read_part(objects, part, columns, last)
            for place in filtered(batch, matches(batch)).column("physical_offset").to_pylist()
        ]
        if not places:
            continue
        near = part._replace(begin=min(places), end=max(places) + 1)
        rows = [
            row
            for batch in read_part(objects, near, SCHEMA.names, last)
            for row in filtered(batch, matches(batch)).to_pylist()
        ]
        yield from sorted(rows, key=lambda row: int(row["physical_offset"]), reverse=True)
