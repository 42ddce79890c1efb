"""What the commands on a store directory share: which one, access, damage."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.failures import EXIT_DAMAGED, EXIT_NOT_FOUND, Failure
from broker.cli.options import directory_argument, read_only_option, set_option, takes
from broker.cli.output import talk
from broker.cli.settings import sizes_of

if TYPE_CHECKING:
    from broker.files.disk import Disk
    from broker.tools.selection import LogSearch
    from broker.tools.store_access import Sizes


@dataclass(frozen=True, slots=True)
class Given:
    """A store directory, and how a command is to look at it."""

    directory: Path
    read_only: bool
    assignments: tuple[str, ...]

    def opened(self, *, with_index: bool) -> "tuple[Disk, Sizes]":
        """Return the disk and the store's sizes, if it may be looked at."""
        disk = accessible(self.directory, read_only=self.read_only)
        return disk, sizes_of(disk, self.directory, self.assignments, with_index=with_index)


given_options = takes("given", Given, directory_argument, read_only_option, set_option)
"""Gives a command DIR, --read-only and --set, as `given`."""


def accessible(directory: Path, *, read_only: bool) -> "Disk":
    """Return the disk, for a directory that may be looked at."""
    from broker.files.disk import Disk
    from broker.tools.store_access import check_access

    if not directory.is_dir():
        raise Failure(f"there is no directory {directory}", EXIT_NOT_FOUND)
    disk = Disk()
    check_access(disk, directory, read_only=read_only)
    return disk


def known_end(disk: "Disk", directory: Path, what: str, *, unknown: str) -> int | None:
    """Return below which offset the records of a store in use are looked at, and say so.

    what      is done with them: "looked at", "taken"
    unknown   what is said where nothing tells what is flushed
    Returns   None of a store that is not in use, or where nothing tells
    """
    from broker.tools.store_access import is_live
    from broker.tools.verify.tables import flushed_upto

    if not is_live(directory):
        return None
    upto = flushed_upto(disk, directory)
    if upto is not None:
        talk(f"The store is in use: records below {upto} are {what}")
    else:
        talk(f"The store is in use, and nothing tells what is flushed: {unknown}")
    return upto


def tell_damage(search: "LogSearch", next_step: str) -> None:
    """Say what a search passed over; damage inside the log is a failure."""
    if search.tail is not None:
        talk(f"Note: behind the last record, at {search.tail.begin}: {search.tail.reason}")
    for hole in search.holes:
        talk(f"Damage: {hole.path} at {hole.begin}: {hole.reason}")
    if search.holes:
        text = f"the log is damaged before its end; places passed over: {len(search.holes)}"
        raise Failure(text, EXIT_DAMAGED, next_step)
