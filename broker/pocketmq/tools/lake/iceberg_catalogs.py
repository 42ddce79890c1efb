"""Where the current version of an Iceberg table is recorded: in its directory, or in a catalog.

A table in a directory has the layout of Hadoop's catalog, `metadata/vN.metadata.json`, which Spark,
DuckDB and pyiceberg read by its path. It becomes version N when that file appears.
"""

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, new_table_metadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)

from pocketmq.model.errors import BrokerError, NotAStore, TableChanged
from pocketmq.tools.archive.objects import Objects
from pocketmq.tools.lake.catalog import METADATA
from pocketmq.tools.lake.iceberg_files import TableFiles
from pocketmq.tools.lake.publishing import TableName

_HINT: Final = f"{METADATA}/version-hint.text"
_HINT_SUM: Final = f"{METADATA}/.version-hint.text.crc"
"""Checksum that Hadoop stores beside the hint in a directory, and refuses it by."""
_VERSION: Final = re.compile(r"v(\d+)(\.gz)?\.metadata\.json")


class TableDirectory(NoopCatalog):
    """A table whose versions are numbered files in its own directory."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects.target)
        self._objects = objects
        self._version = 0
        """Version that was read or written last; 0: none."""

    def load(self) -> Table | None:
        """Returns the table; None if the directory has none.

        Errors   OSError
        """
        newest = self._newest()
        if newest is None:
            return None
        content = b"".join(self._objects.get(f"{METADATA}/{newest[0]}"))
        metadata = TableMetadataUtil.parse_raw(
            (gzip.decompress(content) if newest[2] else content).decode()
        )
        self._version = int(newest[1])
        return self._table(metadata, newest[0])

    def create(self, schema: Schema, spec: PartitionSpec, properties: dict[str, str]) -> Table:
        """Makes the table, without files.

        Errors   OSError; DiskFull
        """
        made = new_table_metadata(
            schema, spec, UNSORTED_SORT_ORDER, location_of(self._objects), properties
        )
        return self._table(made, self._write(made))

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:  # fmt: skip
        """Writes the next version.

        Errors   TableChanged: it is no longer the version that was read; OSError; DiskFull
        """
        for requirement in requirements:
            requirement.validate(table.metadata)
        before = table.metadata_location
        after = update_table_metadata(table.metadata, updates, metadata_location=before)
        name = self._write(after)
        where = f"{after.location}/{METADATA}/{name}"
        return CommitTableResponse.model_validate({"metadata": after, "metadata-location": where})

    def recover(self) -> None:
        """Names the version that was read last in the hint, which a killed run may not have done.

        Errors   OSError; DiskFull
        """
        try:
            found = b"".join(self._objects.get(_HINT)).strip()
        except FileNotFoundError:
            found = b""
        if self._version and found != b"%d" % self._version:
            self._write_hint()

    def _write(self, metadata: TableMetadata) -> str:
        name = f"v{self._version + 1}.metadata.json"
        newest = self._newest()
        if newest is not None and int(newest[1]) > self._version:
            raise TableChanged(path=self._objects.target)
        self._objects.put(f"{METADATA}/{name}", [metadata.model_dump_json().encode()])
        self._version += 1
        assert self._version > 0
        self._write_hint()
        return name

    def _write_hint(self) -> None:
        self._objects.put(_HINT, [b"%d" % self._version])
        if self._objects.directory is not None:
            self._objects.delete(_HINT_SUM)

    def _newest(self) -> re.Match[str] | None:
        """Returns the name of the last version."""
        found = [_VERSION.fullmatch(name) for name in self._objects.names(METADATA)]
        return max(filter(None, found), key=lambda name: int(name[1]), default=None)

    def _table(self, metadata: TableMetadata, name: str) -> Table:
        where = f"{metadata.location}/{METADATA}/{name}"
        files = TableFiles(self._objects, metadata.location)
        return Table((self._objects.target,), metadata, where, files, self)


class CatalogTable(NoopCatalog):
    """A table of a catalog that pyiceberg's configuration names."""

    def __init__(self, objects: Objects, name: TableName) -> None:
        """Opens the catalog.

        Errors   NotAStore: there is no such catalog; OSError
        """
        super().__init__(name.catalog)
        self._objects, self._name = objects, name.table
        with self._answers():
            try:
                self._catalog: Catalog = load_catalog(name.catalog)
            except ValueError as error:
                why = f"pyiceberg's configuration has no catalog {name.catalog}: {error}"
                raise NotAStore(path=objects.target, why=why) from error

    def load(self) -> Table | None:
        """Returns the table; None if the catalog has none.

        Errors   NotAStore: the table is at another place; OSError
        """
        with self._answers():
            try:
                return self._own(self._catalog.load_table(self._name))
            except NoSuchTableError:
                return None

    def create(self, schema: Schema, spec: PartitionSpec, properties: dict[str, str]) -> Table:
        """Makes the table, and its namespace.

        Errors   NotAStore: the catalog puts it at another place; OSError
        """
        where = location_of(self._objects)
        with self._answers():
            self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
            return self._own(
                self._catalog.create_table(self._name, schema, where, spec, properties=properties)
            )

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:  # fmt: skip
        """Commits once: pyiceberg would try again on top of another run's messages.

        Errors   TableChanged; OSError
        """
        snapshot = table.current_snapshot()
        number = snapshot.snapshot_id if snapshot else None
        as_read = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": number})
        with self._answers():  # A commit of marks alone is also checked.
            found = self._catalog.commit_table(table, (*requirements, as_read), updates)
        self._settle(found.metadata_location)
        return found

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """Turns errors of the catalog, whose clients have many, into TableChanged or OSError."""
        try:
            yield
        except (BrokerError, OSError):
            raise
        except CommitFailedException as error:
            raise TableChanged(path=self._objects.target) from error
        except Exception as error:
            why = f"catalog {self.name}: {type(error).__name__}: {str(error).splitlines()[0]}"
            raise OSError(why) from error

    def recover(self) -> None:
        """Does nothing: a catalog commits at once."""

    def _own(self, table: Table) -> Table:
        wanted, found = location_of(self._objects), table.location().rstrip("/")
        if found != wanted:
            why = f"the catalog has table {self._name} at {found}"
            raise NotAStore(path=self._objects.target, why=why)
        files = TableFiles(self._objects, found)
        self._settle(table.metadata_location)
        return Table(table.name(), table.metadata, table.metadata_location, files, self)

    def _settle(self, location: str) -> None:
        """Makes a version that the catalog wrote durable in a directory."""
        prefix = f"{location_of(self._objects)}/"
        if location.startswith(prefix):
            self._objects.settle(location.removeprefix(prefix))


def catalog_of(objects: Objects, name: TableName) -> TableDirectory | CatalogTable:
    """Returns where a table is recorded.

    Errors   NotAStore: there is no such catalog
    """
    return CatalogTable(objects, name) if name.catalog else TableDirectory(objects)


def location_of(objects: Objects) -> str:
    """Returns the location of a table: a URL without options."""
    return objects.target if objects.directory is None else f"file://{objects.directory.resolve()}"
