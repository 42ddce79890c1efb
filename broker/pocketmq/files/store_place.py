"""Checks that a broker can use or create a store directory, before anything is opened."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from pocketmq.model.errors import IllegalConfig

FIELD: Final = "store.directory"


def check_place(directory: Path) -> None:
    """Raises unless this process may use the directory, or create it.

    Errors   IllegalConfig: it is below a file, not writable, or cannot be created
    """
    place = directory.absolute()
    nearest = next(path for path in (place, *place.parents) if os.path.lexists(path))
    if not os.path.isdir(nearest):
        why = f"{nearest} is not a directory; name a directory, it is created if it is missing"
        raise IllegalConfig(field=FIELD, why=why)
    if not os.access(nearest, os.W_OK | os.X_OK):
        owner, user = os.stat(nearest).st_uid, os.geteuid()
        why = (
            f"{nearest} of user id {owner} is not writable for user id {user}; run the broker as "
            "its owner, or name another directory"
        )
        raise IllegalConfig(field=FIELD, why=why)
    _try_to_create(place)


def _try_to_create(place: Path) -> None:
    """Creates the missing directories and removes them again: an address in use leaves nothing."""
    made: list[Path] = []
    try:
        for path in reversed((place, *place.parents)):
            if not os.path.lexists(path):
                os.mkdir(path)
                made.append(path)
    except FileExistsError:
        pass  # Another process creates the directory at this moment.
    except OSError as error:
        why = f"{place} cannot be created: {error.strerror}; name another directory"
        raise IllegalConfig(field=FIELD, why=why) from error
    finally:
        for path in reversed(made):
            with suppress(OSError):  # Another process uses it.
                os.rmdir(path)
