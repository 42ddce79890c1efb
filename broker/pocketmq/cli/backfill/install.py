"""`pocketmq backfill install`."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pocketmq.cli.backfill.verify import built_manifest, check_against_log
from pocketmq.cli.options import DIRECTORY, PATH, examples, form_option, set_option, yes_option
from pocketmq.cli.output import Document, Exit, Failure, Output, only_planned, progress, talk, typed
from pocketmq.cli.store.access import Given

if TYPE_CHECKING:
    from pocketmq.cli.store.access import OpenedStore


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
    "--accept-damage", is_flag=True, help="Install views that were built over damage in the log."
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
    """Replace a store's views in one step by those that `backfill run` built.

    The built views are copied; DIR2 is kept. They must cover the store's whole current log. If log
    files changed after the run read them, the views are first checked against the log. The broker
    must be stopped.
    """
    built = built_manifest(views)
    opened = Given(store, False, assignments).opened(with_index=True)
    is_certain = _refuse_misfit(views, built, store, opened, accept_damage=accept_damage)
    document = _plan(views, built, store) | {"log_unchanged": is_certain}
    if not yes:
        out.show(document)
        raise only_planned("this replaces the store's views")
    if not is_certain:
        _check_log(views, store, opened)
    keep_as = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}" if keep_old else ""
    kept = _install(views, built, store, opened, keep_as=keep_as)
    out.show({**document, "kept": str(kept or "")})


def _refuse_misfit(
    views: Path, built: Document, store: Path, opened: "OpenedStore", *, accept_damage: bool
) -> bool:
    """Returns whether the views certainly fit this log; raises Failure if they cannot."""
    from pocketmq.backfill.checks import allocated_bytes, compare_log
    from pocketmq.rebuild.staging import build_settings

    sizes = opened.sizes
    rebuild = f"pocketmq backfill run {typed(store)} --out {typed(views)}"
    _, settings = build_settings(views)
    known = (sizes.consume_queue_file_size_bytes, sizes.geometry)
    if known != (settings.consume_queue_file_size_bytes, settings.geometry):
        text = "the views were built for other file sizes than the store has"
        raise Failure(text, Exit.REFUSED, rebuild)
    fit = compare_log(views, store, sizes.commit_log_file_size_bytes)
    if fit.objection:
        raise Failure(f"the views do not fit this log: {fit.objection}", Exit.REFUSED, rebuild)
    if built["holes"] and not accept_damage:
        text = f"the views were built over {len(built['holes'])} damaged parts of the log"
        raise Failure(text, Exit.DAMAGED, "add --accept-damage to install them anyway")
    needed, free = allocated_bytes(views), opened.disk.space(store)[1]
    if needed > free:
        text = f"the copy needs {needed} bytes, {free} are free under {store}"
        raise Failure(text, Exit.REFUSED, f"free disk space under {store}")
    return fit.is_certain


def _plan(views: Path, built: Document, store: Path) -> dict[str, Any]:
    return {
        "out": str(views),
        "store": str(store),
        "begin": built["begin"],
        "end": built["end"],
        "records": built["record_count"],
        "queues": len(built["queues"]),
        "entries": built["entry_count"],
        "index_files": len(built["index_names"]),
        "holes": len(built["holes"]),
    }


def _check_log(views: Path, store: Path, opened: "OpenedStore") -> None:
    talk("Log files changed after the run read them; checking the views against the log")
    found = check_against_log(views, store, opened)
    if found.counts:
        text = f"the views do not fit this log: it has {len(found.findings)} differences or more"
        step = f"pocketmq backfill verify {typed(views)} --store {typed(store)}"
        raise Failure(text, Exit.DAMAGED, step)


def _install(
    views: Path, built: Document, store: Path, opened: "OpenedStore", *, keep_as: str
) -> Path | None:
    """Copies the views into the store and exchanges them with its own, under its lock."""
    from pocketmq.backfill.checks import copy_views, queues_of
    from pocketmq.tools.install import StagedViews, stage_and_install

    def copied(staging: Path) -> StagedViews:
        shutil.rmtree(staging, ignore_errors=True)
        with progress("Copying", sum(mark["size"] for mark in built["files"])) as advance:
            findings = copy_views(views, staging, advance)
        if findings:
            shutil.rmtree(staging, ignore_errors=True)
            text = f"{len(findings)} files differ from the manifest, first {findings[0].file}"
            raise Failure(text, Exit.DAMAGED, f"pocketmq backfill verify {typed(views)}")
        return StagedViews(staging, queues_of(built), built["index_names"], built["end"])

    return stage_and_install(*opened, copied, keep_as=keep_as)
