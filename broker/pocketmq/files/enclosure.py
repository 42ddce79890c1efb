"""Resolves paths below a store directory without links; only regular files are opened.

    enclosure.add(store)                  once for each store directory
    with enclosure.place(path) as place:  the same file by a path that links cannot redirect

Each directory between the store and the file is opened relative to its parent (O_NOFOLLOW), so a
link that is created at the same time is refused. Two links are followed, as operators create them:
the store directory itself, and `commitlog` in it if root or the broker's user owns the link. FIFOs,
sockets and devices are refused; the open does not wait for a peer.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.model.errors import NotAPlainFile

DIRECTORY_MODE: Final = 0o750
FILE_MODE: Final = 0o640
PRIVATE_MODE: Final = 0o600
PLAIN_ONLY: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags of every open of a file: it follows no link, and does not wait for a FIFO's peer."""
_O_PATH: Final = getattr(os, "O_PATH", os.O_RDONLY)
_ENTER: Final = os.O_DIRECTORY | os.O_CLOEXEC | _O_PATH
_DESCRIPTORS: Final = "/proc/self/fd"
_HAS_DESCRIPTORS: Final = os.path.isdir(_DESCRIPTORS)
_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
)


def kind_of(mode: int) -> str:
    """Returns the name of a file's kind; "" for a regular file."""
    if stat.S_ISREG(mode):
        return ""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "a device")


def check_kind(error: OSError, place: str, path: Path | str) -> None:
    """Raises NotAPlainFile if an open failed because the file is not regular."""
    kind = ""
    if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
        with suppress(OSError):
            kind = kind_of(os.stat(place, follow_symlinks=False).st_mode)
    if kind:
        raise NotAPlainFile(path=str(path), why=f"it is {kind}") from error


def check_plain(descriptor: int, path: Path | str) -> int:
    """Returns the descriptor if it is that of a regular file; else closes it and raises.

    Errors   NotAPlainFile, OSError
    """
    try:
        kind = kind_of(os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    if kind:
        os.close(descriptor)
        raise NotAPlainFile(path=str(path), why=f"it is {kind}")
    return descriptor


class Enclosure:
    """The store directories of a disk."""

    __slots__ = ("_roots",)

    def __init__(self) -> None:
        self._roots: tuple[str, ...] = ()

    def add(self, root: Path) -> None:
        """Makes all paths below a directory resolve without links."""
        assert str(root), "root is empty"
        new = (f"{root}/", f"{os.path.abspath(root)}/")
        self._roots = tuple(dict.fromkeys((*self._roots, *new)))

    def place(self, path: Path | str) -> "EnclosedPath":
        """Returns a context that yields a path of the same file, for calls of the system.

        Links cannot redirect it if it is below a store directory and the system has /proc.
        """
        text = os.fspath(path)
        for root in self._roots:
            if text.startswith(root):
                return EnclosedPath(root, text)
        return EnclosedPath("", text)


class EnclosedPath:
    """Holds the parent directory of a path open while a `with` block uses the file.

    Errors   NotAPlainFile: a parent directory is a link; FileNotFoundError, NotADirectoryError
    Cost     some 3 µs for two directories
    """

    __slots__ = ("_descriptor", "_path", "_root")

    @property
    def is_enclosed(self) -> bool:
        """Whether the path is below a store directory."""
        return bool(self._root)

    def is_followed(self, found: os.stat_result) -> bool:
        """Returns whether the path is the link `commitlog` of a store, and its owner is trusted."""
        is_log = self._path[len(self._root) :] == COMMIT_LOG_DIRECTORY
        return is_log and stat.S_ISLNK(found.st_mode) and is_operators(found.st_uid)

    def __init__(self, root: str, path: str) -> None:
        self._root = root
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> str:
        if not self._root:
            return self._path
        *above, name = self._path[len(self._root) :].split("/")
        self._descriptor = os.open(self._root, _ENTER)
        try:
            for number in range(len(above)):
                self._step(above[: number + 1])
        except BaseException:
            self._leave()
            raise
        return f"{_DESCRIPTORS}/{self._descriptor}/{name}" if _HAS_DESCRIPTORS else self._path

    def _step(self, parts: list[str]) -> None:
        """Enters the last one of these directories; the others are entered already."""
        try:
            below = os.open(parts[-1], _ENTER | os.O_NOFOLLOW, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            below = self._linked(parts, error)
        above, self._descriptor = self._descriptor, below
        os.close(above)

    def _linked(self, parts: list[str], error: OSError) -> int:
        found = os.stat(parts[-1], dir_fd=self._descriptor, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):
            raise error
        if parts == [COMMIT_LOG_DIRECTORY] and is_operators(found.st_uid):
            return os.open(COMMIT_LOG_DIRECTORY, _ENTER, dir_fd=self._descriptor)
        raise NotAPlainFile(path=self._root + "/".join(parts), why="it is a symbolic link")

    def _leave(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            assert self._root, "a descriptor is open for a path outside"
            os.close(descriptor)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._leave()


def is_operators(user_id: int) -> bool:
    """Returns whether root or the broker's user owns a file."""
    return user_id in (0, os.geteuid())


def check_tree(directory: Path, names: Iterable[str]) -> None:
    """Raises if one of these entries, or an entry below it, is no regular file and no directory.

    Errors   NotAPlainFile. Directories that cannot be listed are skipped: later reads of them fail
    Cost     some 15 µs for each directory
    """
    for name in names:
        path = directory / name
        for odd, kind in _odd_entries(path, is_log=name == COMMIT_LOG_DIRECTORY):
            raise NotAPlainFile(path=odd, why=f"it is {kind}")


def _odd_entries(path: Path, *, is_log: bool) -> Iterator[tuple[str, str]]:
    try:
        found = path.lstat()
    except OSError:
        return
    is_followed = is_log and stat.S_ISLNK(found.st_mode) and is_operators(found.st_uid)
    if not is_followed and not stat.S_ISDIR(found.st_mode):
        if kind := kind_of(found.st_mode):
            yield str(path), kind
        return
    waiting = [str(path)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                yield entry.path, kind_of(entry.stat(follow_symlinks=False).st_mode)
