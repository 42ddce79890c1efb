"""`pocketmq store verify`: everything in a store that is not as it must be."""

from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Final

import click

from broker.cli.documents import Document
from broker.cli.options import examples, form_option
from broker.cli.output import Exit, Failure, Output, column, progress, talk
from broker.cli.store.access import Given, given_options, known_end

if TYPE_CHECKING:
    from broker.tools.verify.verification import Verification

COLUMNS: Final = {
    "KIND": column("kind"),
    "FILE": column("file"),
    "BYTE": column("offset"),
    "EXPECTED": column("expected"),
    "FOUND": column("found"),
    "MENDABLE": column("repairable"),
}


@click.command(
    epilog=examples(
        "pocketmq store verify ./store",
        "pocketmq store verify ./store --views ./rebuilt -o json",
    )
)
@click.option(
    "--views",
    metavar="DIR2",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Check consumequeue/ and index/ of this directory against the store's log.",
)
@click.option("--log-only", is_flag=True, help="Leave queues, index and tables alone.")
@click.option("--no-crc", is_flag=True, help="Leave the CRCs of records alone: twice as fast.")
@click.option(
    "--sample", metavar="PERCENT", type=click.FloatRange(0, 100), default=100, show_default=True,
    help="Share of the log whose CRCs are compared, the same in every run.",
)  # fmt: skip
@click.option("--deep", is_flag=True, help="Decompress compressed bodies too.")
@click.option("--upto", type=click.IntRange(min=0), help="Look at records below this offset only.")
@click.option(
    "--max-findings", type=click.IntRange(min=1), default=1000, show_default=True,
    help="Findings shown; all are counted.",
)  # fmt: skip
@given_options
@form_option
def verify(
    given: Given,
    views: Path | None,
    log_only: bool,
    no_crc: bool,
    sample: float,
    deep: bool,
    upto: int | None,
    max_findings: int,
    out: Output,
) -> None:
    """Check every record, unit, index entry and table of a store; changes nothing.

    Records are checked against themselves and their CRCs, queues and index against the log in both
    directions. The exit code is 10 when something was found. A store in use is checked, with
    --read-only, up to what is known to be flushed.
    """
    from broker.model.message import OFFSET_MAX
    from broker.tools.verify.verification import VerifyOptions
    from broker.tools.verify.verification import verify as verify_store

    disk, sizes = given.opened(with_index=True)
    directory = given.directory
    if upto is None:
        upto = known_end(disk, directory, "looked at", unknown="its end may look torn")
    options = VerifyOptions(
        check_crc=not no_crc,
        crc_share=sample / 100,
        deep=deep,
        log_only=log_only,
        views=views,
        upto=OFFSET_MAX if upto is None else upto,
        findings_max=max_findings,
        now_ms=time_ns() // 1_000_000,
    )
    names = disk.names(directory / "commitlog")
    with progress("Verifying", len(names) * sizes.commit_log_file_size_bytes) as advance:
        found = verify_store(disk, directory, sizes, options, advance)
    _print(found, out)
    if found.counts:
        text = f"found: {_amounts(found.counts)}"
        next_step = f"pocketmq store repair {directory}, which shows what it would do"
        raise Failure(text, Exit.DAMAGED, next_step)


def _print(found: "Verification", out: Output) -> None:
    rows = [finding._asdict() for finding in found.findings]
    if out.form == "json":
        out.show({"summary": _summary(found), "findings": rows, "notes": found.notes})
    else:
        out.table(rows, COLUMNS)
    talk(
        f"Checked {found.records} records, {found.units} units and {found.entries} index entries, "
        f"log {found.log_begin} to {found.log_end}"
    )
    for note in found.notes:
        talk(f"Note: {note}")
    if found.is_cut:
        talk(f"Only the first {len(rows)} findings are shown; --max-findings shows more")


def _summary(found: "Verification") -> Document:
    return {
        "records": found.records,
        "units": found.units,
        "entries": found.entries,
        "log_begin": found.log_begin,
        "log_end": found.log_end,
        "counts": found.counts,
        "is_cut": found.is_cut,
    }


def _amounts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} × {kind}" for kind, count in sorted(counts.items()))
