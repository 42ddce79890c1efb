"""Garbage collection of a command: rare, as nearly all its objects live until its end."""

import gc
from typing import Final

USUAL: Final = gc.get_threshold()
COLLECT_AT: Final = 50_000
"""New objects before a collection; the imports of a command make fewer."""


def collect_rarely() -> None:
    """Makes collections rare; saves a third of the CPU time of a short command."""
    gc.set_threshold(COLLECT_AT, *USUAL[1:])


def collect_as_usual() -> None:
    """Restores Python's thresholds, for a process that runs on."""
    gc.set_threshold(*USUAL)


def end_without_collection() -> None:
    """Spares the process its last collections, which would visit all objects of all modules."""
    gc.freeze()
