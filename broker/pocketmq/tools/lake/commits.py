"""A lake's commits: after a kill at any point, each message is in the lake exactly once.

    intent, with the names of new files ─► the files ─► manifest ─► removed files are deleted

The manifest is replaced atomically, so a commit takes effect at once. The next run first deletes
the remains of a killed commit: files of the intent that the manifest does not list, and files that
it lists as removed.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
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
    manifest_of,
)

_LOCK: Final = "lock"


class LakeDraft(NamedTuple):
    """A complete Parquet file that is not yet a part of the lake."""

    draft: Path
    file: LakeFile


def read_lake(objects: Objects) -> Manifest:
    """Returns the content of a lake.

    Errors   NotAStore: there is no lake; Corruption; OSError
    """
    try:
        content = b"".join(objects.get(MANIFEST))
    except FileNotFoundError as error:
        why = f"it has no {MANIFEST}: `pocketmq archive run` has not written to it"
        raise NotAStore(path=objects.target, why=why) from error
    return manifest_of(content, f"{objects.target}/{MANIFEST}")


class Lake:
    """A lake that this process changes."""

    __slots__ = ("_is_committing", "_objects", "manifest", "spool")

    def __init__(self, objects: Objects, spool: Path) -> None:
        """Opens a lake, which may be empty; deletes the remains of a killed commit.

        spool    directory for drafts
        Errors   NotAStore: the place contains other files; Corruption; OSError
        """
        self._objects, self.spool, self._is_committing = objects, spool, False
        self.manifest = _content(objects)
        self._delete_remains()

    @property
    def target(self) -> str:
        """The lake's path or URL, for errors."""
        return self._objects.target

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
        self._objects.put(INTENT, [json.dumps({"files": [one.path for one in new]}).encode()])
        for draft in drafts:
            self._objects.take(draft.file.path, draft.draft)
        kept = [file for file in before.files if file.path not in gone]
        after = Manifest(before.run + 1, marks, (*kept, *new), tuple(sorted(gone)))
        self._objects.put(MANIFEST, [after.encode()])
        self.manifest = after
        for path in after.removed:
            self._objects.delete(path)
        self._is_committing = False
        return after

    def _delete_remains(self) -> None:
        try:
            intended = read_object(b"".join(self._objects.get(INTENT)))["files"]
        except FileNotFoundError:
            return
        named = {file.path for file in self.manifest.files}
        for path in {*intended, *self.manifest.removed} - named:
            self._objects.delete(path)
        self.manifest = replace(self.manifest, removed=())


def _content(objects: Objects) -> Manifest:
    """Returns the content of a lake, which is empty in an empty place."""
    try:
        return read_lake(objects)
    except NotAStore:
        others = [name for name in objects.names("") if name != OWN]
        if others:
            why = f"it contains other files ({others[0]} …), and is no lake"
            raise NotAStore(path=objects.target, why=why) from None
        return Manifest()


@contextmanager
def opened_lake(disk: Disk, objects: Objects) -> Iterator[Lake]:
    """Opens a lake for changes; in a directory, for one process at a time.

    Errors   those of `Lake`; StoreLocked
    """
    if objects.directory is None:
        with tempfile.TemporaryDirectory(prefix="pocketmq-") as spool:
            yield Lake(objects, Path(spool))
        return
    own = objects.directory / OWN
    _content(objects)  # Refuses a place of other files before anything is written.
    disk.make_directory(own)
    lock = disk.directory_lock(own / _LOCK)
    lock.acquire()
    try:
        objects.delete(f"{OWN}/{DRAFTS}")
        disk.make_directory(own / DRAFTS)
        yield Lake(objects, own / DRAFTS)
    finally:
        objects.delete(f"{OWN}/{DRAFTS}")
        lock.release()
