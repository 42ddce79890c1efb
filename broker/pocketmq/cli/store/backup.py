"""`pocketmq store backup`: a copy of a store."""

from pathlib import Path

import click

from pocketmq.cli.options import PATH, directory_argument, form_option, set_option, wall_ms
from pocketmq.cli.output import Output, amount, progress, talk
from pocketmq.cli.store.access import accessible, log_bytes
from pocketmq.cli.store.copy import refuse_damage, shown, shown_errors, sizes_of_copy


@click.command(
    epilog="""\b
Examples:
  pocketmq store backup ./store /mnt/backup
  restic backup /mnt/backup        generations, compression, other machines
"""
)
@directory_argument
@click.argument("copy", metavar="COPY", type=PATH)
@click.option(
    "--with-views", is_flag=True, help="Also copy queues and index (stopped stores only)."
)
@set_option
@form_option
def backup(
    directory: Path, copy: Path, with_views: bool, assignments: tuple[str, ...], out: Output
) -> None:
    """Copy a store, running or stopped, to COPY; repeated calls update the copy.

    COPY is a store directory that a broker can open; backup.json has the checksum of every file.
    Full log files are copied once. Of a running store, the log up to its flushed offset and the
    tables under config/ are copied; queues and index are rebuilt when the copy is opened. For
    generations, compression and other machines, pass COPY to restic or borg.
    """
    from pocketmq.tools.backup import backup as backup_store

    disk = accessible(directory, read_only=True)
    sizes = sizes_of_copy(disk, directory, assignments)
    with shown_errors(), progress("Copying", log_bytes(directory)) as advance:
        made = backup_store(
            disk, directory, copy, sizes, now_ms=wall_ms(), with_views=with_views, advance=advance
        )
    out.show(shown(made, out))
    talk(
        f"Log from {made.begin} to {made.upto}: copied {amount(made.bytes_copied)}, "
        f"{made.files_known} full files were in the copy already"
    )
    if made.left_out:
        talk(f"Note: left out: {', '.join(made.left_out)}")
    refuse_damage(made, directory, "copied as it is")
