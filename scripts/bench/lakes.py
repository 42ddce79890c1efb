"""Reading a lake from an S3 server beside reading it from the disk, by Spark.

    python -m bench.lakes DIRECTORY URL COUNT ROUNDS      the queries, in a process of their own

A first query of each kind warms Java and the caches up. The sink is Spark's `noop`, which takes
every row of the given columns. The server, versitygw, shares the processors with Spark.
"""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from bench.store import write_log
from harness.figures import Extent, Figure, alternated, ratios
from harness.process import apart, ended, module
from harness.s3 import s3_bucket

COUNT: Final = 1_000_000
BODY: Final = 1_000
FILE_SIZE: Final = 256 * 1024 * 1024
COLUMNS: Final = "topic,queue_id,queue_offset,physical_offset,keys,store_timestamp,body"
DISK, SERVER = "disk", "server"


def lake_figures(extent: Extent) -> list[Figure]:
    """Messages a second from an S3 server ÷ from the disk, in alternating rounds."""
    count = extent.count(COUNT)
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as made:
        place = Path(made)
        store, directory = place / "store", place / "lake"
        write_log(store, count, body=BODY, file_size=FILE_SIZE)
        with s3_bucket(place) as bucket:
            url = bucket.target("lake")
            for target in (directory, url):
                ended(module("pocketmq", "archive", "run", store, target))
            found = apart("bench.lakes", directory, url, count, extent.rounds)
    what = "reading a lake with Spark from an S3 server on the same processors ÷ from the disk"
    rates = [rate / 1000 for rate in found[DISK]]
    return [
        Figure.of("lake_server", what, ratios(found[SERVER], found[DISK]), "ratio", "≥ 0.7"),
        Figure.of("lake_disk", "reading a lake from the disk, thousand messages", rates, "k/s"),
    ]


def rates_of(directory: str, url: str, count: int, rounds: int) -> dict[str, list[float]]:
    """Returns messages a second of each query by place."""
    from pocketmq.spark import open_session, register

    session = open_session("local[2]", settings={"spark.log.level": "OFF"})
    register(session)

    def rate(target: str) -> float:
        frame = session.read.format("pocketmq").option("columns", COLUMNS).load(target)
        begun = monotonic()
        frame.write.format("noop").mode("overwrite").save()
        return count / (monotonic() - begun)

    places = {DISK: directory, SERVER: url}
    for target in places.values():
        found = session.read.format("pocketmq").option("columns", COLUMNS).load(target).count()
        if found != count:
            raise SystemExit(f"the lake has {found} messages, not {count}")
    subjects = {name: partial(rate, target) for name, target in places.items()}
    rows = alternated(rounds, subjects, unit="messages a second")
    session.stop()
    return rows


if __name__ == "__main__":
    print(json.dumps(rates_of(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
