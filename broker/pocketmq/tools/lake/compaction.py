"""Replaces small files of a lake by large ones, partition by partition."""

from collections.abc import Sequence
from typing import NamedTuple

from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.lake.archiving import STEP_SIZE
from pocketmq.tools.lake.catalog import LakeFile
from pocketmq.tools.lake.commits import Lake
from pocketmq.tools.lake.drafts import FILE_SIZE, LakeDrafts, batches_of


class Compacted(NamedTuple):
    """Numbers of files before and after, and the bytes that were replaced."""

    before: int
    after: int
    size: int


def small_files(files: Sequence[LakeFile], file_size: int = FILE_SIZE) -> list[list[LakeFile]]:
    """Returns the files to replace, by partition; a partition with one small file keeps it."""
    partitions: dict[str, list[LakeFile]] = {}
    for file in sorted(files, key=lambda file: (file.partition, file.first_offset)):
        if file.size < file_size:
            partitions.setdefault(file.partition, []).append(file)
    return [small for small in partitions.values() if len(small) > 1]


def compact_lake(
    lake: Lake, *, now_ms: int, advance: Advance = no_advance, step_size: int = STEP_SIZE,
    file_size: int = FILE_SIZE,
) -> Compacted:  # fmt: skip
    """Replaces small files; commits after each `step_size` bytes, and then expires old snapshots.

    Errors   OSError; DiskFull; Corruption: the rows of a file differ from the manifest
    Cost     reads and writes each small file once
    """
    before, total = len(lake.manifest.files), 0
    lots: list[list[LakeFile]] = [[]]
    room = step_size
    for small in small_files(lake.manifest.files, file_size):
        if room <= 0:
            lots.append([])
            room = step_size
        lots[-1] += small
        room -= sum(file.size for file in small)
    for lot in lots:
        if lot:
            _replace(lake, lot, advance, file_size)
            total += sum(file.size for file in lot)
    lake.expire(now_ms)
    return Compacted(before, len(lake.manifest.files), total)


def _replace(lake: Lake, lot: Sequence[LakeFile], advance: Advance, file_size: int) -> None:
    drafts = LakeDrafts(lake.spool, lake.name, file_size)
    try:
        for file in lot:
            with lake.local(file) as path:
                for batch in batches_of(path, file):
                    drafts.add(file.partition, batch)
            advance(file.size)
        new = drafts.close()
        assert sum(draft.file.rows for draft in new) == sum(file.rows for file in lot)
        lake.commit(new, lake.manifest.marks, without=[file.path for file in lot])
    finally:
        drafts.abandon()
