"""What an error of the operating system is to the store: full, broken, or not to be read.

    with FullDisk(path): …     no space → DiskFull, anything else → AllocationFailed
    with Reading(path): …      → ReadFailed; that nothing is there passes as it is
Which call of the disk raises what stands in files/disk.py.
"""

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

from broker.model.errors import AllocationFailed, DiskFull, ReadFailed

FULL_DISK_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def path_of(descriptor: int) -> str:
    """Return the name an open file had when it was opened, as far as the system tells."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}")
    return f"descriptor {descriptor}"


def forget(descriptor: int, path: Path) -> None:
    """Close and remove a file that is of no use; what led here is the error worth telling."""
    with contextlib.suppress(OSError):
        os.close(descriptor)
    with contextlib.suppress(OSError):
        os.unlink(path)


class _AtPath:
    """What is done in a `with`, at a path that its errors name."""

    __slots__ = ("_path",)

    def __init__(self, path: Path | str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None


class Reading(_AtPath):
    """Turns a failure to look at a file into ReadFailed; that nothing is there passes as it is."""

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OSError) or isinstance(error, ReadFailed):
            return
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise ReadFailed(path=str(self._path), why=str(error.strerror)) from error


class FullDisk(_AtPath):
    """Turns "no space" into DiskFull and any other failure into AllocationFailed."""

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OSError) or isinstance(error, FileExistsError):
            return
        if error.errno in FULL_DISK_ERRORS:
            raise DiskFull(path=str(self._path)) from error
        raise AllocationFailed(why=f"{self._path}: {error.strerror}") from error
