"""`pocketmq store diff`: where two stores differ."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pocketmq.cli.options import PATH, examples, form_option, read_only_option, set_option
from pocketmq.cli.output import Exit, Failure, Output, columns, progress, talk_notes, typed
from pocketmq.cli.store.access import accessible, known_end, sizes_of, talk_damage

if TYPE_CHECKING:
    from pocketmq.tools.difference import Difference, Side
    from pocketmq.walk.log_walk import Hole

DIFFERENCE_COLUMNS: Final = columns(
    "part", "where", "what", "left", "right",
)  # fmt: skip


@click.command(
    epilog=examples(
        "pocketmq store diff ./store ./copy --messages",
        "pocketmq store diff ./store ./rebuilt --views",
    )
)
@click.argument("left", metavar="LEFT", type=PATH)
@click.argument("right", metavar="RIGHT", type=PATH)
@click.option(
    "--messages",
    "is_messages",
    is_flag=True,
    help="Compare messages, regardless of their physical offsets.",
)
@click.option("--files", "is_files", is_flag=True, help="Compare bytes of log, queues and index.")
@click.option("--views", "is_views", is_flag=True, help="Compare bytes of queues and index.")
@read_only_option
@set_option
@form_option
def diff(
    left: Path,
    right: Path,
    is_messages: bool,
    is_files: bool,
    is_views: bool,
    read_only: bool,
    assignments: tuple[str, ...],
    out: Output,
) -> None:
    """Print where two stores differ; the exit code is 1 if they do, 10 if one is damaged.

    By default messages and their physical offsets, tables, and the bytes of log, queues and index
    are compared; options select parts of this. The first difference of each queue and each file is
    shown. Index files are paired by their order; log files without records count as absent.
    """
    from pocketmq.tools.difference import (
        LOG_FILES,
        VIEW_FILES,
        file_differences,
        table_differences,
    )

    for directory in (left, right):
        accessible(directory, read_only=read_only)
    is_all = not (is_messages or is_files or is_views)
    parts: list[Iterable[Difference]] = []
    damages: list[Hole] = []
    if is_all or is_messages:
        parts.append(_unlike_messages(left, right, assignments, is_messages, damages))
    if is_all:
        parts.append(table_differences(left, right))
    if is_all or is_files:
        parts.append(file_differences(left, right, LOG_FILES))
    if is_all or is_files or is_views:
        parts.append(file_differences(left, right, VIEW_FILES))
    if is_all or is_files or is_views:
        talk_notes(_notes_on_views(left, right))
    count = 0
    with out.rows(DIFFERENCE_COLUMNS) as rows:
        for count, difference in enumerate(chain(*parts), 1):  # noqa: B007 - the number is printed
            rows.add(difference._asdict())
    talk_damage(damages)
    if damages:
        stores = sorted({str(Path(hole.path).parents[1]) for hole in damages})
        step = "; ".join(f"pocketmq store verify {typed(store)}" for store in stores)
        raise Failure("a log is damaged: its messages there are unknown", Exit.DAMAGED, step)
    if count:
        raise Failure(f"the stores differ; differences shown: {count}", Exit.FAILED)


def _notes_on_views(left: Path, right: Path) -> Iterator[str]:
    """Yields a note if only one of the stores has queues and an index."""
    from pocketmq.tools.difference import VIEW_FILES

    has_views = [any((one / name).is_dir() for name in VIEW_FILES) for one in (left, right)]
    if any(has_views) and not all(has_views):
        yield (
            f"{(left, right)[has_views.index(False)]} has no queues and no index: a copy made "
            "without --with-views has none until a start or `store rebuild` builds them"
        )


def _unlike_messages(
    left: Path,
    right: Path,
    assignments: Sequence[str],
    anywhere: bool,
    damages: "list[Hole]",
) -> "Iterator[Difference]":
    """Yields differences of messages; adds damaged parts of logs to `damages`."""
    from pocketmq.tools.difference import MessageComparison

    one, other = (_side(directory, assignments) for directory in (left, right))
    total = sum(file.size for side in (one, other) for file in side.files)
    with progress("Comparing", total) as advance:
        comparison = MessageComparison(one, other, anywhere=anywhere, advance=advance)
        yield from comparison
        damages += comparison.damages


def _side(directory: Path, assignments: Sequence[str]) -> "Side":
    """Returns a store's log; if the store is in use, only the part below its flushed offset."""
    from pocketmq.files.disk import Disk
    from pocketmq.rebuild.log_files import find_readable_files
    from pocketmq.tools.difference import Side

    disk = Disk()
    sizes = sizes_of(disk, directory, assignments, with_index=False)
    files, gaps = find_readable_files(directory, sizes.commit_log_file_size_bytes)
    upto = known_end(disk, directory, "compared", otherwise=lambda: 0, name=str(directory))
    return Side(files, gaps=gaps) if upto is None else Side(files, upto, gaps)
