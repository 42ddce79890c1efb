"""`pocketmq backfill plan` and `run`."""

import os
from typing import TYPE_CHECKING, Final

import click

from pocketmq.cli.backfill.options import (
    BuildOptions,
    open_job,
    takes_build_options,
)
from pocketmq.cli.backfill.spark import Spark, takes_spark
from pocketmq.cli.backfill.status import following
from pocketmq.cli.options import examples, form_option
from pocketmq.cli.output import Document, Output, amount, talk

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
    last line compares `store rebuild` with a run of so many workers (--partitions).
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
    """Returns the command that builds the views sooner."""
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
            f"{amount(needed.index_bytes)}, for the time of the run "
            f"{amount(needed.scratch_bytes)}); {amount(found.free_bytes)} are free"
        ),
    }


def _say_what_follows(found: "Outlook") -> None:
    if found.is_complete:
        talk("All of it is built already; a run would do nothing")
    if found.is_cleared:
        talk("Other settings, or another log: what an earlier run built would be removed")
    if found.needed.total_bytes > found.free_bytes:
        talk("Note: that may be more than there is room for")


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

    Everything is written below DIR2; at the end rebuild/manifest.json lists every file with its
    sha256. Called again, it continues after the finished parts. Damage in the log with sound
    records behind it ends the run with exit code 10, unless it is accepted.
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
        talk(f"Note: behind the last record, at {built['end']}: {built['tail']['reason']}")
    for hole in built["holes"][:HOLES_TOLD]:
        talk(f"Damage: {hole['path']} at {hole['begin']}: {hole['reason']}")
