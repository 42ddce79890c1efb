"""Which files of a store a backup copies, and in which order.

before the log    checkpoint, tables that hold positions in it
the log
after it          tables that the log needs, and everything else
left out          queues and index unless asked for; of a running store all that changes in place
never             lock, abort mark, drafts, the reserve for a full disk
"""

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

from broker.files.table_file import DRAFT_SUFFIX
from broker.format.names import (
    ABORT_FILE,
    BACKUP_SUFFIX,
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    GROUPS_FILE,
    INDEX_DIRECTORY,
    LOCK_FILE,
    OWN_DIRECTORY,
    RESERVE_FILE,
    TOPICS_FILE,
)
from broker.log.flushed_mark import MARK_FILE
from broker.log.queue_ends import QUEUE_ENDS_FILE
from broker.log.store_manifest import MANIFEST_FILE
from broker.tools.install import REPLACED_DIRECTORY
from broker.tools.verify.tables import TABLE_SUFFIX

VIEWS: Final = (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY)
"""What can be built again from the log."""
DEFINITIONS: Final = frozenset({TOPICS_FILE, GROUPS_FILE, "topicQueueMapping.json"})
"""Tables that the log needs; the others hold positions in it, or nothing that must agree."""
_REPLACED: Final = f"{OWN_DIRECTORY}/{REPLACED_DIRECTORY}/"
_MANIFEST: Final = f"{OWN_DIRECTORY}/{MANIFEST_FILE}"
_RESERVE: Final = f"{OWN_DIRECTORY}/{RESERVE_FILE}"
_QUEUE_ENDS: Final = f"{OWN_DIRECTORY}/{QUEUE_ENDS_FILE}"
_MARK: Final = f"{OWN_DIRECTORY}/{MARK_FILE}"
"""The manifest says the same of a running store; a restore writes it anew."""


class Turn(Enum):
    """When a file is copied."""

    EARLY = "before the log"
    LOG = "with the log"
    LATE = "after the log"
    LEFT_OUT = "left out"
    NEVER = "never"


def walk(directory: Path) -> Iterator[str]:
    """Yield the path of every file of a store; directories may be links to another disk."""
    for place, names, files in os.walk(directory, followlinks=True):
        names.sort()
        for name in sorted(files):
            path = Path(place, name)
            if path.is_file():
                yield path.relative_to(directory).as_posix()


def turn_of(relative: str, *, running: bool, with_views: bool) -> Turn:
    """Return when the file of this path in a store is copied."""
    top, _, rest = relative.partition("/")
    name = rest.removesuffix(BACKUP_SUFFIX)
    if relative in (LOCK_FILE, ABORT_FILE, _RESERVE) or relative.endswith(DRAFT_SUFFIX):
        return Turn.NEVER
    if running and relative == _MARK:
        return Turn.NEVER
    if relative.removesuffix(BACKUP_SUFFIX) == _QUEUE_ENDS and (running or not with_views):
        return Turn.NEVER
    if top == COMMIT_LOG_DIRECTORY:
        return Turn.LOG
    if (top in VIEWS and not with_views) or relative.startswith(_REPLACED):
        return Turn.LEFT_OUT
    if relative == CHECKPOINT_FILE:
        return Turn.EARLY
    if top == CONFIG_DIRECTORY:
        if running and not name.endswith(TABLE_SUFFIX):
            return Turn.LEFT_OUT
        return Turn.LATE if name in DEFINITIONS else Turn.EARLY
    return Turn.LEFT_OUT if running and relative != _MANIFEST else Turn.LATE


def shown_left_out(relative: str) -> str:
    """Return what stands for a file that is left out: its directory, unless tables lie there."""
    relative = os.fsencode(relative).decode("utf-8", "replace")
    top, _, rest = relative.partition("/")
    if top == OWN_DIRECTORY:
        return f"{top}/{rest.partition('/')[0]}"
    return relative if top == CONFIG_DIRECTORY else top
