"""Shared options of `backfill plan` and `backfill run`, and the job made from them."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from pocketmq.cli.options import (
    PATH,
    SIZE,
    directory_argument,
    read_only_option,
    set_option,
    takes,
)
from pocketmq.cli.output import Exit, Failure

if TYPE_CHECKING:
    from pocketmq.rebuild.parallel import RebuildJob

COMPAT: Final = ("5.5", "5.3")
EXTENSION: Final = "consumequeue_ext"


class BuildOptions(NamedTuple):
    """Values of the options of `plan` and `run`; see their help."""

    directory: Path
    target: Path
    partitions: int | None
    piece_size: int
    piece_entries: int | None
    check_crc: bool
    compat: str | None
    time_zone: str | None
    accept_damage: bool
    keep_spool: bool
    upto: int | None
    yes: bool
    read_only: bool
    assignments: tuple[str, ...]


takes_build_options: Final = takes(
    "options",
    BuildOptions,
    directory_argument,
    click.option(
        "--out", "target", metavar="DIR2", required=True, type=PATH,
        help="Output directory: missing, empty, or an earlier run's.",
    ),
    click.option(
        "--partitions", type=click.IntRange(1),
        help="Tasks to share the work among [default: by files and processors].",
    ),
    click.option(
        "--piece-size", type=SIZE, default=0,
        help="Cut log files at about this size [default: only where there are few files].",
    ),
    click.option(
        "--piece-entries", type=click.IntRange(1),
        help="Least entries in a piece of an index file [default: 400000].",
    ),
    click.option("--check-crc", is_flag=True, help="Compare every body with its CRC."),
    click.option(
        "--compat", type=click.Choice(COMPAT),
        help="Index as this RocketMQ does; only 5.5 indexes tags [default: as the store does].",
    ),
    click.option(
        "--time-zone", metavar="ZONE", help="Zone of index file names [default: the store's]."
    ),
    click.option(
        "--accept-damage", is_flag=True,
        help="Continue behind damage; pre-blank units replace lost ones.",
    ),
    click.option(
        "--keep-spool", is_flag=True,
        help="Keep files by which a later run reads only new records: 20 bytes an index entry.",
    ),
    click.option(
        "--upto", type=click.IntRange(0), help="Only records below this physical offset."
    ),
    click.option("--yes", is_flag=True, help="Build without the extensions that queues have."),
    read_only_option,
    set_option,
)  # fmt: skip
"""Gives a command all options of a build."""


def open_job(options: BuildOptions, workers: int) -> "RebuildJob":
    """Returns the job that the options mean.

    Errors   Failure: the store or the output directory cannot be used; NotAStore, StoreLocked,
             WrongFileSize, StoreGap, IllegalConfig, UnknownGeometry
    """
    from pocketmq.backfill.job import new_job, objection
    from pocketmq.cli.store.access import accessible, known_end, sizes_of
    from pocketmq.format.names import zone_from_name
    from pocketmq.log.queue_places import expired_queues

    disk = accessible(options.directory, read_only=options.read_only)
    why = objection(options.directory, options.target)
    if why:
        text = f"{options.target} cannot be written to: {why}"
        raise Failure(text, Exit.REFUSED, "name another directory: --out DIR2")
    assignments = options.assignments
    if options.compat is not None:
        assignments += (f"store.index_style={options.compat}",)
    if options.time_zone is not None:
        assignments += (f"store.time_zone={options.time_zone}",)
    sizes = sizes_of(disk, options.directory, assignments, with_index=True)
    if not sizes.consume_queue_extension:
        _refuse_extension(options)
    zone_from_name(sizes.time_zone)
    upto = options.upto
    if upto is None:
        upto = known_end(disk, options.directory, "read", unknown="all its records are read")
    chosen = {"piece_entries": options.piece_entries} if options.piece_entries else {}
    return new_job(
        options.directory,
        options.target,
        replace(sizes, check_crc=options.check_crc),
        log_file_bytes=sizes.commit_log_file_size_bytes,
        upto=upto,
        workers=workers,
        piece_size=options.piece_size,
        accept_holes=options.accept_damage,
        keep_spool=options.keep_spool,
        expired=tuple(expired_queues(disk, options.directory)),
        **chosen,
    )


def _refuse_extension(options: BuildOptions) -> None:
    extension = options.directory / EXTENSION
    if options.yes or not (extension.is_dir() and any(extension.iterdir())):
        return
    text = (
        f"the queues have extensions ({extension}), which are switched off: units would hold tags "
        "codes where RocketMQ wrote addresses into the extension, and its filters be gone"
    )
    raise Failure(text, Exit.REFUSED, "add --yes to build them so")
