"""`pocketmq backfill install`."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from broker.cli.backfill.verify import built_manifest, check_against_log
from broker.cli.failures import EXIT_DAMAGED, EXIT_REFUSED, Failure, only_planned
from broker.cli.options import DIRECTORY, PATH, examples, form_option, set_option, yes_option
from broker.cli.output import Document, Output, talk
from broker.cli.progress import progress
from broker.cli.store.access import accessible, sizes_of

if TYPE_CHECKING:
    from broker.files.disk import Disk
    from broker.tools.store_access import Sizes


class Handover(NamedTuple):
    """Views on their way into a store."""

    out: Path
    store: Path
    built: Document
    disk: "Disk"
    sizes: "Sizes"


@click.command(
    epilog=examples(
        "pocketmq backfill install ./views --store ./store          what would be done",
        "pocketmq backfill install ./views --store ./store --yes",
    )
)
@click.argument("views", metavar="DIR2", type=PATH)
@click.option(
    "--store", metavar="DIR", required=True,
    type=DIRECTORY, help="The store whose log the views were built from.",
)  # fmt: skip
@click.option(
    "--accept-damage", is_flag=True, help="Install what was built over damage in the log."
)
@click.option("--keep-old", is_flag=True, help="Keep the old views under pocketmq/replaced/.")
@yes_option
@set_option
@form_option
def install(
    out: Output,
    views: Path,
    store: Path,
    accept_damage: bool,
    keep_old: bool,
    yes: bool,
    assignments: tuple[str, ...],
) -> None:
    """Put the views that `backfill run` built into the store, in place of its own, in one step.

    They are copied; DIR2 stays. They must be of this store's whole log as it is now; where files of
    the log were written to since, they are checked against it first. The broker must be stopped.
    """
    built = built_manifest(views)
    disk = accessible(store, read_only=False)
    sizes = sizes_of(disk, store, assignments, with_index=True)
    handover = Handover(views, store, built, disk, sizes)
    is_certain = _refuse_misfit(handover, accept_damage)
    document = _plan(handover, is_certain)
    if not yes:
        out.show(document)
        raise only_planned("this replaces the store's views")
    kept = _install(handover, is_certain, f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}" if keep_old else "")
    out.show({**document, "kept": str(kept or "")})


def _refuse_misfit(handover: Handover, accept_damage: bool) -> bool:
    """Return whether the views are certainly of this log; end where they cannot be."""
    from broker.backfill.handover import allocated_bytes, compare_log
    from broker.rebuild.log_files import find_log_files
    from broker.rebuild.staging import build_settings

    out, store, built, disk, sizes = handover
    again = f"pocketmq backfill run {store} --out {out}"
    _, settings = build_settings(out)
    known = (sizes.consume_queue_file_bytes, sizes.geometry)
    if known != (settings.consume_queue_file_bytes, settings.geometry):
        text = "the views were built for other file sizes than the store has"
        raise Failure(text, EXIT_REFUSED, again)
    fit = compare_log(out, find_log_files(store.resolve(), sizes.commit_log_file_bytes))
    if fit.objection:
        raise Failure(f"the views are not of this log: {fit.objection}", EXIT_REFUSED, again)
    if built["holes"] and not accept_damage:
        text = f"the views were built over {len(built['holes'])} places of damage in the log"
        raise Failure(text, EXIT_DAMAGED, "add --accept-damage to install them all the same")
    needed, free = allocated_bytes(out), disk.free_bytes(store)
    if needed > free:
        text = f"the copy takes {needed} bytes, {free} are free under {store}"
        raise Failure(text, EXIT_REFUSED, "free space there")
    return fit.is_certain


def _plan(handover: Handover, is_certain: bool) -> Document:
    built = handover.built
    return {
        "out": str(handover.out),
        "store": str(handover.store),
        "begin": built["begin"],
        "end": built["end"],
        "records": built["record_count"],
        "queues": len(built["queues"]),
        "entries": built["entry_count"],
        "index_files": len(built["index_names"]),
        "holes": len(built["holes"]),
        "log_unchanged": is_certain,
    }


def _install(handover: Handover, is_certain: bool, keep_as: str) -> Path | None:
    """Copy the views into the store and let them change places with its own, under its lock."""
    from broker.backfill.handover import queues_of
    from broker.format.names import OWN_DIRECTORY
    from broker.log.store_directory import StoreDirectory
    from broker.tools.install import StagedViews, install_views
    from broker.tools.rebuild import STAGING_DIRECTORY

    out, store, built, disk, sizes = handover
    if not is_certain:
        talk("Files of the log were written to since they were read; checking the views against it")
        found = check_against_log(out, store, disk, sizes)
        if found.counts:
            text = f"the views are not of this log: {len(found.findings)} places differ, or more"
            raise Failure(text, EXIT_DAMAGED, f"pocketmq backfill verify {out} --store {store}")
    directory = StoreDirectory(disk, store)
    directory.acquire()
    try:
        staging = store / OWN_DIRECTORY / STAGING_DIRECTORY
        shutil.rmtree(staging, ignore_errors=True)
        _copy(out, built, staging)
        staged = StagedViews(staging, queues_of(built), built["index_names"], built["end"])
        return install_views(disk, store, staged, sizes, keep_as=keep_as)
    finally:
        directory.release()


def _copy(out: Path, built: Document, staging: Path) -> None:
    from broker.backfill.checks import copy_views

    with progress("Copying", sum(mark["size"] for mark in built["files"])) as advance:
        findings = copy_views(out, staging, advance)
    if findings:
        shutil.rmtree(staging, ignore_errors=True)
        text = f"{len(findings)} files are not what the manifest says, first {findings[0].file}"
        raise Failure(text, EXIT_DAMAGED, f"pocketmq backfill verify {out}")
