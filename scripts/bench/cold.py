"""Latency of sends while another process reads old messages from the disk.

Sends arrive at a constant rate. Another process, with the lowest priority, pulls a gigabyte of
messages of 64 KiB:

    cold         in the largest replies; before each pass the log is dropped from the page cache
    warm         in the largest replies, from the page cache: the cost of the pulls themselves
    cold_small   like cold, in replies of the default size

    python -m bench.cold TARGET DIRECTORY END MODE

runs that process, which pulls until its input ends. DIRECTORY is the commit log, END the queue
offset after the last message pulled.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from time import perf_counter, sleep

import grpc

from bench.servers import ASYNC, BROKER, Server, broker_server, lag_bound_ms, load
from harness.figures import Extent, Figure, ratios, turns
from harness.process import ROOT, module, tell
from pocketmq.rpc.pb import broker_pb2 as pb

OLD_TOPIC = "bench-old"
TOPIC = "bench"
BODY_SIZE = 64 * 1024
OLD_COUNT = 16 * 1024
BATCH_SIZE = 48
FRESH_COUNT = 2 * 1024
"""Newest messages of the old topic; the broker reads them through its mapped file."""
PULL_COUNT = 1_024
PULL_SIZE = 64 * 1024 * 1024
"""Requested bytes of a pull; the broker limits them to the largest reply."""
RATE = 200.0
SECONDS = 1.5
MODES = ("quiet", "cold", "warm", "cold_small")
SAMPLE_STEP = 1024 * 1024
RESIDENT_SHARE_MAX = 0.05


# --- the process that pulls ---------------------------------------------------------------------


def log_files(directory: Path, upto: int) -> list[Path]:
    """Returns the files of a commit log that end below a physical offset, oldest first."""
    paths = sorted(directory.iterdir())
    return [path for path in paths if int(path.name) + path.stat().st_size <= upto]


def drop_pages(paths: Iterable[Path]) -> None:
    """Drops the clean pages of files from the page cache, except pages that a process maps."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def resident_share(paths: Iterable[Path]) -> float:
    """Returns the share of the files that is in the page cache, from one sample a megabyte."""
    found = count = 0
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        try:
            for position in range(0, os.fstat(descriptor).st_size, SAMPLE_STEP):
                count += 1
                found += _is_resident(descriptor, position)
        finally:
            os.close(descriptor)
    return found / count if count else 0.0


def _is_resident(descriptor: int, position: int) -> bool:
    try:
        return os.preadv(descriptor, [bytearray(1)], position, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False


def pull_on(target: str, directory: Path, end: int, mode: str) -> dict[str, float]:
    """Pulls the old messages repeatedly; returns bytes, seconds, the largest resident share."""
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(target, options=options) as channel:
        method = channel.unary_unary(BROKER + "PullMessage")
        pulled, resident, begun = 0, 0.0, perf_counter()
        place, files = end, log_files(directory, end * BODY_SIZE)
        while not select([sys.stdin], [], [], 0)[0]:
            if place >= end:
                place = 0
                if mode != "warm":
                    drop_pages(files)
                    resident = max(resident, resident_share(files))
            request = pb.PullMessageRequest(
                topic=OLD_TOPIC, queue_id=0, offset=place, max_messages=PULL_COUNT,
                max_bytes=0 if mode == "cold_small" else PULL_SIZE, shape=pb.RECORDS,
            )  # fmt: skip
            answer = pb.PullMessageResponse.FromString(method(request.SerializeToString()))
            if answer.status != pb.FOUND:
                raise SystemExit(f"a pull at {place} answered {pb.PullStatus.Name(answer.status)}")
            pulled += len(answer.records)
            place = answer.next_begin_offset
    return {"bytes": pulled, "seconds": perf_counter() - begun, "resident": resident}


# --- figures ------------------------------------------------------------------------------------


def cold_figures(extent: Extent) -> list[Figure]:
    """P99 of a send while old messages are pulled ÷ p99 of a send in a quiet broker."""
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as place:
        directory = Path(place) / "store"
        count = FRESH_COUNT + extent.count(OLD_COUNT)
        _fill(directory, count)
        with broker_server(ASYNC, directory=directory) as server:
            server.create_topics({TOPIC: 1})
            rows = [
                _round(server, number, extent.seconds(SECONDS), count - FRESH_COUNT)
                for number in range(extent.rounds)
            ]
            server.check_stored({OLD_TOPIC: count, TOPIC: int(sum(row["sent"] for row in rows))})
    quiet = [row["quiet"] for row in rows]
    ratio = {mode: ratios((row[mode] for row in rows), quiet) for mode in MODES}
    what = "p99 of a send at 200/s while cold messages are pulled"
    figures = [
        Figure.of("cold", f"{what} ÷ quiet", ratio["cold"], "ratio", "≤ 2"),
        Figure.of("cold_small", f"{what}, 4 MiB each ÷ quiet", ratio["cold_small"], "ratio", "≤ 2"),
        Figure.of("cold_warm", "the same while they are in memory ÷ quiet", ratio["warm"], "ratio"),
        Figure.of("cold_quiet_p99", "p99 of a send, quiet", quiet, "ms"),
        Figure.of("cold_pulled", "cold bytes pulled", [row["cold_mb"] for row in rows], "MB/s"),
    ]
    for mode, name in {"cold": "cold_lag", "cold_small": "cold_small_lag"}.items():
        lags = [row[f"{mode}_lag"] for row in rows if f"{mode}_lag" in row]
        what = f"lag of the loop as its metric samples it, at most; pulls {mode}"
        figures += [Figure.of(name, what, lags, "ms")] if lags else []
    return figures


def _fill(directory: Path, count: int) -> None:
    """Stores the old messages, then ends the broker, whose maps would keep pages in memory."""
    body = random.Random(1).randbytes(BODY_SIZE)
    with broker_server(ASYNC, directory=directory) as server:
        server.create_topics({OLD_TOPIC: 1})
        for begin in range(0, count, BATCH_SIZE):
            size = min(BATCH_SIZE, count - begin)
            server.send([pb.Message(topic=OLD_TOPIC, queue_id=0, body=body)] * size)
        server.check_stored({OLD_TOPIC: count})


def _round(server: Server, number: int, seconds: float, end: int) -> dict[str, float]:
    """Returns p99, MB/s of pulls and the bound of the loop's lag by mode, and the messages sent."""
    row: dict[str, float] = {"sent": 0}
    for mode in turns(MODES, number):
        before = server.page("/metrics")
        with _pulling(server, end, mode) as puller:
            message = pb.Message(topic=TOPIC, queue_id=0, body=bytes(1024))
            request = pb.SendMessageRequest(messages=[message]).SerializeToString()
            run = load(server, BROKER + "SendMessage", request, rate=RATE, seconds=seconds)
        row[mode] = run["p99_ms"]
        row["sent"] += run["total"]
        row[f"{mode}_max"] = run["max_ms"]
        if puller:
            row[f"{mode}_mb"] = puller["bytes"] / puller["seconds"] / 1e6
            if puller["resident"] > RESIDENT_SHARE_MAX:
                raise SystemExit(f"{puller['resident']:.0%} of the dropped pages are in memory")
        lag = lag_bound_ms(before, server.page("/metrics"))
        if lag is not None:
            row[f"{mode}_lag"] = lag
        sleep(0.2)
    tell({"round": number, **row})
    return row


@contextmanager
def _pulling(server: Server, end: int, mode: str) -> Iterator[dict[str, float]]:
    """Pulls in another process during the block; the yielded numbers are filled at its end."""
    found: dict[str, float] = {}
    if mode == "quiet":
        yield found
        return
    assert server.store is not None
    command = module("bench.cold", server.target, server.store / "commitlog", end, mode)
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, preexec_fn=lambda: os.nice(19)
    )
    with process:
        try:
            yield found
            out = process.communicate(timeout=120)[0]
        finally:
            if process.poll() is None:
                process.kill()
    if process.returncode:
        raise SystemExit("the process that pulls has failed")
    found.update(json.loads(out))


def main() -> None:
    """Pulls in the mode of the arguments."""
    target, directory, end, mode = sys.argv[1:]
    found = pull_on(target, Path(directory), int(end), mode)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
