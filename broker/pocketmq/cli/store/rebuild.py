"""`pocketmq store rebuild`: builds consume queues and index from the log."""

from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from pocketmq.cli.options import examples, form_option, yes_option
from pocketmq.cli.output import Output, amount, only_planned, progress, talk
from pocketmq.cli.store.access import (
    Given,
    accessible,
    given_options,
    known_end,
    sizes_of,
    talk_damage,
)

if TYPE_CHECKING:
    from pocketmq.files.disk import Disk
    from pocketmq.rebuild.log_files import KnownShape
    from pocketmq.rebuild.sequential import Rebuilt
    from pocketmq.tools.rebuild import RebuildPlan


@click.command(
    epilog=examples(
        "pocketmq store rebuild ./store --out ./views",
        "pocketmq store rebuild ./store            what would be done",
        "pocketmq store rebuild ./store --yes      in the store itself",
    )
)
@click.option(
    "--out",
    "target",
    metavar="DIR2",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write consumequeue/ and index/ to DIR2, without changing the store.",
)
@click.option("--in-place", is_flag=True, help="Replace the store's own views; the default.")
@click.option(
    "--compat", type=click.Choice(["5.5", "5.3"]), help="Index style [default: the store's]."
)
@click.option("--time-zone", metavar="ZONE", help="Time zone of index file names.")
@click.option("--check-crc", is_flag=True, help="Check every record's CRC.")
@click.option(
    "--accept-damage",
    is_flag=True,
    help="Continue after damage; pre-blank units replace lost ones.",
)
@click.option("--upto", type=click.IntRange(min=0), help="Only records below this physical offset.")
@click.option("--keep-old", is_flag=True, help="Keep the old views under pocketmq/replaced/.")
@yes_option
@given_options
@form_option
def rebuild(
    given: Given,
    target: Path | None,
    in_place: bool,
    compat: str | None,
    time_zone: str | None,
    check_crc: bool,
    accept_damage: bool,
    upto: int | None,
    keep_old: bool,
    yes: bool,
    out: Output,
) -> None:
    """Rebuild consume queues and index files of a store, as the broker writes them.

    Without --out they replace the store's own in one step, once they are complete. A killed rebuild
    leaves the store unchanged, and the next one continues it.
    """
    if in_place and target is not None:
        raise click.UsageError("--out and --in-place exclude each other")
    from pocketmq.tools.rebuild import plan_rebuild, rebuild_beside, rebuild_in_place

    disk = accessible(given.directory, read_only=given.read_only and target is not None)
    assignments = (
        *given.assignments,
        *((f"store.index_style={compat}",) if compat is not None else ()),
        *((f"store.time_zone={time_zone}",) if time_zone is not None else ()),
    )
    sizes = sizes_of(disk, given.directory, assignments, with_index=True)
    if upto is None:
        upto = known_end(disk, given.directory, "read", unknown="all complete records are read")
    limit = {} if upto is None else {"upto": upto}
    plan = plan_rebuild(disk, given.directory, sizes, out=target, check_crc=check_crc, **limit)
    _say(plan)
    if not yes and (plan.out is None or plan.leaves_extension):
        out.show(_plan(disk, plan, sizes, assignments))
        why = "this store has a consume-queue extension" if plan.out else "this replaces its views"
        raise only_planned(why)
    begun, kept = perf_counter(), None
    with progress("Rebuilding", plan.log_bytes) as advance:
        if target is not None:
            rebuilt = rebuild_beside(disk, plan, accept_holes=accept_damage, advance=advance)
        else:
            keep_as = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}" if keep_old else ""
            rebuilt, kept = rebuild_in_place(
                disk, plan, sizes, accept_holes=accept_damage, keep_as=keep_as, advance=advance
            )
    out.show(_result(plan, rebuilt, perf_counter() - begun))
    if kept is not None:
        talk(f"The replaced views are kept in {kept}")


def _say(plan: "RebuildPlan") -> None:
    if plan.is_resumed:
        talk("Continuing an interrupted rebuild")
    if plan.has_batch_queues:
        talk("Note: batch consume queues are unchanged")
    if plan.leaves_extension:
        talk("Note: units hold the tags code instead of an extension address")


def _plan(
    disk: "Disk", plan: "RebuildPlan", sizes: "KnownShape", assignments: tuple[str, ...]
) -> dict[str, Any]:
    files, taken = plan.replaced
    return {
        "store": str(plan.directory),
        "out": str(plan.out or plan.directory),
        "in_place": plan.out is None,
        "log_files": len(plan.files),
        "log_bytes": plan.log_bytes,
        "files_replaced": files,
        "bytes_replaced": taken,
        "bytes_needed": plan.estimate.view_bytes,
        "bytes_free": plan.free_bytes,
        "consume_queue_file_bytes": sizes.consume_queue_file_size_bytes,
        "slot_count": sizes.geometry.slot_count,
        "entry_count_max": sizes.geometry.entry_count_max,
        "index_style": sizes.index_style,
        "index_style_from": _origin(disk, plan, "index_style", assignments),
        "time_zone": sizes.time_zone or "this machine's",
        "time_zone_from": _origin(disk, plan, "time_zone", assignments),
        "has_extension": plan.has_extension,
        "is_resumed": plan.is_resumed,
    }


def _origin(disk: "Disk", plan: "RebuildPlan", name: str, assignments: tuple[str, ...]) -> str:
    """Returns the origin of a setting."""
    if any(f"{name}=" in assignment for assignment in assignments):
        return "the command line"
    manifest = "pocketmq/store.json"
    if disk.exists(plan.directory / manifest):
        return manifest
    if name == "index_style" and disk.names(plan.directory / "index"):
        return "the index files, as far as they show it"
    return "the default"


def _result(plan: "RebuildPlan", rebuilt: "Rebuilt", seconds: float) -> dict[str, Any]:
    end = rebuilt.end - rebuilt.begin
    talk(
        f"{rebuilt.record_count} records, {amount(end)} in {seconds:.1f} s, "
        f"{amount(int(end / max(seconds, 1e-3)))}/s"
    )
    if plan.upto < plan.log_end:
        behind = "" if plan.out else "; a broker dispatches later records when it starts"
        talk(f"The views end at {rebuilt.end}{behind}")
    talk_damage(rebuilt.holes)
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
