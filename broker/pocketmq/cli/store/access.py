"""Options, access checks, sizes and damage reports that commands on a store directory share."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pocketmq.cli.options import directory_argument, read_only_option, set_option, takes
from pocketmq.cli.output import Exit, Failure, talk, talk_notes

if TYPE_CHECKING:
    from pocketmq.files.disk import Disk
    from pocketmq.log.store_directory import StoreManifest
    from pocketmq.rebuild.log_files import KnownShape
    from pocketmq.tools.selection import LogSearch
    from pocketmq.walk.log_walk import Hole

GEOMETRY_FIELDS: Final = frozenset({"index_slot_count", "index_entry_count_max"})


class OpenedStore(NamedTuple):
    """A store that passed the access checks; its fields are the first arguments of most tools."""

    disk: "Disk"
    directory: Path
    sizes: "KnownShape"


@dataclass(frozen=True, slots=True)
class Given:
    """A store directory, and the options with which a command reads it."""

    directory: Path
    read_only: bool
    assignments: tuple[str, ...]

    def opened(self, *, with_index: bool) -> OpenedStore:
        """Checks access, and returns the store with its sizes."""
        disk = accessible(self.directory, read_only=self.read_only)
        talk_unsupported(disk, self.directory)
        sizes = sizes_of(disk, self.directory, self.assignments, with_index=with_index)
        return OpenedStore(disk, self.directory, sizes)


def log_bytes(directory: Path) -> int:
    """Returns the bytes of a store's log, for a progress bar."""
    return sum(path.stat().st_size for path in (directory / "commitlog").glob("*"))


given_options = takes("given", Given, directory_argument, read_only_option, set_option)
"""Adds DIR, --read-only and --set, passed as `given`."""


def accessible(directory: Path, *, read_only: bool, plain_only: bool = True) -> "Disk":
    """Checks access to a store directory, and returns the disk; see `check_access`."""
    from pocketmq.files.disk import Disk
    from pocketmq.tools.store_access import check_access

    if not directory.is_dir():
        raise missing(directory)
    disk = Disk()
    if not any(directory.iterdir()):
        step = "mount its disk, or name the store directory, which holds commitlog/"
        raise Failure(f"{directory} is empty: there is no store in it", Exit.NOT_FOUND, step)
    check_access(disk, directory, read_only=read_only, plain_only=plain_only)
    return disk


def missing(directory: Path) -> Failure:
    """Returns the failure for a path that is no directory."""
    step = "name the store directory, which holds commitlog/; pocketmq status shows a broker's"
    fault = f"{directory} is a file" if directory.exists() else f"there is no directory {directory}"
    return Failure(fault, Exit.NOT_FOUND, step)


def talk_unsupported(disk: "Disk", directory: Path) -> None:
    """Prints why a store can only be read in part, and must not be written to."""
    from pocketmq.log.foreign import refusals

    talk_notes(
        [f"only a part of this store can be read: {why}" for why in refusals(disk, directory)]
    )


def sizes_of(
    disk: "Disk", directory: Path, assignments: Sequence[str], *, with_index: bool
) -> "KnownShape":
    """Returns a store's sizes: from settings, else from its manifest, else from its files.

    with_index   False: does not read index files for the index geometry and style
    Errors       IllegalConfig, StoreTooNew, TableUnreadable, UnknownGeometry (only with the index)
    """
    from pocketmq.config.load import load
    from pocketmq.model.store_shape import StoreShape
    from pocketmq.rebuild.log_files import KnownShape
    from pocketmq.store.recovery.geometry import fit_to_disk, unshown

    config = load(assignments=assignments)
    talk_notes(config.warnings)
    settings = replace(config.store_settings(), directory=directory)
    manifest = _manifest(disk, directory)
    is_ours = manifest is not None and manifest.made_here
    is_style_known = is_ours or "index_style" in settings.explicit
    if not with_index and manifest is None:
        settings = replace(settings, explicit=settings.explicit | GEOMETRY_FIELDS)
    settled = fit_to_disk(settings, manifest, disk)
    for name, value in unshown(settings, manifest, disk) if with_index else ():
        talk(f"Note: no file shows {name}: assuming {value}; set another: --set {name}=NUMBER")
    shape = {field.name: getattr(settled, field.name) for field in fields(StoreShape)}
    found = KnownShape(
        **shape,
        removed=_left_out_queues(disk, directory),
        left_over=_left_over(disk, directory, shape["commit_log_file_size_bytes"]),
        filters=_filters(disk, directory) if settled.consume_queue_extension else "",
        property_crc_from=_property_crc_from(manifest, is_set=settled.property_crc),
    )
    if not with_index or is_style_known:
        return found
    from pocketmq.log.index_style import written_styles

    log_file_bytes = found.commit_log_file_size_bytes
    styles = written_styles(disk, directory, log_file_bytes=log_file_bytes, geometry=found.geometry)
    return found.with_styles(*styles)


def _filters(disk: "Disk", directory: Path) -> str:
    """Returns the subscriptions for which extension units have filter bits; "": none."""
    from pocketmq.filter.subscriptions import read_subscriptions
    from pocketmq.format.names import CONFIG_DIRECTORY, SUBSCRIPTIONS_FILE

    path = directory / CONFIG_DIRECTORY / SUBSCRIPTIONS_FILE
    if not disk.exists(path):
        return ""
    content = disk.read_file(path)
    try:
        read_subscriptions(content)
    except ValueError as error:
        talk(f"Note: {path} cannot be read ({error}): units of the extension get no filter bits")
        return ""
    return content.decode()


def _property_crc_from(manifest: "StoreManifest | None", *, is_set: bool) -> int | None:
    """Returns the physical offset from which records must have a property CRC, None if unknown."""
    from pocketmq.model.message import OFFSET_MAX

    if manifest is not None and manifest.property_crc_from is not None:
        return manifest.property_crc_from
    if is_set:
        return 0
    return None if manifest is None else OFFSET_MAX


def _left_out_queues(disk: "Disk", directory: Path) -> str:
    """Returns the queues whose messages have no units, in the form of `QueueTable`; "": none.

    These are queues of removed topics, and of topics with batch queues.
    Errors   TableUnreadable
    """
    from pocketmq.files.table_file import TableFile
    from pocketmq.format.columns.queues import EVERY_QUEUE
    from pocketmq.format.names import OWN_DIRECTORY, REMOVED_QUEUES_FILE
    from pocketmq.log.foreign import batch_topics
    from pocketmq.model.message import OFFSET_MAX
    from pocketmq.store.tables.removed_queues import decode_removed

    path = directory / OWN_DIRECTORY / REMOVED_QUEUES_FILE
    removed = TableFile(disk, path).read(decode_removed) or {}
    foreign = {topic: {EVERY_QUEUE: OFFSET_MAX} for topic in batch_topics(disk, directory)}
    return json.dumps({**removed, **foreign}) if removed or foreign else ""


def _left_over(disk: "Disk", directory: Path, log_file_bytes: int) -> str:
    """Returns the records of deleted topics, in the form of `KnownShape.left_over`."""
    from pocketmq.log.deleted_topics import left_over_now

    return left_over_now(disk, directory, log_file_bytes).text


def _manifest(disk: "Disk", directory: Path) -> "StoreManifest | None":
    """Returns a store's manifest; None: missing or unreadable."""
    from pocketmq.format.names import OWN_DIRECTORY
    from pocketmq.log.store_directory import MANIFEST_FILE, ManifestFile

    own_directory = directory / OWN_DIRECTORY
    try:
        return ManifestFile(disk, own_directory).read()
    except ValueError as error:
        path = own_directory / MANIFEST_FILE
        talk(f"Note: {path} cannot be read ({error}); sizes are taken from the files")
        return None


def known_end(
    disk: "Disk", directory: Path, what: str, *, unknown: str = "",
    otherwise: "Callable[[], int] | None" = None, name: str = "The store",
    narrowed: "Callable[[Disk, Path], int] | None" = None,
) -> int | None:  # fmt: skip
    """Returns the log offset up to which a command may read a store in use, and prints it.

    what        what the command does with the records, for the printed text: "checked", "read"
    unknown     printed if the offset is unknown: what the command reads then
    otherwise   called if no file contains the flushed offset; returns another offset to read up to.
                None: the offset is then unknown
    narrowed    returns a further upper limit; called if a file contains the flushed offset
    Returns     None: the store is not in use, or the offset is unknown
    """
    from pocketmq.tools.durable import flushed_upto
    from pocketmq.tools.store_access import is_live

    if not is_live(directory):
        return None
    upto = flushed_upto(disk, directory)
    if upto is None and otherwise is not None:
        upto = otherwise()
    elif upto is not None and narrowed is not None:
        upto = min(upto, narrowed(disk, directory))
    if upto is not None:
        talk(f"{name} is in use: records that begin below {upto} are {what}")
    else:
        talk(f"{name} is in use, and its flushed offset is unknown: {unknown}")
    return upto


def talk_damage(holes: "Iterable[Hole]") -> None:
    """Prints the damaged parts of a log."""
    for hole in holes:
        talk(f"Damage: {hole.path} at {hole.begin}: {hole.reason}")


def show_damage(search: "LogSearch", next_step: str) -> None:
    """Prints the damage that a search skipped; raises Failure if it is before the log's end."""
    if search.tail is not None:
        talk(f"Note: after the last record, at {search.tail.begin}: {search.tail.reason}")
    talk_damage(search.holes)
    if search.holes:
        text = f"the log is damaged before its end; damaged parts skipped: {len(search.holes)}"
        raise Failure(text, Exit.DAMAGED, next_step)
