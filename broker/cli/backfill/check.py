"""`pocketmq backfill verify` and `status`."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker.cli.backfill.options import master_option, spark_or_here
from broker.cli.documents import Document
from broker.cli.failures import EXIT_DAMAGED, EXIT_NOT_FOUND, Failure
from broker.cli.options import output_option, read_only_option, set_option
from broker.cli.output import Rows, column, print_document, talk
from broker.cli.progress import progress
from broker.cli.settings import sizes_of
from broker.cli.store.access import accessible

if TYPE_CHECKING:
    from broker.files.disk import Disk
    from broker.model.finding import Finding
    from broker.tools.store_access import Sizes
    from broker.tools.verify.verification import Verification

COLUMNS: Final = {
    "KIND": column("kind"),
    "FILE": column("file"),
    "BYTE": column("offset"),
    "EXPECTED": column("expected"),
    "FOUND": column("found"),
}
_DIRECTORY = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command(
    epilog="""\b
Examples:
  pocketmq backfill verify ./views
  pocketmq backfill verify ./views --store ./store
  pocketmq backfill verify ./views --against ./store
"""
)
@click.argument("out", metavar="DIR2", type=click.Path(path_type=Path))
@click.option(
    "--store", metavar="DIR", type=_DIRECTORY, help="Check the views against this store's log."
)
@click.option(
    "--against", metavar="DIR3", type=_DIRECTORY,
    help="Compare byte by byte with the views in this directory, index files by their order.",
)  # fmt: skip
@master_option("none; this process reads all files")
@read_only_option
@set_option
@output_option
def verify(
    out: Path,
    store: Path | None,
    against: Path | None,
    master: str,
    settings: tuple[tuple[str, str], ...],
    read_only: bool,
    assignments: tuple[str, ...],
    output_format: str | None,
) -> None:
    """Check what `backfill run` built: every file against the manifest's sha256.

    With --store also every unit and index entry against the log, in both directions. The exit code
    is 10 when something was found.
    """
    from broker.backfill.checks import check_files, compare_views

    built_manifest(out)
    findings: list[Finding] = []
    found: Verification | None = None
    with spark_or_here(master, settings) as (mapper, _):
        findings += check_files(out, mapper)
        if against is not None:
            findings += compare_views(out, against, mapper)
    if store is not None:
        disk = accessible(store, read_only=read_only)
        sizes = sizes_of(disk, store, assignments, with_index=False)
        found = check_against_log(out, store, disk, sizes)
        findings += found.findings
    _print(findings, output_format)
    count = len(findings)
    if found is not None:
        talk(f"Checked {found.units} units and {found.entries} entries of {found.records} records")
        count += sum(found.counts.values()) - len(found.findings)
    if count:
        text = f"places that are not as they must be: {count}"
        raise Failure(text, EXIT_DAMAGED, "build it again: pocketmq backfill run")


def built_manifest(out: Path) -> Document:
    """Return what a finished run wrote down.

    Errors   Failure: none was finished
    """
    from broker.backfill.job import manifest

    found = manifest(out)
    if not found:
        text = f"no run has been finished in {out}: there is no rebuild/manifest.json"
        raise Failure(text, EXIT_NOT_FOUND, f"pocketmq backfill status {out}")
    return found


def check_against_log(out: Path, store: Path, disk: "Disk", sizes: "Sizes") -> "Verification":
    """Check views against a store's log as `store verify --views` does, as they were built."""
    from broker.tools.verify.verification import VerifyOptions
    from broker.tools.verify.verification import verify as verify_store

    upto, sizes = _as_built(out, sizes)
    names = disk.names(store / "commitlog")
    with progress("Verifying", len(names) * sizes.commit_log_file_bytes) as tell:
        return verify_store(disk, store, sizes, VerifyOptions(views=out, upto=upto), tell)


def _as_built(out: Path, sizes: "Sizes") -> tuple[int, "Sizes"]:
    """Return what a run was told: up to where, and how the views look."""
    from broker.backfill.job import build_settings

    upto, settings = build_settings(out)
    return upto, sizes._replace(
        consume_queue_file_bytes=settings.consume_queue_file_bytes,
        geometry=settings.geometry,
        style=settings.style,
        time_zone=settings.time_zone,
        delay_levels=settings.delay_levels,
    )


def _print(findings: "Iterable[Finding]", output_format: str | None) -> None:
    with Rows(output_format, COLUMNS) as rows:
        for finding in findings:
            rows.add(finding._asdict())


@click.command(
    epilog="""\b
Example:
  pocketmq backfill status ./views
"""
)
@click.argument("out", metavar="DIR2", type=click.Path(path_type=Path))
@output_option
def status(out: Path, output_format: str | None) -> None:
    """Show how far a run is, also while it runs or after it was killed.

    Phases: planned, reading (units and spooled entries), indexing, complete.
    """
    from broker.backfill.progress import status as look

    found = look(out)
    if found is None:
        text = f"no run was ever begun in {out}"
        raise Failure(text, EXIT_NOT_FOUND, f"pocketmq backfill run DIR --out {out}")
    document: dict[str, Any] = {"out": str(out), **asdict(found), "phase": found.phase.value}
    print_document(document, output_format)
