"""Objects of an archive: files of a directory, or objects of S3, GCS, HDFS and others.

Writing an object is atomic: after a kill, the object has its whole new content, or is unchanged. If
the file system does not guarantee that, the object is written under another name and renamed.
"""

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import FullDisk

PIECE_SIZE: Final = 4 * 1024 * 1024
"""Bytes of an object that are in memory at once."""
READ_AHEAD: Final = 8
"""Pieces of a remote object that are requested at once: one request waits for the network alone."""
URL_MARK: Final = "://"
S3_URL: Final = "s3://"
ONE_REQUEST: Final = "allow_delayed_open"
"""Option of pyarrow: a small object takes one request, not the three of a multipart upload."""
_DRAFT: Final = ".draft"
_WHOLE: Final = frozenset({"s3", "gcs", "abfs"})
"""Types of pyarrow's file systems that write objects atomically."""


class Objects(ABC):
    """The objects in one directory or below one URL; their names contain slashes, as paths do.

    Errors of all methods   OSError; DiskFull, FsyncFailed where the place is a directory
    """

    __slots__ = ("directory", "target")

    def __init__(self, target: str, directory: Path | None = None) -> None:
        self.target = target
        """The path or URL, without user, password and options."""
        self.directory = directory
        """The directory whose files are the objects; None: they are behind a URL."""

    @abstractmethod
    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        """Writes an object, durable when it returns; replaces an earlier one."""

    def take(self, name: str, path: Path) -> None:
        """Moves a file of this machine to an object; replaces an earlier one."""
        self.put(name, _pieces_of(path))
        path.unlink()

    def settle(self, name: str) -> None:
        """Makes an object durable that another program wrote; a store of objects has done that."""
        return

    @abstractmethod
    def get(self, name: str) -> Iterator[bytes]:
        """Yields an object in pieces.

        Errors   FileNotFoundError
        """

    @abstractmethod
    def opened(self, name: str) -> Any:
        """Opens an object to be read at any position; the caller closes it.

        Errors   FileNotFoundError
        """

    @abstractmethod
    def names(self, prefix: str) -> list[str]:
        """Returns the last parts of the names directly below a prefix, sorted; drafts excluded."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Removes an object, or all objects below a name; a missing object is no error."""


def _pieces_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as opened:
        while piece := opened.read(PIECE_SIZE):
            yield piece


def open_objects(disk: Disk, target: str) -> Objects:
    """Returns the objects of a target.

    target   path of a directory, or a URL of a kind that pyarrow supports, such as
             s3://bucket/place?region=…
    Errors   ImportError: pyarrow is missing; ValueError: no such kind of URL
    """
    if URL_MARK not in target:
        disk.enclosure.add(Path(target))
        return _Files(disk, Path(target))
    return _Remote(*_file_system(target), shown(target))


def _file_system(target: str) -> tuple[Any, str]:
    from pyarrow import fs

    if target.startswith(S3_URL) and ONE_REQUEST not in target:
        more = f"{'&' if '?' in target else '?'}{ONE_REQUEST}=true"
        with suppress(ValueError):  # An old pyarrow does not know the option.
            return _opened(fs, target + more)
    return _opened(fs, target)


def _opened(fs: Any, target: str) -> tuple[Any, str]:
    file_system, root = fs.FileSystem.from_uri(target)
    return file_system, root.rstrip("/")


def shown(target: str) -> str:
    """Returns a target without the user, the password and the options of its URL."""
    kind, mark, rest = target.partition(URL_MARK)
    return f"{kind}{mark}{rest.partition('?')[0].rpartition('@')[2]}" if mark else target


class _Files(Objects):
    __slots__ = ("_directory", "_disk")

    def __init__(self, disk: Disk, directory: Path) -> None:
        super().__init__(str(directory), directory)
        self._disk = disk
        self._directory = directory

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        disk, path = self._disk, self._directory / name
        disk.make_directory(path.parent)
        draft = path.with_name(path.name + _DRAFT)
        disk.unlink(draft)
        written, sink = 0, disk.make_sparse_file(draft, 0)
        try:
            for piece in pieces:
                with FullDisk(draft):
                    disk.write_at(sink, written, piece)
                written += len(piece)
            disk.sync(sink)
        finally:
            disk.close(sink)
        disk.rename(draft, path)
        disk.sync_directory(path.parent)

    def take(self, name: str, path: Path) -> None:
        disk, target = self._disk, self._directory / name
        disk.make_directory(target.parent)
        with disk.opened(path) as descriptor:
            disk.sync(descriptor)
        disk.rename(path, target)
        disk.sync_directory(target.parent)

    def settle(self, name: str) -> None:
        path = self._directory / name
        with self._disk.opened(path) as descriptor:
            self._disk.sync(descriptor)
        self._disk.sync_directory(path.parent)

    def get(self, name: str) -> Iterator[bytes]:
        return _pieces_of(self._directory / name)

    def opened(self, name: str) -> BinaryIO:
        return (self._directory / name).open("rb")

    def names(self, prefix: str) -> list[str]:
        found = self._disk.names(self._directory / prefix)
        return sorted(name for name in found if not name.endswith(_DRAFT))

    def delete(self, name: str) -> None:
        path = self._directory / name
        if not path.is_dir():
            self._disk.unlink(path)
            return
        for place, _, files in os.walk(path, topdown=False):
            for each in files:
                self._disk.unlink(Path(place, each))
            self._disk.remove_directory(Path(place))


class _Remote(Objects):
    __slots__ = ("_file_system", "_root")

    def __init__(self, file_system: Any, root: str, target: str) -> None:
        super().__init__(target)
        self._file_system = file_system
        self._root = root

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        system, path = self._file_system, f"{self._root}/{name}"
        is_whole = system.type_name in _WHOLE
        draft = path if is_whole else path + _DRAFT
        if not is_whole:
            system.create_dir(path.rpartition("/")[0], recursive=True)
        try:
            with system.open_output_stream(draft, compression=None) as sink:
                for piece in pieces:
                    sink.write(piece)
        except BaseException:  # Closing the stream made an object of the bytes written so far.
            self._remove(draft)
            raise
        if not is_whole:
            system.move(draft, path)

    def get(self, name: str) -> Iterator[bytes]:
        with self.opened(name) as source:
            begins = range(0, source.size(), PIECE_SIZE)
            if len(begins) < 2:
                yield from filter(None, [source.read()])
                return
            with ThreadPoolExecutor(READ_AHEAD) as pool:
                ahead = deque[Future[bytes]]()
                try:
                    for begin in begins:
                        ahead.append(pool.submit(source.read_at, PIECE_SIZE, begin))
                        if len(ahead) == READ_AHEAD:
                            yield ahead.popleft().result()
                    while ahead:
                        yield ahead.popleft().result()
                finally:  # The caller may stop, and a request may fail.
                    for request in ahead:
                        request.cancel()

    def opened(self, name: str) -> Any:
        return self._file_system.open_input_file(f"{self._root}/{name}")

    def names(self, prefix: str) -> list[str]:
        from pyarrow import fs

        place = f"{self._root}/{prefix}".rstrip("/")
        found = self._file_system.get_file_info(fs.FileSelector(place, allow_not_found=True))
        return sorted(one.base_name for one in found if not one.base_name.endswith(_DRAFT))

    def delete(self, name: str) -> None:
        from pyarrow import fs

        path = f"{self._root}/{name}"
        if self._file_system.get_file_info(path).type == fs.FileType.Directory:
            self._file_system.delete_dir(path)
        else:
            self._remove(path)

    def _remove(self, path: str) -> None:
        try:
            self._file_system.delete_file(path)
        except FileNotFoundError:
            return
