"""Runs the tasks of `pocketmq backfill`, on Spark or in this process."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from pocketmq.cli.options import PAIR, takes
from pocketmq.cli.output import talk

if TYPE_CHECKING:
    from pocketmq.rebuild.plan import Mapper


class Spark(NamedTuple):
    """Spark master that runs the tasks, and settings of Spark."""

    master: str
    settings: tuple[tuple[str, str], ...]

    @contextmanager
    def mapper(self, partitions: int | None = None) -> Iterator[tuple["Mapper", int]]:
        """Yields a mapper over Spark's workers, and the number of tasks that run at once.

        Errors   SparkMissing
        """
        from pocketmq.backfill.session import open_session, spark_mapper, wait_for_workers

        talk("Starting Spark")
        session = open_session(self.master, settings=dict(self.settings))
        with _interruptible():
            yield spark_mapper(session, partitions or 0), partitions or wait_for_workers(session)
        session.stop()

    @contextmanager
    def mapper_if_named(self) -> Iterator["Mapper"]:
        """Yields Spark's mapper if a master or spark-submit is used, else a local one."""
        from pocketmq.backfill.session import is_submitted
        from pocketmq.rebuild.plan import map_here

        if not self.master and not is_submitted():
            yield map_here
            return
        with self.mapper() as (mapper, _):
            yield mapper


def takes_spark(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that adds --master and --conf; `default` is the default in the help."""
    return takes(
        "spark",
        Spark,
        click.option("--master", default="", help=f"Spark master [default: {default}]."),
        click.option(
            "--conf", "settings", multiple=True, type=PAIR, help="A Spark setting; may be repeated."
        ),
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Makes Ctrl-C end the command at once.

    Spark's own handler would call Java during a call of Java, and print the resulting errors. Java
    and its tasks end with this process.
    """

    def interrupt(signal_number: int, frame: object) -> None:
        logging.disable()  # Interrupted calls would be logged with tracebacks.
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
