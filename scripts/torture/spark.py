"""Builds views by several hosts that are killed and overtaken, and counts files that differ.

hosts     two hosts in this process, over a disk that writes whole pages as Linux's NFS client does;
          tasks meet in the worst order, run twice (speculation) and are killed at any write
cluster   a standalone Spark cluster of two workers, one of which is killed
"""

import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.store import write_log
from harness.budget import Budget
from harness.process import ROOT
from pocketmq.rebuild.log_files import KnownShape, find_log_files
from pocketmq.rebuild.parallel import RebuildJob, rebuild_parallel
from pocketmq.rebuild.sequential import rebuild
from tests.rebuild.widening_disk import WideningDisk
from torture.rebuild import digests

TOPICS = 1_250
"""Topics with 8 queues each."""
RECORDS = 40_000
FILE_SIZE = 1024 * 1024
RUNS = 50
CALLS_BEFORE_DEATH = 8_000
"""Mean number of an attempt's writes and renames before it is killed."""
SHAPE = KnownShape(
    index_slot_count=5_000, index_entry_count_max=20_000, time_zone="UTC",
    consume_queue_file_size_bytes=6_000,
)  # fmt: skip
SCRIPT = ROOT / "scripts" / "spark_cluster_example"


class Killed(BaseException):
    """The host ended here."""


class Hosts:
    """A map over two hosts; attempts are killed at random calls, and repeated."""

    def __init__(
        self, patched: pytest.MonkeyPatch, chance: random.Random, told: Counter[str]
    ) -> None:
        self._disk = WideningDisk(patched, twins=chance.random() < 0.5)
        self._chance = chance
        self._told = told
        self._left = 0
        self._is_working = False
        for name in ("pwrite", "replace", "fsync"):
            patched.setattr(os, name, self._mortal(getattr(os, name)))

    def __call__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        order = list(range(len(tasks)))
        self._chance.shuffle(order)
        found = self._disk(lambda task: self._tried(function, task), [tasks[n] for n in order])
        answers = dict(zip(order, found, strict=True))
        return [answers[number] for number in range(len(tasks))]

    def _tried(self, function: Callable[[Any], Any], task: Any) -> Any:
        while True:
            self._told["attempts"] += 1
            try:
                with self._working():
                    return function(task)
            except Killed:
                self._told["kills"] += 1

    @contextmanager
    def _working(self) -> Iterator[None]:
        before = self._is_working
        self._is_working = True
        self._left = int(self._chance.expovariate(1 / CALLS_BEFORE_DEATH)) + 1
        try:
            yield
        finally:
            self._is_working = before

    def _mortal(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            if self._is_working:
                self._left -= 1
                if not self._left:
                    raise Killed
            return call(*given)

        return called


def hosts(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs up to `RUNS` rebuilds of 10,000 queues by two hosts; returns the figures."""
    store, wanted_out = place / "store", place / "wanted"
    write_log(store, RECORDS, body=100, file_size=FILE_SIZE, topics=TOPICS)
    files = find_log_files(store, FILE_SIZE)
    found = rebuild(files, SHAPE, wanted_out, upto=1 << 62)
    wanted, told, runs = digests(wanted_out), Counter[str](), 0
    while runs < RUNS and (not runs or budget.left()):
        chance = random.Random(budget.seed * 1_000 + runs)
        out = place / f"run{runs}"
        job = RebuildJob(
            files, SHAPE, out, 1 << 62, workers=chance.choice((2, 4)),
            group_units=chance.choice((3_000, 8_000, 40_000)),
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patched:
            rebuild_parallel(job, Hosts(patched, chance, told))
        made = digests(out)
        told["differing_files"] += sum(
            made.get(name) != wanted.get(name) for name in made.keys() | wanted.keys()
        )
        shutil.rmtree(out)
        runs += 1
    if told["differing_files"]:
        raise SystemExit(f"{told['differing_files']} files differ after {runs} runs")
    return {"runs": runs, "queues": len(found.queues), "files": len(wanted)} | told


def cluster(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs the example of a cluster until the time is over; returns the figures."""
    runs = 0
    while not runs or budget.left():
        environment = os.environ | {"TMPDIR": str(place)}
        done = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True)
        if done.returncode or done.stdout.splitlines()[-1:] != ["identical"]:
            raise SystemExit(f"{SCRIPT}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        runs += 1
    return {"runs": runs, "workers_killed": runs, "differing_files": 0}
