"""`pocketmq backfill plan`, `run` and `status`."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from pocketmq.cli.backfill.spark import Spark, takes_spark
from pocketmq.cli.options import (
    PATH,
    SIZE,
    directory_argument,
    examples,
    form_option,
    read_only_option,
    set_option,
    takes,
)
from pocketmq.cli.output import Document, Exit, Failure, Output, amount, progress, talk, typed

# -- `pocketmq backfill status`, and the progress display of a run -----------------------------
if TYPE_CHECKING:
    from pocketmq.backfill.progress import Progress

LOOK_SECONDS: Final = 0.5
ENTRY_BYTES: Final = 20


@click.command(epilog=examples("pocketmq backfill status ./views"))
@click.argument("views", metavar="DIR2", type=PATH)
@form_option
def status(out: Output, views: Path) -> None:
    """Show the progress of a run that is running, finished or killed.

    Phases: planned, reading (units and spooled entries), indexing, complete.
    """
    from pocketmq.backfill.progress import ProgressReader

    found = ProgressReader(views).look()
    if found is None:
        text = f"no run was started in {views}"
        raise Failure(text, Exit.NOT_FOUND, f"pocketmq backfill run DIR --out {typed(views)}")
    out.show({"out": str(views), **asdict(found), "phase": found.phase.value})


@contextmanager
def following(out: Path) -> Iterator[None]:
    """Displays the progress of the run in a directory, while the `with` block runs."""
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
    """Displays progress at each poll, until `wait` reports the end of the run."""
    label, done_bytes = "", 0
    advance: Callable[[int], None] = lambda byte_count: None  # noqa: E731 - until the first bar
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
    """A progress bar; if standard error is no terminal, `line` is printed instead."""

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


# ----------------------------------------------------------------------------------------------
# -- options -----------------------------------------------------------------------------------
if TYPE_CHECKING:
    from pocketmq.rebuild.parallel import RebuildJob

COMPAT: Final = ("5.5", "5.3")
EXTENSION: Final = "consumequeue_ext"


class BuildOptions(NamedTuple):
    """Values of the options of `plan` and `run`; see their help."""

    directory: Path
    target: Path
    partitions: int | None
    piece_size: int
    check_crc: bool
    compat: str | None
    time_zone: str | None
    accept_damage: bool
    keep_spool: bool
    upto: int | None
    yes: bool
    read_only: bool
    assignments: tuple[str, ...]


takes_build_options: Final = takes(
    "options",
    BuildOptions,
    directory_argument,
    click.option(
        "--out", "target", metavar="DIR2", required=True, type=PATH,
        help="Output directory: missing, empty, or an earlier run's.",
    ),
    click.option(
        "--partitions", type=click.IntRange(1),
        help="Number of tasks [default: by files and processors].",
    ),
    click.option(
        "--piece-size", type=SIZE, default=0,
        help="Split log files at about this size [default: only if there are few files].",
    ),
    click.option("--check-crc", is_flag=True, help="Compare every body with its CRC."),
    click.option(
        "--compat", type=click.Choice(COMPAT),
        help="Index as this RocketMQ does; only 5.5 indexes tags [default: the store's style].",
    ),
    click.option(
        "--time-zone", metavar="ZONE", help="Zone of index file names [default: the store's]."
    ),
    click.option(
        "--accept-damage", is_flag=True,
        help="Continue after damage; pre-blank units replace lost ones.",
    ),
    click.option(
        "--keep-spool", is_flag=True,
        help="Keep 20 bytes a record and index entry; a later run then reads only new records.",
    ),
    click.option(
        "--upto", type=click.IntRange(0), help="Only records below this physical offset."
    ),
    click.option("--yes", is_flag=True, help="Build without the queues' extensions."),
    read_only_option,
    set_option,
)  # fmt: skip
"""Adds all options of a build, passed as `options`."""


def open_job(options: BuildOptions, workers: int) -> "RebuildJob":
    """Returns the job for these options.

    Errors   Failure: the store or the output directory cannot be used; NotAStore, StoreLocked,
             PlaceUnusable, WrongFileSize, StoreGap, IllegalConfig, UnknownGeometry
    """
    from pocketmq.backfill.job import new_job, objection
    from pocketmq.backfill.places import refuse_address
    from pocketmq.cli.store.access import accessible, known_end, sizes_of
    from pocketmq.format.names import zone_from_name
    from pocketmq.log.queue_places import expired_queues

    refuse_address(options.directory)
    refuse_address(options.target)
    disk = accessible(options.directory, read_only=options.read_only)
    why = objection(options.directory, options.target)
    if why:
        text = f"{options.target} cannot be written to: {why}"
        raise Failure(text, Exit.REFUSED, "name another directory: --out DIR2")
    assignments = options.assignments
    if options.compat is not None:
        assignments += (f"store.index_style={options.compat}",)
    if options.time_zone is not None:
        assignments += (f"store.time_zone={options.time_zone}",)
    sizes = sizes_of(disk, options.directory, assignments, with_index=True)
    if not sizes.consume_queue_extension:
        _refuse_extension(options)
    zone_from_name(sizes.time_zone)
    upto = options.upto
    if upto is None:
        upto = known_end(disk, options.directory, "read", unknown="all its records are read")
    return new_job(
        options.directory,
        options.target,
        replace(sizes, check_crc=options.check_crc),
        log_file_bytes=sizes.commit_log_file_size_bytes,
        upto=upto,
        workers=workers,
        piece_size=options.piece_size,
        accept_holes=options.accept_damage,
        keep_spool=options.keep_spool,
        expired=tuple(expired_queues(disk, options.directory)),
    )


def _refuse_extension(options: BuildOptions) -> None:
    extension = options.directory / EXTENSION
    if options.yes or not (extension.is_dir() and any(extension.iterdir())):
        return
    text = (
        f"the queues have extensions ({extension}), which the settings switch off: units would "
        "hold tags codes instead of RocketMQ's extension addresses, and filter bits would be lost"
    )
    raise Failure(text, Exit.REFUSED, "add --yes to build without extensions")


# ----------------------------------------------------------------------------------------------
if TYPE_CHECKING:
    from pocketmq.backfill.advice import Times
    from pocketmq.backfill.job import Outlook

HOLES_TOLD: Final = 20


@click.command(
    epilog=examples(
        "pocketmq backfill plan ./store --out ./views",
        "pocketmq backfill plan ./store --out ./views --piece-size 128MiB -o json",
    )
)
@takes_build_options
@form_option
def plan(out: Output, options: BuildOptions) -> None:
    """Show what `backfill run` would do: ranges of the log, disk needed, existing results.

    Nothing is written and Spark is not started. Numbers of records are estimates from samples. The
    last line compares `store rebuild` with a run of --partitions workers.
    """
    from pocketmq.backfill.advice import expected_times
    from pocketmq.backfill.job import outlook
    from pocketmq.rebuild.plan import map_here

    workers = options.partitions or os.cpu_count() or 1
    found = outlook(open_job(options, workers), map_here)
    needed = found.needed
    tasks = len(found.ranges) - len(found.reused)
    times = expected_times(needed.records, needed.entries, tasks=tasks, workers=workers)
    if out.form == "table":
        spent = (
            f"about {times.rebuild_seconds} s by store rebuild, {times.spark_seconds} s by Spark "
            f"with {workers} workers"
        )
        out.show({**_summary(options, found), "time": spent, "quicker": _quicker(options, times)})
    else:
        out.show(_outlook_document(options, found, times))
    _say_what_follows(found)


def _quicker(options: BuildOptions, times: "Times") -> str:
    """Returns the faster command."""
    command = "backfill run" if times.is_spark_quicker else "store rebuild"
    return f"pocketmq {command} {options.directory} --out {options.target}"


def _outlook_document(options: BuildOptions, found: "Outlook", times: "Times") -> Document:
    needed, reused = found.needed, {part.begin for part in found.reused}
    return {
        "store": str(options.directory),
        "out": str(options.target),
        "upto": found.upto,
        "ranges": [
            {
                "file": part.file.path,
                "begin": part.begin,
                "end": part.end,
                "bytes": part.end - part.begin,
                "reused": part.begin in reused,
            }
            for part in found.ranges
        ],
        "log_bytes": sum(part.end - part.begin for part in found.ranges),
        "reused_bytes": sum(part.end - part.begin for part in found.reused),
        "is_complete": found.is_complete,
        "is_cleared": found.is_cleared,
        "records": needed.records,
        "entries": needed.entries,
        "queues": needed.queues,
        "queue_bytes": needed.queue_bytes,
        "index_bytes": needed.index_bytes,
        "scratch_bytes": needed.scratch_bytes,
        "needed_bytes": needed.total_bytes,
        "free_bytes": found.free_bytes,
        "rebuild_seconds": times.rebuild_seconds,
        "spark_seconds": times.spark_seconds,
        "quicker": _quicker(options, times),
    }


def _summary(options: BuildOptions, found: "Outlook") -> Document:
    """Returns an outlook in a few lines."""
    needed = found.needed
    sizes = [part.end - part.begin for part in found.ranges]
    reused = sum(part.end - part.begin for part in found.reused)
    spread = f", {amount(min(sizes))} to {amount(max(sizes))} each" if sizes else ""
    return {
        "store": options.directory,
        "out": options.target,
        "upto": found.upto,
        "ranges": f"{len(sizes)}{spread}",
        "log": f"{amount(sum(sizes))}, of which read before: {amount(reused)}",
        "records": f"about {needed.records} in {needed.queues} queues or more",
        "entries": f"about {needed.entries}",
        "disk": (
            f"about {amount(needed.total_bytes)} (queues {amount(needed.queue_bytes)}, index "
            f"{amount(needed.index_bytes)}, temporary files "
            f"{amount(needed.scratch_bytes)}); {amount(found.free_bytes)} are free"
        ),
    }


def _say_what_follows(found: "Outlook") -> None:
    if found.is_complete:
        talk("All views are built already; a run would do nothing")
    if found.is_cleared:
        talk("The settings or the log differ from an earlier run: its results would be removed")
    if found.needed.total_bytes > found.free_bytes:
        talk("Note: this may be more than the free space")


@click.command(
    epilog=examples(
        "pocketmq backfill run ./store --out ./views",
        "pocketmq backfill run ./store --out ./views --master 'local[4]' --check-crc",
        "spark-submit --master spark://host:7077 broker/pocketmq/__main__.py "
        "backfill run /mnt/s --out /mnt/v",
    )
)
@takes_build_options
@takes_spark("local[*]; under spark-submit its own")
@form_option
def run(out: Output, options: BuildOptions, spark: Spark) -> None:
    """Build consume queues and index of a store from its log, with Spark.

    All output is below DIR2; rebuild/manifest.json is written last, and lists every file with its
    sha256. A run that is called again continues after its finished parts. Damage in the log before
    its last valid record ends the run with exit code 10, unless --accept-damage is given.
    """
    from pocketmq.backfill.job import run as run_job

    open_job(options, 1)  # Wrong options are reported before Spark starts.
    with spark.mapper(options.partitions) as (mapper, workers):
        job = open_job(options, workers)
        with following(job.out):
            built = run_job(job, mapper)
    out.show(_built_document(options, job.upto, built))
    _say_damage(built)


def _built_document(options: BuildOptions, upto: int, built: Document) -> Document:
    return {
        "out": str(options.target),
        "upto": upto,
        "begin": built["begin"],
        "end": built["end"],
        "records": built["record_count"],
        "queues": len(built["queues"]),
        "irregular_queues": len(built["irregular"]),
        "entries": built["entry_count"],
        "index_files": len(built["index_names"]),
        "files": len(built["files"]),
        "holes": len(built["holes"]),
    }


def _say_damage(built: Document) -> None:
    if built["tail"] is not None:
        talk(f"Note: after the last record, at {built['end']}: {built['tail']['reason']}")
    for hole in built["holes"][:HOLES_TOLD]:
        talk(f"Damage: {hole['path']} at {hole['begin']}: {hole['reason']}")
