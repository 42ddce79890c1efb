"""Rates of Spark streams, in processor time of all processes of Spark, and the age of messages.

    python -m bench.streams STORE ENDPOINT COUNT SECONDS      the queries, in a process of their own

A first query of each kind warms Java up. The sink is Spark's `noop`, which takes every row.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from threading import Thread
from time import monotonic, sleep, time
from typing import Any, Final

from bench.servers import ASYNC, BROKER, TOPIC, Server, broker_server, load, send_request
from bench.store import write_log
from harness.figures import Extent, Figure
from harness.process import apart, tell
from pocketmq.client import Client, Message

COUNT: Final = 1_000_000
BODY: Final = 1_000
FILE_SIZE: Final = 256 * 1024 * 1024
LATENCY_S: Final = 20.0
RATE: Final = 50
"""Messages a second whose age is measured."""
COLUMNS: Final = "topic,queue_id,queue_offset,keys,store_timestamp,body"
AGES: Final = "ages"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def stream_figures(extent: Extent) -> list[Figure]:
    """Messages for each second of processor time, from a store and from a broker; their age."""
    count, rows = extent.count(COUNT), []
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as place:
        store = Path(place) / "store"
        write_log(store, count, body=BODY, file_size=FILE_SIZE)
        with broker_server(ASYNC, directory=Path(place) / "broker") as server:
            _fill(server, count)
            for _ in range(extent.rounds):
                row = apart("bench.streams", store, server.target, count, extent.seconds(LATENCY_S))
                rows.append(row)
    return [
        Figure.of(
            f"stream_{name}", f"stream of a {name}: messages a second of processor time",
            [row[name] / 1000 for row in rows], "k/s", wanted,
        )
        for name, wanted in (("store", "≥ 100"), ("broker", "≥ 30"))
    ] + [
        Figure.of(
            "stream_age", "age of a message in its batch, triggers of 1 s, median",
            [row["age_s"] for row in rows], "s", "≤ 1",
        )
    ]  # fmt: skip


def _fill(server: Server, count: int) -> None:
    server.create_topics({TOPIC: 8, AGES: 1})
    batch = 100
    requests = [send_request(batch, TOPIC, queue) for queue in range(8)]
    load(server, BROKER + "SendMessage", *requests, in_flight=4, count=count // batch)
    server.catch_up()


# -- the queries -----------------------------------------------------------------------------------
def queries(store: str, endpoint: str, count: int, seconds: float) -> dict[str, float]:
    """Runs the queries; returns rates, and the median age in s."""
    from pocketmq.spark import open_session, register

    settings = {"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "2"}
    session = open_session("local[2]", settings=settings)
    register(session)

    def source(**options: str | int) -> Any:
        reader = session.readStream.format("pocketmq").option("columns", COLUMNS)
        return reader.options(**options)

    kinds: dict[str, Callable[[], Any]] = {
        "store": lambda: source(maxOffsetsPerTrigger=250_000).load(store),
        "broker": lambda: source(
            endpoint=endpoint, topic=TOPIC, maxOffsetsPerTrigger=250_000
        ).load(),
    }
    found = {}
    for name, frame in kinds.items():
        for _ in range(2):
            before = _spent()
            rows = _ended(frame())
            used = _spent() - before
        if rows != count:
            raise SystemExit(f"the stream of a {name} has {rows} messages, not {count}")
        found[name] = count / used
    found["age_s"] = _age(source(endpoint=endpoint, topic=AGES).load(), endpoint, seconds)
    session.stop()
    return found


def _ended(frame: Any) -> int:
    """Runs a query to its end; returns the number of its rows."""
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sum(progress["numInputRows"] for progress in query.recentProgress)


def _age(frame: Any, endpoint: str, seconds: float) -> float:
    """Returns the median time from a message's send to the call with its batch."""
    ages: list[float] = []
    is_over = False

    def send() -> None:
        with Client(endpoint) as client:
            while not is_over:
                client.send(Message(AGES, b"%f" % time()))
                sleep(1 / RATE)

    def take(batch: Any, _: int) -> None:
        bodies = [bytes(row.body) for row in batch.select("body").collect()]
        now = time()
        ages.extend(now - float(body) for body in bodies)

    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            frame.writeStream.foreachBatch(take)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="1 second")
            .start()
        )
        sender = Thread(target=send)
        sender.start()
        end = monotonic() + seconds
        while monotonic() < end and query.isActive:
            sleep(0.1)
        is_over = True
        sender.join()
        query.stop()
    tell({"messages": len(ages)})
    return median(ages[len(ages) // 4 :])  # The first batches wait for Java.


def _spent() -> float:
    """Returns the processor time (s) of this process and its descendants, ended ones included."""
    parents, used = dict[int, int](), dict[int, float]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        number = int(path.parent.name)
        parents[number] = int(words[1])
        used[number] = sum(map(int, words[11:15])) / _TICKS
    mine = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(used[number] for number in mine)


if __name__ == "__main__":
    store, endpoint, count, seconds = sys.argv[1:]
    print(json.dumps(queries(store, endpoint, int(count), float(seconds))))
