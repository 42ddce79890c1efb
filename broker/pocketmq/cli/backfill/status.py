"""`pocketmq backfill status`, and the progress of a run while it runs.

The latter draws bars on a terminal, elsewhere it prints a line for each phase.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from pocketmq.cli.options import PATH, examples, form_option
from pocketmq.cli.output import Exit, Failure, Output, amount, progress, talk

if TYPE_CHECKING:
    from pocketmq.backfill.progress import Progress

LOOK_SECONDS: Final = 0.5
ENTRY_BYTES: Final = 20


@click.command(epilog=examples("pocketmq backfill status ./views"))
@click.argument("views", metavar="DIR2", type=PATH)
@form_option
def status(out: Output, views: Path) -> None:
    """Show the progress of a run, also while it runs or after it was killed.

    Phases: planned, reading (units and spooled entries), indexing, complete.
    """
    from pocketmq.backfill.progress import ProgressReader

    found = ProgressReader(views).look()
    if found is None:
        text = f"no run was ever begun in {views}"
        raise Failure(text, Exit.NOT_FOUND, f"pocketmq backfill run DIR --out {views}")
    out.show({"out": str(views), **asdict(found), "phase": found.phase.value})


@contextmanager
def following(out: Path) -> Iterator[None]:
    """Tells how far the run in a directory is, for as long as this is open."""
    from pocketmq.backfill.progress import ProgressReader

    is_over = Event()
    look = ProgressReader(out).look
    thread = Thread(target=follow, args=(look, lambda: is_over.wait(LOOK_SECONDS)), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def follow(look: "Callable[[], Progress | None]", wait: Callable[[], bool]) -> None:
    """Reports news at each look, until `wait` reports that the run is over."""
    label, done_bytes = "", 0
    advance: Callable[[int], None] = lambda byte_count: None  # noqa: E731 - before the first bar
    with ExitStack() as drawn:
        while not wait():
            found = look()
            bar = _bar_of(found) if found is not None and found.is_running else None
            if bar is None:
                continue
            if bar.label != label:
                drawn.close()
                label, done_bytes = bar.label, 0
                if not sys.stderr.isatty():
                    talk(bar.line)
                advance = drawn.enter_context(progress(label, bar.total_bytes))
            advance(bar.done_bytes - done_bytes)
            done_bytes = bar.done_bytes


class _Bar(NamedTuple):
    """A bar; off a terminal `line` is printed instead."""

    label: str
    total_bytes: int
    done_bytes: int
    line: str


def _bar_of(found: "Progress") -> _Bar | None:
    """Returns the bar of a phase, None for a phase without one."""
    if found.phase.value in ("planned", "reading"):
        line = f"Reading {amount(found.log_bytes)} of log in {found.range_count} ranges"
        return _Bar("Reading", found.log_bytes, found.bytes_finished, line)
    if found.phase.value == "indexing":
        line = f"Indexing {found.entries} entries of {found.records} records"
        total, done = found.entries * ENTRY_BYTES, found.indexed * ENTRY_BYTES
        return _Bar("Indexing", total, done, line)
    return None
