"""Estimates whether one process or Spark's workers build views faster.

Spark divides the work among its workers, but does about a third more work and takes seconds to
start. So Spark is faster only for a large log; the threshold depends on the number of workers. The
constants in seconds were measured on the machine of docs/figures.md, with the log in memory.
"""

from typing import Final, NamedTuple

RECORD_SECONDS: Final = 1.6e-6
ENTRY_SECONDS: Final = 0.3e-6
SPARK_START_SECONDS: Final = 10.0
"""Time to start a Java process, a session, and workers with this package loaded."""
SPARK_SHARE: Final = 1.3
"""Ratio of Spark's work to one process's: Spark adds spools, slot tables and digests."""
TASK_SECONDS: Final = 0.05


class Times(NamedTuple):
    """Estimated durations of a rebuild by one process and by Spark's workers."""

    rebuild_seconds: float
    spark_seconds: float

    @property
    def is_spark_quicker(self) -> bool:
        """Whether Spark would be faster."""
        return self.spark_seconds < self.rebuild_seconds


def expected_times(records: int, entries: int, *, tasks: int, workers: int) -> Times:
    """Returns the estimated times to build the views of a log.

    records   number of records in the log
    entries   number of index entries to build
    tasks     number of ranges into which the log is cut
    workers   number of concurrent tasks
    """
    work = records * RECORD_SECONDS + entries * ENTRY_SECONDS
    rounds = tasks / workers * TASK_SECONDS
    spark = SPARK_START_SECONDS + work * SPARK_SHARE / max(min(workers, tasks), 1) + rounds
    return Times(round(work, 1), round(spark, 1))
