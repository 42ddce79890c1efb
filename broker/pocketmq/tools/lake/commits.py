"""A lake's commits: after a kill at any point, each message is in the lake exactly once.

    intent, with the names of new files ─► the files ─► manifest ─► removed files are deleted

The manifest, or the version of an Iceberg table instead of it, is replaced atomically, so a commit
takes effect at once. The next run first deletes the remains of a killed commit: files of the intent
that the manifest does not list, and files that it lists as removed.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.json_text import read_object
from pocketmq.model.errors import NotAStore
from pocketmq.tools.archive.objects import Objects
from pocketmq.tools.lake.catalog import (
    DRAFTS,
    INTENT,
    MANIFEST,
    OWN,
    LakeFile,
    LakeMarks,
    Manifest,
)
from pocketmq.tools.lake.finding import find_published, new_table
from pocketmq.tools.lake.publishing import OwnManifest, Published, TableName
from pocketmq.tools.lake.spools import spool

_LOCK: Final = "lock"


class LakeDraft(NamedTuple):
    """A complete Parquet file that is not yet a part of the lake."""

    draft: Path
    file: LakeFile


def read_lake(objects: Objects) -> Manifest:
    """Returns the content of a lake.

    Errors   NotAStore: there is no lake; Corruption; OSError; ImportError: it is an Iceberg table,
             and pyiceberg is missing
    """
    found = find_published(objects)
    if found is None:
        why = f"it has no {MANIFEST}: `pocketmq archive run` has not written to it"
        raise NotAStore(path=objects.target, why=why)
    return found[1]


class Lake:
    """A lake that this process changes."""

    __slots__ = ("_is_committing", "_objects", "_published", "manifest", "spool")

    def __init__(self, objects: Objects, spool: Path, table: TableName | None = None) -> None:
        """Opens a lake, which may be empty; deletes the remains of a killed commit.

        spool    directory for drafts
        table    the Iceberg table that an empty lake becomes; None: it gets a manifest
        Errors   NotAStore: the place contains other files; Corruption; OSError; ImportError: the
                 lake is an Iceberg table, and pyiceberg is missing
        """
        self._objects, self.spool, self._is_committing = objects, spool, False
        found = _content(objects)
        if found is None and table is not None:
            found = new_table(objects, table)
        self._published, self.manifest = found or (OwnManifest(objects), Manifest())
        self._published.recover()
        self._delete_remains()

    @property
    def target(self) -> str:
        """The lake's path or URL, for errors."""
        return self._objects.target

    @property
    def table(self) -> TableName | None:
        """The Iceberg table that the lake is; None: it has a manifest."""
        return self._published.table

    def name(self, partition: str, number: int) -> str:
        """Returns the name of a file in the next commit."""
        return f"{partition}/{self.manifest.run + 1:08}-{number:05}.parquet"

    @contextmanager
    def local(self, file: LakeFile) -> Iterator[Path]:
        """Yields the path of a file of the lake, or of its copy for this block.

        Errors   OSError
        """
        directory = self._objects.directory
        if directory is not None:
            yield directory / file.path
            return
        copy = self.spool / "copy"
        with copy.open("wb") as opened:
            opened.writelines(self._objects.get(file.path))
        yield copy
        copy.unlink()

    def commit(
        self, drafts: Sequence[LakeDraft], marks: LakeMarks, *, without: Iterable[str] = ()
    ) -> Manifest:
        """Adds files and marks, and removes the files `without`, all at once.

        Effects  the drafts become files of the lake
        Errors   OSError; DiskFull
        """
        assert not self._is_committing, "an earlier commit failed: open the lake again"
        self._is_committing = True
        before, gone = self.manifest, frozenset(without)
        assert gone <= {file.path for file in before.files}
        new = [draft.file for draft in drafts]
        self._intend([one.path for one in new])
        for draft in drafts:
            self._objects.take(draft.file.path, draft.draft)
        kept = [file for file in before.files if file.path not in gone]
        after = Manifest(before.run + 1, marks, (*kept, *new), tuple(sorted(gone)))
        self._published.publish(after, new, gone)
        self.manifest = after
        for path in self._published.unused(after.removed):
            self._objects.delete(path)
        self._is_committing = False
        return after

    def expire(self, now_ms: int) -> None:
        """Removes old snapshots of an Iceberg table, and the files that only they use.

        Errors   OSError; DiskFull; TableChanged
        """
        ids, names = self._published.expired(now_ms)
        if ids:
            self._intend(names)
            self._published.expire(ids)
            for name in names:
                self._objects.delete(name)
            self._intend([])

    def _intend(self, names: Collection[str]) -> None:
        """Records objects that the next run deletes if they are no part of the lake."""
        self._objects.put(INTENT, [json.dumps({"files": sorted(names)}).encode()])

    def _delete_remains(self) -> None:
        named = {file.path for file in self.manifest.files}
        remains = {*_intended(self._objects), *self.manifest.removed} - named
        for path in self._published.unused(remains):
            self._objects.delete(path)
        self.manifest = replace(self.manifest, removed=())


def _intended(objects: Objects) -> list[str]:
    """Returns the names in the intent."""
    try:
        content = b"".join(objects.get(INTENT))
    except FileNotFoundError:
        return []
    return [str(name) for name in read_object(content)["files"]]


def _content(objects: Objects) -> tuple[Published, Manifest] | None:
    """Returns the content of a lake; None in an empty place, or one with a killed first commit."""
    found = find_published(objects)
    if found is None:
        own = {OWN, *(name.partition("/")[0] for name in _intended(objects))}
        others = [name for name in objects.names("") if name not in own]
        if others:
            why = f"it contains other files ({others[0]} …), and is no lake"
            raise NotAStore(path=objects.target, why=why)
    return found


@contextmanager
def opened_lake(disk: Disk, objects: Objects, table: TableName | None = None) -> Iterator[Lake]:
    """Opens a lake for changes; in a directory, for one process at a time.

    table    see `Lake`
    Errors   those of `Lake`; StoreLocked
    """
    if objects.directory is None:
        with spool() as drafts:
            yield Lake(objects, drafts, table)
        return
    own = objects.directory / OWN
    _content(objects)  # Refuses a place of other files before anything is written.
    disk.make_directory(own)
    lock = disk.directory_lock(own / _LOCK)
    lock.acquire()
    try:
        objects.delete(f"{OWN}/{DRAFTS}")
        disk.make_directory(own / DRAFTS)
        yield Lake(objects, own / DRAFTS, table)
    finally:
        objects.delete(f"{OWN}/{DRAFTS}")
        lock.release()
