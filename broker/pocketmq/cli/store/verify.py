"""`pocketmq store verify`: checks everything in a store."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pocketmq.cli.options import examples, form_option, wall_ms
from pocketmq.cli.output import (
    Column,
    Document,
    Exit,
    Failure,
    Output,
    columns,
    progress,
    talk,
    write,
)
from pocketmq.cli.store.access import Given, OpenedStore, given_options, known_end, log_bytes
from pocketmq.cli.vocabulary import option

if TYPE_CHECKING:
    from pocketmq.tools.verify.verification import Verification

QUEUES_SHOWN: Final = 20
"""Upper limit of lost ranges listed below a verdict."""


def _lost_cell(row: Document) -> int:
    return sum(loss["messages"] for loss in row["lost"])


COLUMNS: Final = columns(
    "kind", "count", Column("lost", _lost_cell), "file", "offset", "expected", "found",
    "repairable",
)  # fmt: skip

LIVE_TRIES: Final = 3
"""Upper limit of checks of a store in use: findings are checked again, as they may be temporary."""


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
@option(
    "--limit", "max_findings", metavar="N", type=click.IntRange(min=1), default=1000,
    show_default=True, aliases=("--max-findings",),
    help="Maximum number of rows shown; all findings are counted.",
)  # fmt: skip
@click.option(
    "--each", is_flag=True, help="Print a row for each finding; similar findings share no row."
)
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
    each: bool,
    out: Output,
) -> None:
    """Check every record, unit, index entry and table of a store; change nothing.

    Records are checked for consistency and by their CRCs, queues and index against the log in both
    directions. The verdict is printed first, then damage that lost messages, then the rest;
    similar findings in one file share a row with a count. The exit code is 10 if there is damage.
    Absent queues and index are rows, but no damage; traces of normal operation are notes.
    With --read-only, a store in use is checked up to a flushed offset that is some ten seconds old,
    including queues and index; findings are checked again. While the records of a new broker are
    all beyond that offset, the command fails with exit code 1.
    """
    from pocketmq.model.message import OFFSET_MAX
    from pocketmq.tools.store_access import is_live
    from pocketmq.tools.verify.collector import Fold
    from pocketmq.tools.verify.verification import VerifyOptions
    from pocketmq.tools.verify.verification import verify as verify_store

    store = given.opened(with_index=True)
    live = is_live(store.directory)
    if upto is None:
        upto = _end_of(store)
    options = VerifyOptions(
        check_crc=not no_crc,
        crc_share=sample / 100,
        deep=deep,
        log_only=log_only,
        views=views,
        upto=OFFSET_MAX if upto is None else upto,
        is_live=live,
        findings_max=max_findings,
        fold=Fold.NONE if each else Fold.ALL,
        now_ms=wall_ms(),
    )
    for _ in range(LIVE_TRIES if live else 1):
        with progress("Verifying", log_bytes(store.directory)) as advance:
            found = verify_store(*store, options, advance)
        if not found.counts:
            break
    _print(found, out)
    _refuse_unsound(found, store.directory)


def _refuse_unsound(found: "Verification", directory: Path) -> None:
    """Raises Failure if there is damage, or if the store's records were not checked."""
    from pocketmq.model.finding import ABSENT
    from pocketmq.tools.verify.verdict import next_step

    if found.is_unread and set(found.counts) <= {ABSENT}:
        text = "the store was not checked: its records are beyond the offset that limits the check"
        step = "the same command in ten seconds, or with a higher --upto if you gave one"
        raise Failure(text, Exit.FAILED, step)
    if not found.is_sound:
        amounts = ", ".join(f"{count} × {kind}" for kind, count in sorted(found.counts.items()))
        raise Failure(f"found: {amounts}", Exit.DAMAGED, next_step(found, directory))


def _end_of(store: OpenedStore) -> int | None:
    """Returns the offset below which a store in use is checked; None: it is not in use."""
    from pocketmq.rebuild.log_files import find_log_files, records_end
    from pocketmq.tools.durable import views_upto

    log_file_bytes = store.sizes.commit_log_file_size_bytes
    return known_end(
        store.disk, store.directory, "checked",
        otherwise=lambda: records_end(find_log_files(store.directory, log_file_bytes)),
        narrowed=views_upto,
    )  # fmt: skip


def _print_rows(found: "Verification", rows: list[dict[str, Any]], out: Output) -> None:
    """Prints the verdict, the lost messages by queue, and a row for each finding."""
    from pocketmq.model.finding import shown_loss
    from pocketmq.tools.verify.verdict import verdict

    say = (lambda text: write(f"{text}\n")) if out.is_table else talk
    say(verdict(found))
    lost = [loss for finding in found.findings for loss in finding.lost]
    for title, losses in (("lost", lost), ("missing", found.lost_earlier)):
        for loss in losses[:QUEUES_SHOWN]:
            say(f"  {title}: {shown_loss(*loss)}")
        if len(losses) > QUEUES_SHOWN:
            say(f"  {title}: in {len(losses) - QUEUES_SHOWN} more places; -o json lists all")
    for doubt in found.doubts[:QUEUES_SHOWN]:
        place = f"{doubt.topic}:{doubt.queue_id} offset {doubt.queue_offset}"
        say(f"  in doubt: {place}: its tag, keys or id, or its unit or index entries")
    if len(found.doubts) > QUEUES_SHOWN:
        say(f"  in doubt: {len(found.doubts) - QUEUES_SHOWN} more; -o json lists all")
    out.table(rows, COLUMNS)


def _print(found: "Verification", out: Output) -> None:
    from pocketmq.tools.verify.collector import LOST_RECORDS
    from pocketmq.tools.verify.verdict import is_without_log, verdict

    rows = [finding.document for finding in found.findings]
    if out.form in ("json", "yaml"):
        names = ("records", "units", "entries", "log_begin", "log_end", "counts", "is_cut")
        summary = {name: getattr(found, name) for name in names}
        lost = [loss for row in rows for loss in row["lost"]]
        earlier = [loss._asdict() for loss in found.lost_earlier]
        document = {
            "verdict": verdict(found), "is_sound": found.is_sound,
            "messages_lost": found.lost_count, "lost": lost, "lost_earlier": earlier,
            "in_doubt": [doubt._asdict() for doubt in found.doubts],
            "summary": summary, "findings": rows, "notes": found.notes,
        }  # fmt: skip
        out.show(document)
    else:
        _print_rows(found, rows, out)
    talk(
        f"Checked {found.records} records, {found.units} units and {found.entries} index entries, "
        f"log {found.log_begin} to {found.log_end}"
    )
    if LOST_RECORDS in found.counts and not is_without_log(found):
        talk(
            f"Note: {LOST_RECORDS}: no repair restores these records; `store repair` ends the log "
            f"at {found.log_end}, before them, and reports their messages"
        )
    for note in found.notes:
        talk(f"Note: {note}")
    if found.is_cut:
        talk(f"Only the first {len(rows)} rows are shown; --limit shows more")
