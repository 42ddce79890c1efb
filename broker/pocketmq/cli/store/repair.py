"""`pocketmq store repair`: repairs findings of `store verify`, and keeps the damaged bytes."""

import json
from pathlib import Path
from typing import Any

import click

from pocketmq.cli.documents import Document
from pocketmq.cli.options import examples, form_option, wall_ms, yes_option
from pocketmq.cli.output import Exit, Failure, Output, only_planned, progress, talk, typed, write
from pocketmq.cli.store.access import Given, OpenedStore, given_options, log_bytes


@click.command(
    epilog=examples(
        "pocketmq store repair ./store                               what would be done",
        "pocketmq store repair ./store --yes --report repair.json    do it",
        "pocketmq store repair ./store --accept-loss --yes           do it without missing files",
    )
)
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Also write the plan or the report to this file, as JSON.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Go on without missing and shortened files of the log: their messages are lost.",
)
@yes_option
@given_options
@form_option
def repair(given: Given, report: Path | None, accept_loss: bool, yes: bool, out: Output) -> None:
    """Quarantine damaged bytes, replace them in the log, and rebuild queues and index.

    Without --yes only the plan is shown, lost messages first. Every damaged byte is copied to
    pocketmq/quarantine/ before it is replaced; valid messages keep their physical offsets. The next
    call continues an interrupted repair. Missing files of the log are best restored from a backup;
    without one, --accept-loss makes all other messages readable. The exit code is 10 if something
    needs repair, or could not be repaired.
    """
    if yes and given.read_only:
        raise click.UsageError("--yes and --read-only exclude each other")
    show = _repair if yes else _plan
    show(given.opened(with_index=True), report, out, accept_loss=accept_loss)


def _plan(store: OpenedStore, report: Path | None, out: Output, *, accept_loss: bool) -> None:
    from pocketmq.tools.repair.planning import BLOCKED, blocked_step, plan_repair

    with progress("Checking", log_bytes(store.directory)) as advance:
        plan = plan_repair(*store, now_ms=wall_ms(), accept_loss=accept_loss, advance=advance)
    _show(plan.document, report, out)
    lost = f"messages known to be lost: {plan.lost_count}"
    if plan.blocked:
        raise Failure(f"{BLOCKED}; {lost}", Exit.DAMAGED, blocked_step(plan, store.directory))
    if not plan.is_empty:
        raise only_planned(lost, Exit.DAMAGED)
    _say_left(store.directory, [finding.kind for finding in plan.left], is_sound=not plan.left)


def _repair(store: OpenedStore, report: Path | None, out: Output, *, accept_loss: bool) -> None:
    from pocketmq.model.errors import Corruption, StoreGap, WrongFileSize
    from pocketmq.tools.repair.planning import accepting
    from pocketmq.tools.repair.repair import NOTHING_TO_DO, repair_store

    try:
        done = repair_store(*store, now_ms=wall_ms(), accept_loss=accept_loss, stage=progress)
    except (Corruption, StoreGap, WrongFileSize) as error:
        command = f"pocketmq store repair {typed(store.directory)}"
        step = f"{command} without --yes shows the needed files"
        is_too_long = isinstance(error, WrongFileSize) and error.found_bytes > error.expected_bytes
        if not accept_loss and not is_too_long:
            step += f", or what {accepting(store.directory)} gives up"
        raise Failure(str(error), Exit.DAMAGED, step) from error
    _show(done, report, out)
    if done["state"] != NOTHING_TO_DO:
        talk(f"The report and the damaged bytes are in {done['quarantine']}")
    kinds = [finding["kind"] for finding in done["left_as_it_is"]]
    _say_left(store.directory, kinds, is_sound=done["is_sound"])


def _say_left(directory: Path, kinds: list[str], *, is_sound: bool) -> None:
    from pocketmq.tools.verify.verdict import NO_REPAIR, SERVED_AS_IT_IS

    if not is_sound:
        text = f"findings that cannot be repaired: {len(kinds)}"
        is_served = kinds and SERVED_AS_IT_IS.issuperset(kinds)
        step = NO_REPAIR if is_served else f"pocketmq store verify {typed(directory)}"
        raise Failure(text, Exit.DAMAGED, step)
    talk("The store has no findings")


def _show(document: Document, report: Path | None, out: Output) -> None:
    from pocketmq.tools.repair.actions import summary

    lines = summary(document)
    full: dict[str, Any] = {**document, "summary": lines}
    if report is not None:
        report.write_text(json.dumps(full, indent=2, ensure_ascii=False) + "\n")
    if out.form == "table":
        for line in lines:
            write(line + "\n")
    else:
        out.show(full)
        for line in lines:
            talk(line)
