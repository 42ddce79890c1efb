"""A driver that ends by SIGKILL after some tasks: python driver_to_kill.py STORE OUT TASKS.

It has a Spark session of its own, so that Spark's workers die with it.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pocketmq.backfill.job import new_job, run
from pocketmq.backfill.session import open_session, spark_mapper
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.rebuild.parallel import read_range


def main(store: str, out: str, tasks_left: int, *sizes: int) -> None:
    log_bytes, queue_bytes, slots, entries = sizes
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    session = open_session("local[1]", settings=quick)
    mapper = spark_mapper(session)

    def mortal(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        nonlocal tasks_left
        if function is not read_range:
            return mapper(function, tasks)
        if len(tasks) > tasks_left:
            list(mapper(function, tasks[:tasks_left]))
            os.kill(os.getpid(), signal.SIGKILL)
        tasks_left -= len(tasks)
        return mapper(function, tasks)

    settings = KnownShape(
        commit_log_file_size_bytes=log_bytes, consume_queue_file_size_bytes=queue_bytes,
        index_slot_count=slots, index_entry_count_max=entries, time_zone="UTC",
    )  # fmt: skip
    run(new_job(Path(store), Path(out), settings, log_file_bytes=log_bytes), mortal)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
