"""Linux system calls that Python lacks, with fallbacks for other systems.

sync_file_system     syncfs           fallback: syncs everything
exchange_names       renameat2        fallback: returns False
"""

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

AT_FDCWD: Final = -100
RENAME_EXCHANGE: Final = 2


def sync_file_system(descriptor: int) -> None:
    """Makes everything on a descriptor's file system durable; blocks.

    Errors   OSError
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        os.sync()
    elif call(descriptor) != 0:
        raise _last_error()


def exchange_names(one: Path | str, other: Path | str) -> bool:
    """Exchanges the names of two directories or files atomically; False if this is unsupported.

    Errors   OSError
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    error = _last_error()
    if error.errno in (errno.EINVAL, errno.ENOSYS):
        return False
    raise error


def _last_error() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))
