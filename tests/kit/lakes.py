"""Lakes of small stores.

lake = SmallLake(tmp_path)
lake.run()                          archives the store in tmp_path / "s"
lake.parquet_files                  names of its files
lake.bodies()                       bodies in the lake, in the order of the log
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pocketmq.tools.archive.objects import Objects, open_objects
from pocketmq.tools.lake.archiving import STEP_SIZE, Archived, Archiver, archive_log, log_to_archive
from pocketmq.tools.lake.catalog import Manifest
from pocketmq.tools.lake.commits import opened_lake, read_lake
from pocketmq.tools.lake.compaction import Compacted, compact_lake
from pocketmq.tools.lake.drafts import FILE_SIZE
from pocketmq.tools.lake.publishing import TableName
from tests.sim.quick_disk import QuickDisk


class SmallLake:
    """A lake, and the store whose messages it archives."""

    def __init__(
        self, place: Path, target: str = "", *,
        store: Path | None = None, table: TableName | None = None,
    ) -> None:  # fmt: skip
        self._store = store or place / "s"
        self._form = table
        self.objects = open_objects(QuickDisk(), target or str(place / "l"))
        self.step_size = STEP_SIZE
        self.file_size = FILE_SIZE
        self._disk = QuickDisk()
        assert self.step_size >= self.file_size

    def run(
        self, *patterns: str, until_ms: int | None = None, objects: Objects | None = None
    ) -> Archived:
        """Archives the new messages."""
        log = log_to_archive(self._disk, self._store, None, patterns, until_ms)
        with opened_lake(self._disk, objects or self.objects, self._form) as lake:
            archiver = Archiver(lake, step_size=self.step_size, file_size=self.file_size)
            return archive_log(archiver, lake, log)[0]

    def compact(self, objects: Objects | None = None, *, now_ms: int = 0) -> Compacted:
        """Replaces small files by large ones; expires snapshots of a table."""
        with opened_lake(self._disk, objects or self.objects, self._form) as lake:
            return compact_lake(
                lake, now_ms=now_ms, step_size=self.step_size, file_size=self.file_size
            )

    @property
    def manifest(self) -> Manifest:
        """The lake's manifest."""
        return read_lake(self.objects)

    @property
    def parquet_files(self) -> set[str]:
        """Names of its files in the directory, also of those that the manifest lacks."""
        directory = self.objects.directory
        assert directory is not None
        return {str(path.relative_to(directory)) for path in directory.rglob("*.parquet")}

    def table(self) -> Any:
        """Returns all rows as a `pyarrow.Table`, in the order of the log."""
        tables = []
        for file in self.manifest.files:
            content = b"".join(self.objects.get(file.path))
            tables.append(pq.read_table(pa.BufferReader(content)))
        return pa.concat_tables(tables).sort_by("physical_offset")

    def bodies(self, topic: str = "T") -> list[str]:
        """Returns the bodies of a topic."""
        rows = self.table().select(["topic", "body"]).to_pylist()
        return [row["body"].decode() for row in rows if row["topic"] == topic]
