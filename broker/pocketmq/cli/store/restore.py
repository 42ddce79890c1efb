"""`pocketmq store restore`: copies a backup to a new store."""

from pathlib import Path

import click

from pocketmq.cli.options import PATH, directory_argument, form_option
from pocketmq.cli.output import Exit, Failure, Output, progress, talk
from pocketmq.cli.store.access import log_bytes
from pocketmq.cli.store.copy import document_of, refuse_damage, shown_errors
from pocketmq.model.errors import Corruption, NotAStore


@click.command(
    epilog="""\b
Example:
  pocketmq store restore /mnt/backup ./store-again
"""
)
@click.argument("copy", metavar="COPY", type=PATH)
@directory_argument
@form_option
def restore(copy: Path, directory: Path, out: Output) -> None:
    """Copy a backup to a new store; every byte is verified on the way.

    DIR must be missing or empty. If COPY has no queues and index, the first start rebuilds them, as
    after a crash. If anything is damaged, the exit code is 10 and no store is created.
    """
    from pocketmq.files.disk import Disk
    from pocketmq.tools.restore import restore as restore_store

    if not copy.is_dir():
        raise Failure(f"there is no directory {copy}", Exit.NOT_FOUND)
    try:
        with shown_errors(), progress("Restoring", log_bytes(copy)) as advance:
            found = restore_store(Disk(), copy, directory, advance=advance)
    except NotAStore as error:
        if Path(error.path) == copy:
            raise
        text = f"nothing can be restored to {directory}: {error.why}"
        raise Failure(text, Exit.REFUSED, "name a directory that does not exist yet") from error
    except Corruption as error:
        step = (
            f"pocketmq store backup STORE {copy} (again, also if a broker changed the copy), "
            "or restore an earlier generation of the copy"
        )
        raise Failure(f"{error}; nothing was restored", Exit.DAMAGED, step) from error
    out.show({**document_of(found), "restored_to": str(directory)})
    if found.left_out:
        talk(f"Note: not part of the copy: {', '.join(found.left_out)}")
    refuse_damage(found, directory, "restored as it was")
