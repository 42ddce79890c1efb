"""Publishes commits of a lake as a manifest of its own, or as snapshots of an Iceberg table.

A commit takes effect when it is published, at once. finding.py finds which way a lake uses.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pocketmq.tools.archive.objects import Objects
from pocketmq.tools.lake.catalog import MANIFEST, LakeFile, Manifest, manifest_of


class TableName(NamedTuple):
    """The catalog and the name of an Iceberg table; both are "" if its directory is its catalog."""

    catalog: str = ""
    table: str = ""


class Published(ABC):
    """The published content of a lake."""

    __slots__ = ("table",)

    def __init__(self, table: TableName | None = None) -> None:
        self.table = table
        """The Iceberg table that the lake is; None: it has a manifest."""

    @abstractmethod
    def read(self) -> Manifest | None:
        """Returns the content; None if nothing is published.

        Errors   NotAStore, Corruption, OSError
        """

    @abstractmethod
    def publish(self, after: Manifest, new: Sequence[LakeFile], without: Collection[str]) -> None:
        """Replaces the content that was read or published last, at once.

        after     all files and marks: `new` ones are added, those `without` are removed
        Errors    OSError; DiskFull; TableChanged
        """

    def recover(self) -> None:
        """Completes a commit that was killed after it took effect."""
        return

    @abstractmethod
    def unused(self, names: Collection[str]) -> Collection[str]:
        """Returns the names of those objects that no reader may need any more."""

    def expired(self, now_ms: int) -> tuple[Sequence[int], Collection[str]]:
        """Returns the ids of snapshots that are too old, and the objects that only they use."""
        return (), ()

    def expire(self, ids: Sequence[int]) -> None:
        """Removes snapshots."""
        assert not ids, "a manifest has no snapshots"


class OwnManifest(Published):
    """The manifest of a lake of Parquet files, which is replaced by each commit."""

    __slots__ = ("_objects",)

    def __init__(self, objects: Objects) -> None:
        super().__init__()
        self._objects = objects

    def read(self) -> Manifest | None:
        """Returns the manifest."""
        try:
            content = b"".join(self._objects.get(MANIFEST))
        except FileNotFoundError:
            return None
        return manifest_of(content, f"{self._objects.target}/{MANIFEST}")

    def publish(self, after: Manifest, new: Sequence[LakeFile], without: Collection[str]) -> None:
        """Replaces the manifest."""
        self._objects.put(MANIFEST, [after.encode()])

    def unused(self, names: Collection[str]) -> Collection[str]:
        """Returns all: readers look for a new manifest if a file is gone."""
        return names
