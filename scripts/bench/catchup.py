"""A follower that copies a leader's whole log, against `cp` and sync of the same files.

    python -m bench.catchup STORE BYTES BODY

creates the leader's store: it appends messages with bodies of BODY bytes, a unique key and a tag,
until the log has BYTES bytes. In each round `cp` copies the log's files and syncs them, and an
empty follower follows. It has the log once the leader has its report, which follows the sync, and
everything once its queues and index have it too. It is then killed and starts again.
"""

import asyncio
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep

from bench.servers import ASYNC, TOPIC, Server, broker_server, lag_bound_ms
from bench.serving_inside import HOST, batch_like
from harness.figures import Extent, Figure, ratios
from harness.process import ended, module, tell
from pocketmq.files.disk import Disk
from pocketmq.format.properties import encode_properties
from pocketmq.model.batch import Batch, Destination
from pocketmq.model.message import TAGS, UNIQUE_KEY
from pocketmq.model.step import SystemClock
from pocketmq.store.message_store import open_store
from pocketmq.store.settings import StoreSettings

MIB = 1 << 20
LOG_BYTES = 1024 * MIB
BODIES = (200, 1_000)
BATCH_SIZE = 32
QUEUE_COUNT = 8
PAUSE_SECONDS = 0.02
SMALL_FILES = "store.commit_log_file_size_bytes=64MiB"
ENDED = "pocketmq_replica_lag_bytes"
BEHIND = "rocketmq_storage_dispatch_behind_bytes"


def batch(number: int, body: bytes) -> Batch:
    """Returns messages with a unique key and a tag."""
    keys = [f"{number * BATCH_SIZE + at:032X}" for at in range(BATCH_SIZE)]
    blocks = [encode_properties({UNIQUE_KEY: key, TAGS: "TagA"}) for key in keys]
    return batch_like(body, blocks, keys, [""] * BATCH_SIZE)


async def fill(directory: Path, log_bytes: int, body_bytes: int) -> None:
    """Appends messages until the log has `log_bytes`, then closes the store."""
    settings = StoreSettings(
        directory=directory, flush="async", commit_log_file_size_bytes=64 * MIB
    )
    store = await open_store(settings, SystemClock(), Disk())
    await store.tables.topics.create(TOPIC, queue_count=QUEUE_COUNT)
    body, number = random.Random(2).randbytes(body_bytes), 0
    while store.appended < log_bytes:
        destination = Destination(TOPIC, number % QUEUE_COUNT, HOST)
        await store.writing.put([(destination, batch(number, body))], wait=False)
        number += 1
        if number % 8 == 0:
            await asyncio.sleep(0)  # Lets dispatch and flush run.
    await store.close()


def copy_seconds(store: Path, target: Path) -> float:
    """Returns the seconds in which `cp` copies the log's files, and a sync makes them durable."""
    begun = perf_counter()
    ended(["cp", "-r", str(store / "commitlog"), str(target)])
    for path in target.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    return perf_counter() - begun


def total(server: Server, name: str) -> float | None:
    """Returns the sum of a metric over its labels; None if it has no row."""
    rows = [row.rpartition(" ")[2] for row in server.page("/metrics").splitlines()
            if row.startswith(name)]  # fmt: skip
    return sum(map(float, rows)) if rows else None


def followed(server: Server, is_there: Callable[[], bool]) -> tuple[float, float]:
    """Waits until a follower has something; returns when, and its highest RssAnon meanwhile."""
    mib = server.anonymous_mib()
    while not is_there():
        sleep(PAUSE_SECONDS)
        mib = max(mib, server.anonymous_mib())
    return perf_counter(), mib


class CatchUp:
    """A leader, and the rounds of followers that begin with nothing."""

    def __init__(self, leader: Server, store: Path, scratch: Path) -> None:
        self._leader = leader
        self._store = store
        self._scratch = scratch

    def round(self) -> dict[str, float]:
        """Measures `cp`, then a new follower."""
        copied, follower = self._scratch / "copied", self._scratch / "follower"
        cp = copy_seconds(self._store, copied)
        shutil.rmtree(copied)
        settings = (ASYNC, SMALL_FILES, f"replication.leader={self._leader.target}")
        end = self._leader.status().appended_offset
        with broker_server(*settings, directory=follower) as server:
            begun, before = perf_counter(), server.anonymous_mib()
            page = server.page("/metrics")
            log, log_mib = followed(server, lambda: total(self._leader, ENDED) == 0)
            views, views_mib = followed(server, lambda: total(server, BEHIND) == 0)
            lag_ms = lag_bound_ms(page, server.page("/metrics")) or 0.0
            log, views = log - begun, views - begun
            server.process.kill()
            server.process.wait()
        self._check(follower, end)
        with broker_server(*settings, directory=follower) as server:
            begun = perf_counter()
            again, again_mib = followed(server, lambda: total(self._leader, ENDED) == 0)
        shutil.rmtree(follower)
        rate = end / MIB
        return {
            "cp": rate / cp, "log": rate / log, "views": rate / views, "lag_ms": lag_ms,
            "mib": max(log_mib, views_mib) - before, "again": again - begun,
            "again_mib": again_mib - before,
        }  # fmt: skip

    def _check(self, follower: Path, end: int) -> None:
        for path in sorted((self._store / "commitlog").iterdir()):
            if (
                int(path.name) < end
                and path.read_bytes() != (follower / "commitlog" / path.name).read_bytes()
            ):
                raise SystemExit(f"{path.name} differs")


def catch_up_figures(extent: Extent) -> list[Figure]:
    """Rates of a follower that begins with nothing, by size of bodies."""
    figures: list[Figure] = []
    for body_bytes in BODIES:
        with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as temporary:
            store = Path(temporary) / "leader"
            ended(module("bench.catchup", store, extent.count(LOG_BYTES), body_bytes))
            with broker_server(ASYNC, SMALL_FILES, directory=store) as leader:
                catch_up = CatchUp(leader, store, Path(temporary))
                runs = []
                for number in range(extent.rounds):
                    runs.append(catch_up.round())
                    tell({"round": number, "body": body_bytes, **runs[-1]})
        figures += _figures(body_bytes, runs)
    return figures


def _figures(body_bytes: int, runs: list[dict[str, float]]) -> list[Figure]:
    rounds = {name: [run[name] for run in runs] for name in runs[0]}
    name = f"catchup_{body_bytes}"
    what = f"catching up from nothing, bodies of {body_bytes:,} bytes"
    shares = [ratios(rounds[part], rounds["cp"]) for part in ("log", "views")]
    return [
        Figure.of(name, f"{what}: the log on its disk ÷ cp and sync", shares[0], "ratio", "≥ 0.5"),
        Figure.of(f"{name}_views", "the same with queues and index", shares[1], "ratio"),
        Figure.of(f"{name}_log", f"{what}: the log", rounds["log"], "MiB/s"),
        Figure.of(f"{name}_cp", "cp and sync of the same files", rounds["cp"], "MiB/s"),
        Figure.of(f"{name}_memory", "RssAnon above the start's", rounds["mib"], "MiB", "≤ 64"),
        Figure.of(f"{name}_lag", "lag of its event loop, at most", rounds["lag_ms"], "ms"),
        Figure.of(f"{name}_again", "from its ready line after kill -9 to in sync",
                  rounds["again"], "s", "≤ 1"),
        Figure.of(f"{name}_again_memory", "RssAnon then, above the first start's",
                  rounds["again_mib"], "MiB"),
    ]  # fmt: skip


if __name__ == "__main__":
    asyncio.run(fill(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
