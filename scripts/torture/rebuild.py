"""Checks that every way to build a store's views gives the same bytes, on a large store.

The daemon receives `budget.messages` messages (50 topics, 400 queues) and stops in order; the views
written by its dispatch are the reference. Then the views are built from the log alone by
`store rebuild`, and by `backfill run` with 1, 2 and 7 partitions, with a worker killed by SIGKILL,
and with a driver killed half-way and started again. All files are compared by sha256.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.rebuild import spark_workers
from bench.servers import broker_server
from harness.budget import Budget
from harness.process import ROOT, apart, module
from pocketmq.format.names import CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY

PARTITIONS = (1, 2, 7)
KILLED_AFTER_SECONDS = 1.0
PIECE = "16MiB"
"""Size of a range of the log: small, so that there are many tasks."""


def make_store(directory: Path, count: int, seed: int) -> dict[str, Any]:
    """Fills a store through the daemon; returns the acknowledged numbers."""
    with broker_server("store.flush=async", directory=directory) as server:
        return apart("torture.load", server.target, count, seed)


def digests(directory: Path) -> dict[str, str]:
    """Returns the sha256 of every file of the views."""
    found = {}
    for name in (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY):
        for path in sorted((directory / name).rglob("*")):
            if path.is_file():
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                found[str(path.relative_to(directory))] = digest
    return found


def pocketmq(*arguments: str, killed: Callable[[subprocess.Popen[str]], None] | None = None) -> int:
    """Runs the command line, and meanwhile `killed`; returns the exit code."""
    process = subprocess.Popen(
        module("pocketmq", *arguments), cwd=ROOT, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if killed is not None:
        killed(process)
    _, told = process.communicate()
    if process.returncode and killed is None:
        raise SystemExit(f"pocketmq {' '.join(arguments)}: {told}")
    return process.returncode


def kill_a_worker(process: subprocess.Popen[str]) -> None:
    """Kills one of Spark's Python workers during its work."""
    before = set(spark_workers())
    while process.poll() is None:
        workers = sorted(set(spark_workers()) - before)
        if len(workers) >= 2:  # The first one is the daemon that forks the others.
            time.sleep(KILLED_AFTER_SECONDS)
            try:
                os.kill(workers[-1], signal.SIGKILL)
            except ProcessLookupError:
                continue
            return
        time.sleep(0.05)


def kill_the_driver(out: Path) -> Callable[[subprocess.Popen[str]], None]:
    """Returns a function that kills a driver once some ranges are finished."""

    def kill(process: subprocess.Popen[str]) -> None:
        ranges = out / "rebuild" / "ranges"
        while process.poll() is None:
            if ranges.is_dir() and len(list(ranges.glob("*.json"))) >= 3:
                process.kill()
                return
            time.sleep(0.05)

    return kill


def compare(name: str, out: Path, wanted: dict[str, str]) -> None:
    """Compares all files of a run with the broker's files, and reports differences."""
    found = digests(out)
    different = sorted(k for k in wanted.keys() | found.keys() if wanted.get(k) != found.get(k))
    if different:
        raise SystemExit(f"{name}: {len(different)} files differ: {different[:5]}")
    print(json.dumps({"run": name, "files": len(found), "identical": True}), flush=True)


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs all builds regardless of the time; returns the figures."""
    count, seed = budget.messages, budget.seed
    store, out = place / "store", place / "out"
    begun = perf_counter()
    acknowledged = make_store(store, count, seed)
    wanted = digests(store)
    figures = {
        **acknowledged, "seed": seed, "files": len(wanted),
        "index_files": sum(name.startswith(INDEX_DIRECTORY) for name in wanted),
        "log_bytes": sum(path.stat().st_size for path in (store / "commitlog").iterdir()),
        "made_in_s": round(perf_counter() - begun, 1),
    }  # fmt: skip
    print(json.dumps(figures), flush=True)
    pocketmq("store", "verify", str(store))
    print(json.dumps({"run": "store verify", "findings": 0}), flush=True)
    pocketmq("store", "rebuild", str(store), "--out", str(out))
    compare("store rebuild", out, wanted)
    backfill = ("backfill", "run", str(store), "--out", str(out), "--piece-size", PIECE)
    for partitions in PARTITIONS:
        shutil.rmtree(out)
        pocketmq(*backfill, "--master", "local[2]", "--partitions", str(partitions))
        compare(f"backfill, {partitions} partitions", out, wanted)
    shutil.rmtree(out)
    if pocketmq(*backfill, "--master", "local[2]", "--partitions", "7", killed=kill_a_worker):
        raise SystemExit("the job did not survive the loss of a worker")
    compare("backfill, a worker killed", out, wanted)
    shutil.rmtree(out)
    pocketmq(*backfill, "--master", "local[2]", killed=kill_the_driver(out))
    pocketmq(*backfill, "--master", "local[2]")
    compare("backfill, the driver killed and started again", out, wanted)
    figures["runs_identical"] = len(PARTITIONS) + 3
    figures["seconds"] = round(perf_counter() - begun, 1)
    return figures
