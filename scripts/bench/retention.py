"""Latency of clients while retention deletes commit-log files.

A store of small files is created once. Each round serves a copy with a size limit that most of the
files exceed, while sends and pulls continue at a constant rate. The remaining files must be the
newest ones within the limit, and the log must begin at the first of them.
"""

import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep

from bench.servers import ASYNC, BROKER, Server, broker_server, lag_bound_ms, loading
from harness.figures import Extent, Figure
from harness.process import tell
from pocketmq.rpc.pb import broker_pb2 as pb

TOPIC = "bench"
FILE_SIZE = 4 * 1024 * 1024
FILE_COUNT = 90
KEPT_COUNT = 18
WATCHED_COUNT = 50
"""Least number of expired files that remain when the load begins: a start deletes at once."""
PAUSE_MS = 60
"""Pause between two deletions; with RocketMQ's 100 ms a round would last longer."""
INTERVAL_MS = 1_000
SECONDS = 5.0
WAIT_SECONDS = 10.0
SEND_RATE = 200.0
PULL_RATE = 100.0
BATCH_SIZE = 1_000


def wanted_bases(bases: Sequence[int], file_size: int, limit: int) -> list[int]:
    """Returns the bases of the files that retention by size keeps, oldest first.

    bases   physical offset of the first byte of each log file, the current one included
    """
    count = max(limit // file_size, 1)
    return sorted(bases)[-count:]


def retention_figures(extent: Extent) -> list[Figure]:
    """Longest wait of a client during the deletion of files."""
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as place:
        original = Path(place) / "original"
        count = _fill(original)
        rows = []
        for number in range(extent.rounds):
            directory = Path(place) / "store"
            shutil.copytree(original, directory)
            row = _round(directory, extent.seconds(SECONDS), count)
            tell({"round": number, **row})
            rows.append(row)
            shutil.rmtree(directory)
    gone = f"while {FILE_COUNT - KEPT_COUNT} files of {FILE_SIZE >> 20} MiB go"
    figures = [
        Figure.of(
            "retention", f"longest wait of a send at 200/s {gone}",
            [row["send_max"] for row in rows], "ms", "≤ 50",
        ),
        Figure.of(
            "retention_pull", "longest wait of a pull at 100/s meanwhile",
            [row["pull_max"] for row in rows], "ms", "≤ 50",
        ),
        Figure.of("retention_p99", "p99 of a send", [row["send_p99"] for row in rows], "ms"),
    ]  # fmt: skip
    lags = [row["lag"] for row in rows if "lag" in row]
    if lags:
        what = "lag of the loop as its metric samples it, at most"
        figures.append(Figure.of("retention_lag", what, lags, "ms", "≤ 50"))
    return figures


def _settings(*more: str) -> list[str]:
    return [ASYNC, f"store.commit_log_file_size_bytes={FILE_SIZE}", *more]


def _fill(directory: Path) -> int:
    """Fills FILE_COUNT files, the last one in part; returns the number of messages."""
    body = random.Random(1).randbytes(1024)
    count = 0
    with broker_server(*_settings("retention.mode=off"), directory=directory) as server:
        server.create_topics({TOPIC: 1})
        batch = [pb.Message(topic=TOPIC, queue_id=0, body=body)] * BATCH_SIZE
        while server.status().appended_offset < (FILE_COUNT - 1) * FILE_SIZE:
            server.send(batch)
            count += BATCH_SIZE
        server.check_stored({TOPIC: count})
    return count


def _round(directory: Path, seconds: float, count: int) -> dict[str, float]:
    """Serves a store during the deletion of its files; returns the longest waits and lag in ms."""
    settings = _settings(
        "retention.mode=on", f"retention.size_bytes={KEPT_COUNT * FILE_SIZE}", "retention.hours=",
        "retention.age_ms=0", f"retention.interval_ms={INTERVAL_MS}ms",
        f"retention.pause_ms={PAUSE_MS}ms", f"retention.file_batch_max={FILE_COUNT}",
    )  # fmt: skip
    send = pb.SendMessageRequest(messages=[pb.Message(topic=TOPIC, queue_id=0, body=bytes(1024))])
    pull = pb.PullMessageRequest(topic=TOPIC, queue_id=0, offset=count - 32, shape=pb.RECORDS)
    with broker_server(*settings, directory=directory) as server:
        before = server.page("/metrics")
        method, request = BROKER + "PullMessage", pull.SerializeToString()
        with loading(server, method, [request], rate=PULL_RATE, seconds=seconds) as pulling:
            method, request = BROKER + "SendMessage", send.SerializeToString()
            with loading(server, method, [request], rate=SEND_RATE, seconds=seconds) as sending:
                sending.wait_until_begun()
                watched = server.status().min_offset // FILE_SIZE
                sent, pulled = sending.result(), pulling.result()
        lag = lag_bound_ms(before, server.page("/metrics"))
        _wait_for_end(server)
        server.check_stored({TOPIC: count + int(sent["total"])})
        _check(server, directory, count_gone=watched)
    row = {"send_max": sent["max_ms"], "send_p99": sent["p99_ms"], "pull_max": pulled["max_ms"]}
    return row if lag is None else {**row, "lag": lag}


def _wait_for_end(server: Server) -> None:
    """Waits until no file remains to be deleted, or deletion makes no progress."""
    end = monotonic() + WAIT_SECONDS
    while monotonic() < end:
        status = server.status()
        if status.appended_offset - status.min_offset <= KEPT_COUNT * FILE_SIZE:
            return
        sleep(0.1)


def _check(server: Server, directory: Path, *, count_gone: int) -> None:
    """Ends the measurement unless exactly the right files were deleted, and during the load."""
    status = server.status()
    end = -(-status.appended_offset // FILE_SIZE) * FILE_SIZE
    wanted = wanted_bases(range(0, end, FILE_SIZE), FILE_SIZE, KEPT_COUNT * FILE_SIZE)
    names = sorted(path.name for path in (directory / "commitlog").iterdir())
    found = [int(name) for name in names if int(name) < end]
    if found != wanted or status.min_offset != wanted[0]:
        raise SystemExit(
            f"files from {found[0]} to {found[-1]} are left, the log begins at {status.min_offset};"
            f" wanted are those from {wanted[0]} to {wanted[-1]}"
        )
    if wanted[0] // FILE_SIZE - count_gone < WATCHED_COUNT:
        raise SystemExit(f"{count_gone} files were gone before the load began")
