"""`pocketmq backfill verify`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pocketmq.cli.backfill.spark import Spark, takes_spark
from pocketmq.cli.options import (
    DIRECTORY,
    PATH,
    examples,
    form_option,
    read_only_option,
    set_option,
)
from pocketmq.cli.output import Document, Exit, Failure, Output, columns, progress, talk, typed
from pocketmq.cli.store.access import Given, log_bytes

if TYPE_CHECKING:
    from pocketmq.cli.store.access import OpenedStore
    from pocketmq.tools.verify.verification import Verification

COLUMNS: Final = columns("kind", "file", "offset", "expected", "found")


@click.command(
    epilog=examples(
        "pocketmq backfill verify ./views",
        "pocketmq backfill verify ./views --store ./store",
        "pocketmq backfill verify ./views --against ./store",
    )
)
@click.argument("views", metavar="DIR2", type=PATH)
@click.option(
    "--store", metavar="DIR", type=DIRECTORY, help="Check the views against this store's log."
)
@click.option(
    "--against", metavar="DIR3", type=DIRECTORY,
    help="Compare byte by byte with the views in this directory; index files pair by order.",
)  # fmt: skip
@takes_spark("none; this process reads all files")
@read_only_option
@set_option
@form_option
def verify(
    out: Output,
    views: Path,
    store: Path | None,
    against: Path | None,
    spark: Spark,
    read_only: bool,
    assignments: tuple[str, ...],
) -> None:
    """Check the output of `backfill run`: every file against the manifest's sha256.

    With --store, every unit and index entry is also checked against the log, in both directions.
    The exit code is 10 if there are findings.
    """
    from pocketmq.backfill.checks import check_files, compare_views

    built_manifest(views)
    with spark.mapper_if_named() as mapper:
        findings = check_files(views, mapper)
        if against is not None:
            findings += compare_views(views, against, mapper)
    found = None
    if store is not None:
        opened = Given(store, read_only, assignments).opened(with_index=False)
        found = check_against_log(views, store, opened)
        findings += found.findings
    out.table((finding.document for finding in findings), COLUMNS)
    count = len(findings)
    if found is not None:
        talk(f"Checked {found.units} units and {found.entries} entries of {found.records} records")
        count += sum(found.counts.values()) - len(found.findings)
    if count:
        text = f"findings: {count}"
        raise Failure(text, Exit.DAMAGED, "build the views again: pocketmq backfill run")


def built_manifest(out: Path) -> Document:
    """Returns the manifest of a finished run.

    Errors   Failure: no run is finished
    """
    from pocketmq.backfill.job import manifest

    found = manifest(out)
    if not found:
        text = f"no run has been finished in {out}: there is no rebuild/manifest.json"
        raise Failure(text, Exit.NOT_FOUND, f"pocketmq backfill status {typed(out)}")
    return found


def check_against_log(views: Path, store: Path, opened: "OpenedStore") -> "Verification":
    """Checks views against a store's log as `store verify --views` does, with the run's sizes."""
    from pocketmq.rebuild.staging import build_settings
    from pocketmq.tools.verify.verification import VerifyOptions
    from pocketmq.tools.verify.verification import verify as verify_store

    upto, settings = build_settings(views)
    sizes = replace(
        opened.sizes,
        consume_queue_file_size_bytes=settings.consume_queue_file_size_bytes,
        index_slot_count=settings.geometry.slot_count,
        index_entry_count_max=settings.geometry.entry_count_max,
        index_style=settings.index_style,
        older_styles=settings.older_styles,
        time_zone=settings.time_zone,
        delay_levels=settings.delay_levels,
    )
    options = VerifyOptions(views=views, upto=upto)
    with progress("Verifying", log_bytes(store)) as advance:
        return verify_store(opened.disk, store, sizes, options, advance)
