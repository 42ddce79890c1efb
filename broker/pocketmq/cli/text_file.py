"""Replaces a text file in one step, so that no reader sees a part of it."""

import os
from pathlib import Path
from typing import Final

from pocketmq.cli.output import Exit, Failure

MODE: Final = 0o666
"""Permissions of a new file, less those that the user's umask removes."""


def replace_text(path: Path, text: str, mode: int = MODE) -> None:
    """Writes a file, and replaces an existing one.

    The contents are synced to the disk before the rename, and the directory after it.

    Errors   Failure: the file cannot be written; an existing file is unchanged, unless only the
             directory could not be synced
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise Failure(f"{path} cannot be written: {error.strerror}", Exit.FAILED) from error


def _sync_directory(directory: Path) -> None:
    """Makes the names in a directory durable."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
