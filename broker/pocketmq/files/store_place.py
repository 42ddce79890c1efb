"""Checks that a broker can use or create a store directory, before anything is opened."""

import os
from pathlib import Path
from typing import Final

from pocketmq.model.errors import IllegalConfig

FIELD: Final = "store.directory"


def check_place(directory: Path) -> None:
    """Raises unless this process may use the directory, or create it.

    Errors   IllegalConfig: it is below a file, or not writable
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
