"""A progress bar on standard error, on a terminal only.

Reading  [######################--------------]   61%  00:00:02  1.6 GB  640 MB/s

It is not drawn where a terminal cannot redraw a line (TERM=dumb) or asks for plain text (NO_COLOR),
and a terminal that goes away ends the drawing, not the work.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final, TextIO

import click

REDRAW_SECONDS: Final = 0.1
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


@contextmanager
def progress(
    label: str, total_bytes: int, *, clock: Callable[[], float] = monotonic
) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many more bytes are done.

    Units    clock: seconds
    Cost     0.1 µs a call, and a line on the terminal at most every REDRAW_SECONDS
    """
    if total_bytes <= 0 or not _can_redraw(sys.stderr):
        yield lambda byte_count: None
        return
    begun = clock()
    done, held, drawn = 0, 0, begun

    def rate(_: int | None) -> str:
        seconds = max(clock() - begun, 1e-3)
        return f"{amount(done)}  {amount(int(done / seconds))}/s"

    bar = click.progressbar(
        length=total_bytes, label=label, file=sys.stderr, show_eta=True, item_show_func=rate
    )

    def advance(byte_count: int) -> None:
        nonlocal done, held, drawn
        done, held = done + byte_count, held + byte_count
        if clock() - drawn >= REDRAW_SECONDS:
            _draw(lambda: bar.update(held, done))
            held, drawn = 0, clock()

    try:
        _draw(bar.render_progress)
        yield advance
        _draw(lambda: bar.update(held, done))
    finally:
        _draw(bar.render_finish)  # Shows the cursor again, and ends the line.


def amount(byte_count: int) -> str:
    """Return a number of bytes for people: 1.6 GB."""
    size = float(byte_count)
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def _can_redraw(stream: TextIO | None) -> bool:
    """Return whether a line can be drawn over; a process may have no standard error at all."""
    if stream is None or stream.closed or not stream.isatty():
        return False
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _draw(step: Callable[[], None]) -> None:
    with suppress(OSError):
        step()
