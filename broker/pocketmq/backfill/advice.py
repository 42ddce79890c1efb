"""Which way of building views is the quicker one: one process, or Spark's workers.

Both do the same work for each record and entry. Spark shares it out among its workers, does a
third more, and takes its time to start; so a log has to be large before it pays, how large depends
on the workers. Seconds are those of a machine as in docs/figures.md with the log in memory.
"""

from typing import Final, NamedTuple

RECORD_SECONDS: Final = 1.6e-6
ENTRY_SECONDS: Final = 0.3e-6
SPARK_START_SECONDS: Final = 10.0
"""A Java process, a session, workers with this package loaded."""
SPARK_SHARE: Final = 1.3
"""Work of a run by Spark to that of one process: spooled entries, slot tables, digests."""
TASK_SECONDS: Final = 0.05


class Times(NamedTuple):
    """How long both ways take, about."""

    rebuild_seconds: float
    spark_seconds: float

    @property
    def is_spark_quicker(self) -> bool:
        """Whether Spark is worth starting."""
        return self.spark_seconds < self.rebuild_seconds


def expected_times(records: int, entries: int, *, tasks: int, workers: int) -> Times:
    """Returns how long it takes to build views of so many records and index entries.

    tasks     ranges that the log is cut into
    workers   tasks that run at once
    """
    work = records * RECORD_SECONDS + entries * ENTRY_SECONDS
    rounds = tasks / workers * TASK_SECONDS
    spark = SPARK_START_SECONDS + work * SPARK_SHARE / max(min(workers, tasks), 1) + rounds
    return Times(round(work, 1), round(spark, 1))
