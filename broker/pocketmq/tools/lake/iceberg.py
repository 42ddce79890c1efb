"""A lake as an Iceberg table: each commit of the lake is a snapshot with the same files.

The marks of the lake are a property of the table, which changes in the same commit as the files. So
a message is in the table exactly once, also if other programs rewrite its files.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NoReturn

from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import parquet_file_to_data_file, pyarrow_to_schema
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import LongType

from pocketmq.model.errors import NotAStore
from pocketmq.tools.archive.objects import Objects
from pocketmq.tools.export.files import DAY_MS
from pocketmq.tools.lake.catalog import LakeFile, Manifest, manifest_of, partition_of
from pocketmq.tools.lake.iceberg_catalogs import catalog_of
from pocketmq.tools.lake.iceberg_files import TableFiles
from pocketmq.tools.lake.publishing import Published, TableName
from pocketmq.tools.lake.schema import SCHEMA

MARKS: Final = "pocketmq.marks"
"""Property of the table: run and marks of the manifest, as its JSON."""
AGE_MAX: Final = "history.expire.max-snapshot-age-ms"
"""Iceberg's property with the age after which a snapshot is removed."""
AGE_MAX_MS: Final = 5 * DAY_MS
"""Iceberg's default of it."""
PROPERTIES: Final = {
    "commit.manifest-merge.enabled": "true",
    "schema.name-mapping.default": pyarrow_to_schema(SCHEMA).name_mapping.model_dump_json(),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.metrics.column.body": "none",
    "write.parquet.compression-codec": "zstd",
}


def _id_of(column: str) -> int:
    return int(SCHEMA.get_field_index(column)) + 1


SPEC: Final = PartitionSpec(
    PartitionField(_id_of("store_timestamp"), 1000, DayTransform(), "store_timestamp_day"),
    PartitionField(_id_of("topic"), 1001, IdentityTransform(), "topic"),
)


class IcebergTable(Published):
    """The table of a lake."""

    __slots__ = ("_catalog", "_data_files", "_objects", "_read")

    def __init__(self, objects: Objects, name: TableName) -> None:
        """Opens the catalog.

        Errors   NotAStore: there is no such catalog
        """
        super().__init__(name)
        self._objects, self._catalog = objects, catalog_of(objects, name)
        self._read: Table | None = None
        self._data_files: dict[str, DataFile] = {}
        """The files of the last snapshot, by name."""

    def read(self) -> Manifest | None:
        """Returns the content of the current snapshot.

        Errors   NotAStore: another program made or changed the table; Corruption, OSError
        """
        table = self._read = self._catalog.load()
        if table is None:
            return None
        content = table.properties.get(MARKS)
        if content is None:
            self._refuse(f"its table has no property {MARKS}: `archive run` has not made it")
        marks = manifest_of(content.encode(), f"{self._objects.target}: property {MARKS}")
        if table.schema().as_struct() != pyarrow_to_schema(SCHEMA).as_struct():
            self._refuse("another program changed the columns of its table")
        found = {self._files.name(one.file_path): one for one in self._current()}
        self._data_files = found
        files = tuple(self._file(name, one) for name, one in found.items())
        return Manifest(marks.run, marks.marks, files)

    def publish(self, after: Manifest, new: Sequence[LakeFile], without: Collection[str]) -> None:
        """Commits files and marks; the first commit makes the table.

        Errors   TableChanged; OSError; DiskFull
        """
        properties = {MARKS: Manifest(after.run, after.marks).encode().decode()}
        if self._read is None:
            schema = pyarrow_to_schema(SCHEMA)
            self._read = self._catalog.create(
                schema, SPEC, {**PROPERTIES, MARKS: Manifest().encode().decode()}
            )
        table, files = self._read, self._files
        added = {
            one.path: parquet_file_to_data_file(
                files, table.metadata, f"{files.location}/{one.path}"
            )
            for one in new
        }
        transaction = table.transaction()
        transaction.set_properties(properties)
        if new or without:
            summary = {"pocketmq.run": str(after.run), "pocketmq.upto": str(after.marks.upto)}
            update = transaction.update_snapshot(summary)
            with update.overwrite() if without else update.merge_append() as snapshot:
                for one in added.values():
                    snapshot.append_data_file(one)
                for name in without:
                    snapshot.delete_data_file(self._data_files[name])
        transaction.commit_transaction()
        self._data_files |= added
        for name in without:
            del self._data_files[name]
        assert self._data_files.keys() == {file.path for file in after.files}

    def recover(self) -> None:
        """Completes a commit that was killed after it took effect."""
        self._catalog.recover()

    def unused(self, names: Collection[str]) -> Collection[str]:
        """Returns the names that no snapshot uses."""
        if not names or self._read is None:
            return names
        return set(names) - self._used_by(self._read.metadata.snapshots)

    def expired(self, now_ms: int) -> tuple[Sequence[int], Collection[str]]:
        """Returns snapshots older than the table keeps, and the objects that only they use."""
        if self._read is None:
            return (), ()
        metadata = self._read.metadata
        oldest = now_ms - int(metadata.properties.get(AGE_MAX, AGE_MAX_MS))
        named = {ref.snapshot_id for ref in metadata.refs.values()}
        gone, kept = list[Snapshot](), list[Snapshot]()
        for one in metadata.snapshots:
            is_old = one.timestamp_ms < oldest and one.snapshot_id not in named
            (gone if is_old else kept).append(one)
        if not gone:
            return (), ()
        return [one.snapshot_id for one in gone], self._used_by(gone) - self._used_by(kept)

    def expire(self, ids: Sequence[int]) -> None:
        """Removes snapshots.

        Errors   TableChanged; OSError; DiskFull
        """
        assert self._read is not None
        self._read.maintenance.expire_snapshots().by_ids(list(ids)).commit()

    @property
    def _files(self) -> TableFiles:
        assert self._read is not None
        assert isinstance(self._read.io, TableFiles)
        return self._read.io

    def _current(self) -> Iterator[DataFile]:
        """Yields the files of the current snapshot."""
        assert self._read is not None
        snapshot = self._read.current_snapshot()
        for listed in snapshot.manifests(self._files) if snapshot else ():
            if listed.content != ManifestContent.DATA:
                self._refuse(
                    "another program deleted rows of its table by position or value; "
                    "have that program rewrite the data files"
                )
            yield from self._data_files_of(listed)

    def _data_files_of(self, listed: ManifestFile) -> Iterator[DataFile]:
        for entry in listed.fetch_manifest_entry(self._files):
            yield entry.data_file

    def _used_by(self, snapshots: Iterable[Snapshot]) -> set[str]:
        """Returns the names of all objects that snapshots consist of."""
        files, seen, found = self._files, set[str](), set[str]()
        for snapshot in snapshots:
            found.add(files.name(snapshot.manifest_list))
            for listed in snapshot.manifests(files):
                if listed.manifest_path not in seen:
                    seen.add(listed.manifest_path)
                    found |= {files.name(one.file_path) for one in self._data_files_of(listed)}
        return found | {files.name(path) for path in seen}

    def _file(self, name: str, found: DataFile) -> LakeFile:
        offsets, times = (
            self._bounds(found, "physical_offset"),
            self._bounds(found, "store_timestamp_ms"),
        )
        if found.spec_id != 0:
            self._refuse("another program changed the partitions of its table")
        partition = partition_of(times[0] // DAY_MS, found.partition[1])
        is_own = name.startswith(f"{partition}/")
        return LakeFile(
            name, found.record_count, found.file_size_in_bytes, *offsets, *times,
            "" if is_own else partition,
        )  # fmt: skip

    def _bounds(self, found: DataFile, column: str) -> tuple[int, int]:
        number = _id_of(column)
        lower, upper = found.lower_bounds or {}, found.upper_bounds or {}
        if number not in lower or number not in upper:
            self._refuse(f"{found.file_path} has no bounds of {column}")
        kind = LongType()
        return int(from_bytes(kind, lower[number])), int(from_bytes(kind, upper[number]))

    def _refuse(self, why: str) -> NoReturn:
        raise NotAStore(path=self._objects.target, why=why)
