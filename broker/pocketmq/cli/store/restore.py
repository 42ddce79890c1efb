"""`pocketmq store restore`: a store of a copy."""

from pathlib import Path

import click

from pocketmq.cli.options import PATH, directory_argument, form_option
from pocketmq.cli.output import Exit, Failure, Output, progress, talk
from pocketmq.cli.store.access import log_bytes
from pocketmq.cli.store.copy import document_of, refuse_damage, shown_errors
from pocketmq.model.errors import Corruption


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

    DIR does not exist yet, or is empty. A copy without queues and index opens as after a crash and
    rebuilds them. When anything is damaged the exit code is 10 and no store appears.
    """
    from pocketmq.files.disk import Disk
    from pocketmq.tools.restore import restore as restore_store

    if not copy.is_dir():
        raise Failure(f"there is no directory {copy}", Exit.NOT_FOUND)
    try:
        with shown_errors(), progress("Restoring", log_bytes(copy)) as advance:
            found = restore_store(Disk(), copy, directory, advance=advance)
    except Corruption as error:
        step = (
            f"pocketmq store backup STORE {copy} (once more, also after a broker had it open), "
            "or bring the copy back from what holds its generations"
        )
        raise Failure(f"{error}; nothing was restored", Exit.DAMAGED, step) from error
    out.show({**document_of(found), "restored_to": str(directory)})
    if found.left_out:
        talk(f"Note: not part of the copy: {', '.join(found.left_out)}")
    refuse_damage(found, "restored as it was")
