"""`pocketmq store rebuild`: consume queues and index from the log alone."""

from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from broker.cli.documents import Document
from broker.cli.failures import EXIT_REFUSED, Failure
from broker.cli.output import output_option, print_document, talk
from broker.cli.progress import amount, progress
from broker.cli.settings import set_option, sizes_of
from broker.cli.store.options import (
    accessible,
    directory_argument,
    read_only_option,
    yes_option,
)

if TYPE_CHECKING:
    from broker.files.disk import Disk
    from broker.rebuild.sequential import Rebuilt
    from broker.tools.rebuild import RebuildPlan
    from broker.tools.store_access import Sizes


@click.command(
    epilog="""\b
Examples:
  pocketmq store rebuild ./store --out ./views
  pocketmq store rebuild ./store            what would be done
  pocketmq store rebuild ./store --yes      in the store itself
"""
)
@directory_argument
@click.option(
    "--out",
    metavar="DIR2",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write consumequeue/ and index/ there and leave the store alone.",
)
@click.option(
    "--compat", type=click.Choice(["5.5", "5.3"]), help="Index style [default: as found]."
)
@click.option("--time-zone", metavar="ZONE", help="Zone that index files are named in.")
@click.option("--check-crc", is_flag=True, help="Check every record's CRC on the way.")
@click.option(
    "--accept-damage", is_flag=True, help="Go on behind damage; pre-blank units stand for the lost."
)
@click.option("--upto", type=click.IntRange(min=0), help="Take records below this offset only.")
@click.option("--keep-old", is_flag=True, help="Keep the old views under pocketmq/replaced/.")
@yes_option
@read_only_option
@set_option
@output_option
def rebuild(
    directory: Path,
    out: Path | None,
    compat: str | None,
    time_zone: str | None,
    check_crc: bool,
    accept_damage: bool,
    upto: int | None,
    keep_old: bool,
    yes: bool,
    read_only: bool,
    assignments: tuple[str, ...],
    output_format: str | None,
) -> None:
    """Build consume queues and index files of a store anew, as the broker itself would have.

    Without --out they take the place of the store's own, in one step, once they are complete; a
    rebuild that was killed leaves the store as it was and is gone on with by the next one.
    """
    from broker.model.offsets import OFFSET_MAX
    from broker.tools.rebuild import plan_rebuild, rebuild_beside, rebuild_in_place
    from broker.tools.store_access import is_live
    from broker.tools.verify.tables import flushed_upto

    if compat is not None:
        assignments += (f"store.index_style={compat}",)
    if time_zone is not None:
        assignments += (f"store.time_zone={time_zone}",)
    disk = accessible(directory, read_only=read_only and out is not None)
    sizes = sizes_of(disk, directory, assignments, with_index=True)
    if upto is None and is_live(directory):
        upto = flushed_upto(disk, directory)
        talk(f"The store is in use: records below {upto} are taken")
    limit = OFFSET_MAX if upto is None else upto
    plan = plan_rebuild(disk, directory, sizes, out=out, upto=limit)
    _tell(plan)
    _refuse_unless_told(disk, plan, sizes, yes, output_format)
    options = {"check_crc": check_crc, "accept_holes": accept_damage}
    begun = perf_counter()
    with progress("Rebuilding", plan.log_bytes) as tell:
        if out is not None:
            rebuilt = rebuild_beside(disk, plan, sizes, **options, tell=tell)
        else:
            keep_as = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}" if keep_old else ""
            rebuilt = rebuild_in_place(disk, plan, sizes, **options, keep_as=keep_as, tell=tell)
    print_document(_result(plan, rebuilt, perf_counter() - begun), output_format)


def _tell(plan: "RebuildPlan") -> None:
    if plan.is_resumed:
        talk("An earlier rebuild was interrupted; going on from where it was")
    if plan.has_batch_queues:
        talk("Note: batch consume queues are left as they are")
    if plan.has_extension:
        talk("Note: units keep the plain tags code instead of an address of the extension")


def _refuse_unless_told(
    disk: "Disk", plan: "RebuildPlan", sizes: "Sizes", yes: bool, output_format: str | None
) -> None:
    """Show the plan and end, unless what it does was agreed to."""
    if yes or (plan.out is not None and not plan.has_extension):
        return
    print_document(_plan(plan, sizes), output_format)
    why = "this store has a consume-queue extension" if plan.out else "this replaces its views"
    raise Failure(f"nothing was done: {why}", EXIT_REFUSED, "add --yes to do it")


def _plan(plan: "RebuildPlan", sizes: "Sizes") -> Document:
    return {
        "store": str(plan.directory),
        "out": str(plan.out or plan.directory),
        "in_place": plan.out is None,
        "log_files": len(plan.files),
        "log_bytes": plan.log_bytes,
        "free_bytes": plan.free_bytes,
        "index_style": sizes.style,
        "time_zone": sizes.time_zone or "this machine's",
        "slot_count": sizes.geometry.slot_count,
        "entry_count_max": sizes.geometry.entry_count_max,
        "has_extension": plan.has_extension,
        "is_resumed": plan.is_resumed,
    }


def _result(plan: "RebuildPlan", rebuilt: "Rebuilt", seconds: float) -> Document:
    end = rebuilt.end - rebuilt.begin
    talk(
        f"{rebuilt.record_count} records, {amount(end)} in {seconds:.1f} s, "
        f"{amount(int(end / max(seconds, 1e-3)))}/s"
    )
    for hole in rebuilt.holes:
        talk(f"Damage: {hole.path} at {hole.begin}: {hole.reason}")
    return {
        "out": str(plan.out or plan.directory),
        "records": rebuilt.record_count,
        "entries": rebuilt.entry_count,
        "queues": len(rebuilt.queues),
        "index_files": rebuilt.index_names,
        "begin": rebuilt.begin,
        "end": rebuilt.end,
        "holes": len(rebuilt.holes),
        "irregular_queues": [f"{topic}:{queue_id}" for topic, queue_id in rebuilt.irregular],
    }
