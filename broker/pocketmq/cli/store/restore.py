"""`pocketmq store restore`: makes a new store of a backup, or of an archive."""

from pathlib import Path

import click

from pocketmq.cli.options import MOMENT, directory_argument, form_option
from pocketmq.cli.output import Exit, Failure, Output, moment, progress, talk, typed
from pocketmq.cli.store.access import log_bytes
from pocketmq.cli.store.copy import refuse_damage, shown, shown_errors, store_of
from pocketmq.model.errors import Corruption, NotAStore


@click.command(
    epilog="""\b
Example:
  pocketmq store restore /mnt/backup ./store-again
  pocketmq store restore s3://bucket/orders ./store-again --at 2026-11-28T07:15:00Z
"""
)
@click.argument("source", metavar="COPY")
@directory_argument
@click.option(
    "--at", "at_ms", type=MOMENT, metavar="TIME",
    help="The last moment at or before TIME, of an archive [default: the last moment].",
)  # fmt: skip
@form_option
def restore(source: str, directory: Path, at_ms: int | None, out: Output) -> None:
    """Make a new store of a backup or an archive; every byte is verified on the way.

    COPY is a directory that `pocketmq store backup` wrote, or a directory or URL to which `pocketmq
    archive ship` ships. DIR must be missing or empty. Without queues and index in COPY, the first
    start rebuilds them, as after a crash. If anything is damaged, the exit code is 10 and no store
    is created.
    """
    from pocketmq.tools.archive.catalog import ARCHIVE_FILE
    from pocketmq.tools.archive.objects import URL_MARK

    if URL_MARK in source or (Path(source) / ARCHIVE_FILE).is_file():
        _restore_archive(source, directory, at_ms, out)
    elif at_ms is not None:
        text = f"{source} is no archive, and has one moment only"
        raise Failure(text, Exit.REFUSED, "leave out --at")
    else:
        _restore_backup(Path(source), directory, out)


def _restore_backup(copy: Path, directory: Path, out: Output) -> None:
    from pocketmq.files.disk import Disk
    from pocketmq.tools.restore import restore as restore_store

    if not copy.is_dir():
        step = "name the copy that `pocketmq store backup` made"
        raise Failure(f"there is no directory {copy}", Exit.NOT_FOUND, step)
    try:
        with shown_errors(), progress("Restoring", log_bytes(copy)) as advance:
            found = restore_store(Disk(), copy, directory, advance=advance)
    except NotAStore as error:
        is_store = (copy / "commitlog").is_dir() and not (copy / "backup.json").exists()
        if Path(error.path) == copy and is_store:
            raise _no_backup(copy) from error
        if Path(error.path) == copy:
            raise
        raise _refused_place(directory, error) from error
    except Corruption as error:
        step = (
            f"make the copy again: pocketmq store backup {typed(store_of(copy))} {typed(copy)}; or "
            "restore an earlier generation of it; if a broker ran on the copy, that changed it"
        )
        raise Failure(
            f"{error.path} is damaged: {error.why}; nothing was restored", Exit.DAMAGED, step
        ) from error
    out.show({**shown(found, out), "restored_to": str(directory)})
    if found.left_out:
        talk(f"Note: not part of the copy: {', '.join(found.left_out)}")
    refuse_damage(found, directory, "restored as it was")


def _restore_archive(target: str, directory: Path, at_ms: int | None, out: Output) -> None:
    from pocketmq.cli.store.archive_target import archive_errors, opened_objects
    from pocketmq.files.disk import Disk
    from pocketmq.tools.archive.moments import check_format, first_time, last_time, read_moment
    from pocketmq.tools.archive.restoring import restore_moment

    disk = Disk()
    objects = opened_objects(disk, target)
    with archive_errors(objects):
        check_format(objects)
        found = last_time(objects, at_ms)
        if found is None:
            first = first_time(objects)
            text = f"{objects.target} has no moment" + ("" if at_ms is None else " at that time")
            step = f"pocketmq archive ls {typed(target)}"
            if first is not None:
                step = f"--at {moment(first).replace(' ', 'T')} or later"
            raise Failure(text, Exit.NOT_FOUND, step)
        try:
            chosen = read_moment(objects, found)
            with progress("Restoring", chosen.upto - chosen.begin) as advance:
                restore_moment(disk, objects, chosen, directory, advance=advance)
        except NotAStore as error:
            raise _refused_place(directory, error) from error
        except Corruption as error:
            step = "restore an earlier moment: --at"
            raise Failure(f"{error}; nothing was restored", Exit.DAMAGED, step) from error
    document = {"archive": objects.target, "time_ms": chosen.time_ms, "time": moment(found)}
    log = {"begin": chosen.begin, "upto": chosen.upto, "files": len(chosen.files)}
    out.show({**document, **log, "restored_to": str(directory)})
    talk("Note: not part of an archive: users and TLS keys")


def _no_backup(copy: Path) -> Failure:
    """Returns the failure for a store that no `store backup` made, or did not finish."""
    text = f"{copy} is a store, but no finished backup: it has no backup.json"
    step = (
        f"pocketmq store verify {typed(copy)}; a sound store is served as it is, and copied by "
        "cp -a while no broker runs on it, or by pocketmq store backup"
    )
    return Failure(text, Exit.REFUSED, step)


def _refused_place(directory: Path, error: NotAStore) -> Failure:
    text = f"nothing can be restored to {directory}: {error.why}"
    return Failure(text, Exit.REFUSED, "name a directory that does not exist yet")
