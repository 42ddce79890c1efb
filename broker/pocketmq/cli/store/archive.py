"""`pocketmq archive`: ships a store's log and tables; lists archives and lakes."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Final

import click

from pocketmq.cli.groups import NamingGroup
from pocketmq.cli.options import (
    DURATION,
    PATH,
    PAUSE,
    examples,
    form_option,
    set_option,
    wall_ms,
)
from pocketmq.cli.output import (
    Exit,
    Failure,
    Output,
    amount,
    duration,
    moment,
    progress,
    talk,
    typed,
)
from pocketmq.cli.store.access import accessible, log_bytes
from pocketmq.cli.store.archive_list import ls
from pocketmq.cli.store.archive_target import archive_errors, opened_objects, talk_unreported
from pocketmq.cli.store.copy import sizes_of_copy
from pocketmq.cli.store.lake import compact, run

if TYPE_CHECKING:
    from pocketmq.tools.archive.reporting import ArchiveReports
    from pocketmq.tools.archive.shipping import Shipped, Shipper

RETRY_S_MAX: Final = 30.0
"""Upper limit of the pause before a failed target is tried again."""
PRUNE_EVERY_MS: Final = 600_000
FIRST_PART: Final = 0.5
"""Pause before the second round, as a part of --every; later pauses depend on the rounds."""


@click.group(
    cls=NamingGroup,
    epilog=examples(
        "pocketmq archive ship ./store /mnt/archive",
        "pocketmq archive ship ./store 's3://bucket/orders?region=eu-central-1' --keep 7d",
        "pocketmq archive run ./store /mnt/lake",
        "pocketmq archive ls /mnt/archive",
        "pocketmq store restore /mnt/archive ./store-again --at 2026-11-28T07:15:00Z",
    ),
)
def archive() -> None:
    """Archive a store for recovery, or its messages as Parquet files for other programs.

    `ship` copies new parts of log and tables to an archive each second. If the store's machine is
    lost, `pocketmq store restore` makes a store of the archive, as it was at any archived moment.
    `run` adds new messages to a lake: Parquet files by date and topic.

    A target is a directory or a URL: s3://, gs://, abfs://, hdfs://. URLs need pyarrow; credentials
    are taken from the environment.
    """


archive.add_command(run)
archive.add_command(compact)
archive.add_command(ls)


@archive.command(
    epilog=examples(
        "pocketmq archive ship ./store /mnt/archive",
        "pocketmq archive ship ./store s3://bucket/orders --every 5s --keep 30d",
        "pocketmq archive ship ./store /mnt/archive --once      for cron",
    )
)
@click.argument("directory", metavar="DIR", type=PATH)
@click.argument("target", metavar="TARGET")
@click.option(
    "--every", "every_s", type=PAUSE, default="1s", show_default=True,
    help="Upper limit of the time until a change is archived.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Ship new bytes once, then exit.")
@click.option(
    "--keep", "keep_ms", type=DURATION, metavar="DURATION",
    help="Remove moments older than this, and the log before them [default: keep all].",
)  # fmt: skip
@set_option
@form_option
def ship(
    directory: Path, target: str, every_s: float, once: bool, keep_ms: int | None,
    assignments: tuple[str, ...], out: Output,
) -> None:  # fmt: skip
    """Ship the log and the tables of a store, running or stopped, until Ctrl-C or SIGTERM.

    The log of a running store is shipped up to its flushed offset. Queues and index are not: they
    are rebuilt when a restored store is opened. Users and TLS keys are not shipped either.

    The store is not locked. Only `pocketmq/archived.json` is written to it, so that retention can
    keep files that are not archived. A failed target is tried again. Messages are missing in the
    archive only if retention removes their files meanwhile; this is reported. A damaged log is
    shipped as it is; the damage is reported, and the exit code is 10 at the end.
    """
    from pocketmq.tools.archive.reporting import ArchiveReports
    from pocketmq.tools.archive.shipping import Shipper

    disk = accessible(directory, read_only=True)
    sizes = sizes_of_copy(disk, directory, assignments)
    objects = opened_objects(disk, target)
    with archive_errors(objects):
        shipper = Shipper(disk, directory, objects, sizes, now_ms=wall_ms)
        with progress("Shipping", log_bytes(directory)) as advance:
            shipped = shipper.round(advance)
        if keep_ms is not None:
            shipper.prune(keep_ms)
    reports = ArchiveReports(disk, directory, objects.target, sizes.commit_log_file_size_bytes)
    reports.report(shipped.upto, wall_ms())
    talk_unreported(reports.failure)
    _report(shipped)
    if not once:
        with _stopped_by_signals() as stopped:
            talk(f"Shipped up to {shipped.upto}; next rounds every {duration(int(every_s * 1000))}")
            last = _go_on(shipper, reports, stopped, every_s, keep_ms) or shipped
            shipped = last._replace(damage=last.damage or shipped.damage)
    out.show({"directory": str(directory), "target": objects.target, **shipped._asdict()})
    if shipped.damage:
        text = "the store's log is damaged; it was shipped as it is"
        raise Failure(text, Exit.DAMAGED, f"pocketmq store verify {typed(directory)}")


def _go_on(
    shipper: "Shipper",
    reports: "ArchiveReports",
    stopped: Event,
    every_s: float,
    keep_ms: int | None,
) -> "Shipped | None":
    """Ships rounds until `stopped` is set; returns the last result."""
    from pocketmq.tools.archive.pace import Pace

    shipped, target, pace = None, shipper.target, Pace(every_s)
    retry_s, pause_s = 0.0, every_s * FIRST_PART
    with _Upkeep(shipper, reports, keep_ms) as upkeep:
        while not stopped.wait(retry_s or pause_s):
            begun_s = monotonic()
            try:
                shipped = shipper.ship()
            except OSError as error:
                retry_s = min(max((retry_s or every_s) * 2, 1.0), RETRY_S_MAX)
                talk(f"{moment(wall_ms())} {target}: {error}; trying again in {retry_s:.0f} s")
                continue
            if retry_s:
                talk(f"{moment(wall_ms())} {target}: shipped up to {shipped.upto} again")
                retry_s = 0.0
            _report(shipped)
            upkeep.follow(shipped.upto)
            pause_s = pace.pause(begun_s, monotonic())
    return shipped._replace(damage=upkeep.damage) if shipped is not None else None


class _Upkeep:
    """Upkeep of an archive in a thread of its own, so that no round waits for it.

    Rounds that end meanwhile share the next upkeep. Leaving the context waits for the last one.
    """

    def __init__(self, shipper: "Shipper", reports: "ArchiveReports", keep_ms: int | None) -> None:
        self._shipper, self._reports, self._keep_ms = shipper, reports, keep_ms
        self._pruned_ms = wall_ms()
        self._upto = -1
        self._pool = ThreadPoolExecutor(1)
        self._running: Future[None] | None = None
        self.damage = ""
        """The last damage that an upkeep found."""

    def __enter__(self) -> "_Upkeep":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()
        if self._running is not None:
            self._running.result()
            if not any(error):
                self._once()

    def follow(self, upto: int) -> None:
        """Begins an upkeep after a round, unless one is running.

        Errors   those of the one before, except OSError
        """
        assert upto >= 0
        self._upto = upto
        if self._running is None or self._running.done():
            if self._running is not None:
                self._running.result()
            self._running = self._pool.submit(self._once)

    def _once(self) -> None:
        try:
            self._reports.report(self._upto, wall_ms())
            if found := self._shipper.upkeep():
                self.damage = found
                talk(f"Damage: {found}")
            if self._keep_ms is not None and wall_ms() - self._pruned_ms > PRUNE_EVERY_MS:
                self._shipper.prune(self._keep_ms)
                self._pruned_ms = wall_ms()
        except OSError as error:
            talk(f"{moment(wall_ms())} {self._shipper.target}: upkeep: {error}; trying again")


def _report(shipped: "Shipped") -> None:
    if shipped.gap:
        lost = f"retention removed {amount(shipped.gap)} before they were shipped"
        talk(f"Note: {lost}; later moments begin after them")
    if shipped.damage:
        talk(f"Damage: {shipped.damage}")


@contextmanager
def _stopped_by_signals() -> Iterator[Event]:
    """Yields an event that SIGINT and SIGTERM set."""
    stopped = Event()
    stop: Callable[[int, object], None] = lambda number, frame: stopped.set()  # noqa: E731
    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
