"""Maps errors of the operating system to errors of the store.

    with FullDisk(path): …     no space → DiskFull, other errors → AllocationFailed; NotAPlainFile
                               and FileExistsError pass unchanged
    with ReadErrors(path): …   → ReadFailed; FileNotFoundError and NotADirectoryError pass unchanged

ARCHITECTURE.md ("Errors of the disk") lists which call raises which error. A loss is a failed sync,
write or close: bytes that callers count as written may be missing. The kernel reports it only once.
So `Trouble` keeps the first loss, and every later write, sync, rename or removal raises it again.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, TypeVar

from pocketmq.model.errors import AllocationFailed, DiskFull, ReadFailed, StoreFailed

Result = TypeVar("Result")
Lost = Callable[[StoreFailed], object]
Full = Callable[[DiskFull], AbstractContextManager[bool]]

FULL_DISK_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def path_of(descriptor: int) -> str:
    """Returns the path of an open file for error messages."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}")
    return f"descriptor {descriptor}"


def forget(descriptor: int, path: Path | str) -> None:
    """Closes and removes a useless file; ignores errors, as the caller raises an earlier one."""
    with contextlib.suppress(OSError):
        os.close(descriptor)
    with contextlib.suppress(OSError):
        os.unlink(path)


class _AtPath:
    __slots__ = ("_path",)

    def __init__(self, path: Path | str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None


class ReadErrors(_AtPath):
    """Turns a failed read into ReadFailed; a missing file or directory passes unchanged."""

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OSError) or isinstance(error, ReadFailed):
            return
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise ReadFailed(path=str(self._path), why=str(error.strerror)) from error


class FullDisk(_AtPath):
    """Turns "no space" into DiskFull and most other failures into AllocationFailed."""

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OSError) or isinstance(error, FileExistsError | ReadFailed):
            return
        if error.errno in FULL_DISK_ERRORS:
            raise DiskFull(path=str(self._path)) from error
        raise AllocationFailed(why=f"{self._path}: {error.strerror}") from error


class Trouble:
    """The first loss of written bytes, and the callbacks for losses and for lack of space."""

    __slots__ = ("_full", "_lost", "failure")

    def __init__(self) -> None:
        self.failure: StoreFailed | None = None
        """The first loss of written bytes; None if there was none."""
        self._lost: Lost = lambda error: None
        self._full: Full = lambda full: contextlib.nullcontext(False)

    @contextlib.contextmanager
    def reporting(self, *, lost: Lost | None = None, full: Full | None = None) -> Iterator[None]:
        """Calls these functions on a loss or a full disk while the block lasts.

        lost   called once, with the first loss, in the thread that detected it
        full   called when there is no space; returns a context that yields whether to try once
               more. The second try is made inside the context
        """
        before = self._lost, self._full
        now = self._lost, self._full = lost or self._lost, full or self._full
        try:
            yield
            assert (self._lost, self._full) == now, "nested blocks end out of order"
        finally:  # After a kill simulated by tests, the blocks of a dropped store end in any order.
            self._lost, self._full = before

    def check(self) -> None:
        """Raises a copy of the first loss, if there was one.

        One error object raised in several places would become its own context.
        """
        if self.failure is not None:
            raise type(self.failure)(why=self.failure.why)

    def lose(self, error: StoreFailed) -> StoreFailed:
        """Records a loss, which is final; returns the error to raise: the first loss."""
        if self.failure is None:
            self.failure = error
            self._lost(error)
            return error
        return type(self.failure)(why=self.failure.why)

    def with_room(self, work: Callable[[], Result]) -> Result:
        """Runs work that needs space; runs it once more if the callback `full` made space."""
        self.check()
        try:
            return work()
        except DiskFull as full:
            with self._full(full) as is_due:
                if not is_due:
                    raise
                return work()


def close_all(closes: Iterable[Callable[[], object]]) -> None:
    """Calls all functions in order, even if some raise.

    Errors   the first error, after all calls
    """
    failure: Exception | None = None
    for close in closes:
        try:
            close()
        except Exception as error:  # noqa: BLE001 - raised when all are closed
            failure = failure or error
    if failure is not None:
        raise failure
