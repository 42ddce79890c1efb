"""Tells how far a run is while it runs: bars on a terminal, else a line for each phase."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from broker.cli.output import talk
from broker.cli.progress import amount, progress

if TYPE_CHECKING:
    from broker.backfill.progress import Progress

LOOK_SECONDS: Final = 0.5
ENTRY_BYTES: Final = 20
READING: Final = "reading"
INDEXING: Final = "indexing"
_PHASES: Final = {"planned": READING, READING: READING, INDEXING: INDEXING}
"""What is told in which phase of a run; nothing in others."""


class Follower:
    """Tells what is new each time it looks; used in a `with`, which ends the last bar."""

    __slots__ = ("_bar", "_done", "_look", "_phase", "_tell")

    def __init__(self, look: "Callable[[], Progress | None]") -> None:
        self._look = look
        self._phase = ""
        self._bar = ExitStack()
        self._tell: Callable[[int], None] = _tell_nobody
        self._done = 0

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def step(self) -> None:
        """Look once."""
        found = self._look()
        phase = _PHASES.get(found.phase.value, "") if found is not None else ""
        if found is None or not phase or not found.is_running:
            return
        if phase != self._phase:
            self._begin(phase, found)
        done = found.bytes_finished if phase == READING else found.indexed * ENTRY_BYTES
        self._tell(done - self._done)
        self._done = done

    def _begin(self, phase: str, found: "Progress") -> None:
        self._bar.close()
        self._phase, self._done = phase, 0
        if phase == READING:
            label, total = "Reading", found.log_bytes
            line = f"Reading {amount(total)} of log in {found.range_count} ranges"
        else:
            label, total = "Indexing", found.entries * ENTRY_BYTES
            line = f"Indexing {found.entries} entries of {found.records} records"
        if not sys.stderr.isatty():
            talk(line)
        self._tell = self._bar.enter_context(progress(label, total))


def _tell_nobody(byte_count: int) -> None:
    """Take progress before the first phase."""


@contextmanager
def following(out: Path) -> Iterator[None]:
    """Tell how far the run in a directory is, for as long as this is open."""
    from broker.backfill.progress import ProgressReader

    is_over = Event()

    def follow() -> None:
        with Follower(ProgressReader(out).look) as follower:
            while not is_over.wait(LOOK_SECONDS):
                follower.step()

    thread = Thread(target=follow, name="follow-backfill", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
