"""`pocketmq store verify`: checks everything in a store."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pocketmq.cli.options import examples, form_option, wall_ms
from pocketmq.cli.output import Exit, Failure, Output, columns, progress, talk
from pocketmq.cli.store.access import Given, given_options, known_end, log_bytes

if TYPE_CHECKING:
    from pocketmq.tools.verify.verification import Verification

COLUMNS: Final = columns(
    "kind", "file", "offset", "expected", "found",
    "repairable",
)  # fmt: skip

LIVE_TRIES: Final = 3
"""Most checks of a store in use, while there are findings."""


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
@click.option("--log-only", is_flag=True, help="Do not check queues, index and tables.")
@click.option("--no-crc", is_flag=True, help="Do not check the CRCs of records: twice as fast.")
@click.option(
    "--sample", metavar="PERCENT", type=click.FloatRange(0, 100), default=100, show_default=True,
    help="Part of the log whose CRCs are checked, the same in every run.",
)  # fmt: skip
@click.option("--deep", is_flag=True, help="Also decompress compressed bodies.")
@click.option(
    "--upto", type=click.IntRange(min=0), help="Check only records below this physical offset."
)
@click.option(
    "--max-findings", type=click.IntRange(min=1), default=1000, show_default=True,
    help="Most findings shown; all are counted.",
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
    """Check every record, unit, index entry and table of a store; change nothing.

    Records are checked for consistency and by their CRCs, queues and index against the log in both
    directions. The exit code is 10 if there are findings; traces of normal operation are notes.
    With --read-only, a store in use is checked up to a flushed offset that is some ten seconds old,
    including queues and index; findings are checked again.
    """
    from pocketmq.model.message import OFFSET_MAX
    from pocketmq.rebuild.log_files import find_log_files, records_end
    from pocketmq.tools.durable import views_upto
    from pocketmq.tools.store_access import is_live
    from pocketmq.tools.verify.verification import VerifyOptions
    from pocketmq.tools.verify.verification import verify as verify_store

    store = given.opened(with_index=True)
    live = is_live(store.directory)
    if upto is None:
        log_file_bytes = store.sizes.commit_log_file_size_bytes
        upto = known_end(
            store.disk, store.directory, "checked",
            otherwise=lambda: records_end(find_log_files(store.directory, log_file_bytes)),
            narrowed=views_upto,
        )  # fmt: skip
    options = VerifyOptions(
        check_crc=not no_crc,
        crc_share=sample / 100,
        deep=deep,
        log_only=log_only,
        views=views,
        upto=OFFSET_MAX if upto is None else upto,
        is_live=live,
        findings_max=max_findings,
        now_ms=wall_ms(),
    )
    for _ in range(LIVE_TRIES if live else 1):
        with progress("Verifying", log_bytes(store.directory)) as advance:
            found = verify_store(*store, options, advance)
        if not found.counts:
            break
    _print(found, out)
    if found.counts:
        amounts = ", ".join(f"{count} × {kind}" for kind, count in sorted(found.counts.items()))
        next_step = f"pocketmq store repair {store.directory}, which shows what it would do"
        raise Failure(f"found: {amounts}", Exit.DAMAGED, next_step)


def _print(found: "Verification", out: Output) -> None:
    rows = [finding._asdict() for finding in found.findings]
    if out.form == "json":
        names = ("records", "units", "entries", "log_begin", "log_end", "counts", "is_cut")
        summary = {name: getattr(found, name) for name in names}
        out.show({"summary": summary, "findings": rows, "notes": found.notes})
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
