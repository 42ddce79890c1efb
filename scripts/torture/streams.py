"""Kills a Spark query that copies a log to a broker and to files; no copy differs.

    python -m torture.streams STORE ENDPOINT PLACE PER_BATCH     the query, a process to be killed

The query reads the store's directory with limited batches. It writes each batch to a topic of a
broker, which recognises a repeated batch, and to Spark's file sink.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import pyarrow.parquet as pq

from bench.store import write_log
from harness.budget import Budget
from harness.process import Failed, environment, module, running, serve
from pocketmq.client import Client
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.tools.selection import LogSearch, Selection

KILLS: Final = 20
BATCHES: Final = 30
"""Batches that the messages fill at least."""
BODY: Final = 200
FILE_SIZE: Final = 64 * 1024 * 1024
COPIES: Final = "copies"
PLACE: Final = "place"
"""Property of a copy: the physical offset of its original."""
SUMS_END: Final = 1 << 256
KILL_S: Final = (0.0, 5.0)
"""After the first progress of a process."""
LIFE_S: Final = 180.0
"""Time after which a process without progress is a failure."""
NO_START: Final = "failed to connect back"
"""Spark's error if its Python process does not start within 10 s, as on a busy machine."""
SINKS: Final = ("broker", "files")
SETTINGS: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.log.level": "OFF",
    "spark.sql.streaming.metricsEnabled": "false",
}


def streams(place: Path, budget: Budget) -> dict[str, Any]:
    """Kills the query KILLS times, and lets it end; returns the figures.

    Errors   AssertionError: a copy lacks messages, or has one twice
    """
    store, copies, out = place / "store", place / "copies", place / "out"
    write_log(store, budget.messages, body=BODY, file_size=FILE_SIZE)
    chance, kills, is_over, begun = random.Random(budget.seed), 0, False, monotonic()
    settings = ("broker.dedupe_window_ms=1h", "broker.auto_create_topics=true")
    with running(serve(copies, *settings), place / "log", in_order=True) as serving:
        with Client(serving.ready["grpc"]) as client:
            client.admin.create_topic(COPIES, queue_count=8)
        per_batch = max(budget.messages // BATCHES, 1)
        command = module("torture.streams", store, serving.ready["grpc"], out, per_batch)
        while kills < KILLS and budget.left() and not is_over:
            code = _life(command, place, chance)
            kills, is_over = kills + (code < 0), code == 0
            budget.progress(f"{kills} kills, {_batches(out)} batches")
        last = monotonic()
        while not is_over:
            is_over = _life(command, place, None) == 0
    wanted = _sum((str(m.physical_offset), m.body) for m in _messages(store, ()))
    found = {
        "broker": _sum((m.properties[PLACE], m.body) for m in _messages(copies, (COPIES,))),
        "files": _sum(_rows(out / "files")),
    }
    for name, one in found.items():
        assert one == wanted, f"{name}: {one[0]} messages of {wanted[0]}, or others"
    return {
        "kills": kills, "batches": _batches(out), "messages, once in each copy": wanted[0],
        "lives, s": round(last - begun, 1), "last life, s": round(monotonic() - last, 1),
    }  # fmt: skip


def _life(command: list[str], place: Path, chance: random.Random | None) -> int:
    """Runs the query, and kills it some time after its first progress; None: it is not killed.

    Returns  its exit code: below 0, it was killed; above, Spark did not start its Python process
    Errors   Failed: the query ended otherwise, or makes no progress
    """
    out, said = place / "out", place / "said"
    before, begun = _batches(out), monotonic()
    with said.open("w") as file, subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=file, start_new_session=True
    ) as process:  # fmt: skip
        try:
            while chance and _batches(out) == before and process.poll() is None:
                if monotonic() - begun > LIFE_S:
                    raise Failed(f"no batch in {LIFE_S} s: {said.read_text()[-3000:]}")
                sleep(0.05)
            process.wait(chance.uniform(*KILL_S) if chance else None)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError):  # With Spark's Java; Python workers end with it.
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode > 0 and NO_START not in said.read_text():
        raise Failed(f"the query ended with {process.returncode}: {said.read_text()[-3000:]}")
    return process.returncode


def _batches(out: Path) -> int:
    """Returns the number of batches that the sinks committed."""
    places = [out / f"{name}.checkpoint" / "commits" for name in SINKS]
    return sum(
        path.name.isdecimal() for place in places if place.is_dir() for path in place.iterdir()
    )


def _messages(store: Path, topics: tuple[str, ...]) -> Iterator[Any]:
    yield from LogSearch(find_log_files(store), Selection(topics)).messages()


def _rows(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the rows that the file sink committed: of the files that its own log names."""
    names = set[str]()
    for log in sorted((directory / "_spark_metadata").glob("[0-9]*")):
        entries = map(json.loads, log.read_text().splitlines()[1:])  # After the format's version.
        names |= {str(entry["path"]).rpartition("/")[2] for entry in entries}
    for name in sorted(names):
        table = pq.read_table(directory / name, columns=["physical_offset", "body"])
        places, bodies = (table.column(number).to_pylist() for number in (0, 1))
        yield from zip(map(str, places), bodies, strict=True)


def _sum(rows: Iterator[tuple[str, bytes]]) -> tuple[int, int]:
    """Returns the number of rows, and the sum of their digests."""
    count = total = 0
    for place, body in rows:
        total += int.from_bytes(sha256(place.encode() + b" " + body).digest())
        count += 1
    return count, total % SUMS_END


def query(store: str, endpoint: str, out: str, per_batch: str) -> None:
    """Runs both queries until they have copied the whole log."""
    from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

    from pocketmq.spark import open_session, register

    session = open_session("local[2]", settings=SETTINGS)
    register(session)
    source = (
        session.readStream.format("pocketmq")
        .option("columns", "physical_offset,body")
        .option("maxOffsetsPerTrigger", per_batch)
        .load(store)
    )
    place = F.create_map(F.lit(PLACE), F.col("physical_offset").cast("string"))
    sinks = {
        "broker": source.select("body", place.alias("properties"))
        .writeStream.format("pocketmq")
        .options(endpoint=endpoint, topic=COPIES),
        "files": source.writeStream.format("parquet").option("path", f"{out}/files"),
    }
    running = [
        sink.option("checkpointLocation", f"{out}/{name}.checkpoint")
        .trigger(availableNow=True)
        .start()
        for name, sink in sinks.items()
    ]
    for one in running:
        one.awaitTermination()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    query(*sys.argv[1:])
