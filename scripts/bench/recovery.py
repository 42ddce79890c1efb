"""Duration of a start after kill -9, with 10,000 queues and five gigabytes of log.

    python -m bench.recovery STORE BYTES QUEUES

creates the store: it appends messages, without a server, until the log has BYTES bytes. In each
round the daemon starts, receives batches for all queues, and is killed meanwhile. A start lasts
from the command to the ready line. The limit is 2 s, and 1 s for each GiB of log after the
checkpoint (half of that with zlib-ng). For comparison, a figure shows the time to read those bytes.

    near   the checkpoint is as recent as the broker keeps it
    far    checkpoint, mark and table of queue ends are those from a GiB earlier, so the views are
           also rebuilt from there
"""

import asyncio
import random
import sys
import tempfile
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Event, Thread, get_native_id
from time import perf_counter

from bench.queues import shuffled_queues, topics_of
from bench.servers import ASYNC, BROKER, Server, broker_server, loading, send_request
from bench.serving_inside import HOST, batch_like
from harness.figures import Extent, Figure
from harness.process import anonymous_mib, ended, module, tell
from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import decode_checkpoint
from pocketmq.format.layout import crc32
from pocketmq.format.properties import encode_properties
from pocketmq.model.batch import Batch, Destination
from pocketmq.model.message import KEYS, TAGS, UNIQUE_KEY
from pocketmq.model.step import SystemClock
from pocketmq.store.message_store import open_store
from pocketmq.store.settings import StoreSettings

GIB = 1 << 30
LOG_BYTES = 5 * GIB
QUEUE_COUNT = 10_000
BATCH_SIZE = 32
FAR_BYTES = GIB
LOAD_SECONDS = 8.0
HANG_SECONDS = 600.0
SAMPLE_SECONDS = 0.02
READ_SIZE = 1 << 20
BASE_SECONDS = 2.0
SECONDS_A_GIB = 0.5 if crc32.__module__.startswith("zlib_ng") else 1.0
NEAR, FAR = "near", "far"
KEPT = ("checkpoint", "pocketmq/watermark", "pocketmq/queue_ends.json")
"""Files that tell a start how far the views are trusted, and where they ended then."""


# --- making the store ---------------------------------------------------------------------------


def batch(number: int, body: bytes) -> Batch:
    """Returns messages of 1 KiB with a unique key, another key and a tag."""
    numbers = range(BATCH_SIZE)
    unique_keys = [f"{number * BATCH_SIZE + at:032X}" for at in numbers]
    keys = [f"key-{at}" for at in numbers]
    blocks = [
        encode_properties({UNIQUE_KEY: unique_key, KEYS: key, TAGS: "TagA"})
        for unique_key, key in zip(unique_keys, keys, strict=True)
    ]
    return batch_like(body, blocks, unique_keys, keys)


async def fill(directory: Path, log_bytes: int, queue_count: int) -> None:
    """Appends messages to all queues until the log has `log_bytes`, then closes the store."""
    store = await open_store(
        StoreSettings(directory=directory, flush="async"), SystemClock(), Disk()
    )
    queues, body = shuffled_queues(topics_of(queue_count)), random.Random(2).randbytes(1024)
    number = 0
    while store.appended < log_bytes:
        destination = Destination(*queues[number % queue_count], HOST)
        await store.writing.put([(destination, batch(number, body))], wait=False)
        number += 1
        if number % 8 == 0:
            await asyncio.sleep(0)  # Lets dispatch and flush run.
    await store.close()


# --- measuring ----------------------------------------------------------------------------------


def behind(store: Path, end: int) -> int:
    """Returns the bytes of the log after the checkpoint of a killed store."""
    values = decode_checkpoint((store / "checkpoint").read_bytes())
    return end - values.logics_physical_offset


def read_seconds(store: Path, begin: int, end: int) -> float:
    """Returns the seconds of a sequential read of [begin, end) of the log."""
    begun = perf_counter()
    for path in sorted((store / "commitlog").iterdir()):
        base, size = int(path.name), path.stat().st_size
        lower, upper = max(begin - base, 0), min(end - base, size)
        with path.open("rb", buffering=0) as file:
            for position in range(lower, upper, READ_SIZE):
                file.seek(position)
                file.read(min(READ_SIZE, upper - position))
    return perf_counter() - begun


class Peak(Thread):
    """Watches RssAnon of the newest child of this process from its start to `stop`."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._is_over = Event()
        self._children = Path(f"/proc/self/task/{get_native_id()}/children")
        self.mib = 0.0

    def run(self) -> None:
        """Samples every 20 ms until `stop`."""
        while not self._is_over.wait(SAMPLE_SECONDS):
            for child in self._children.read_text().split():
                with suppress(OSError):
                    self.mib = max(self.mib, anonymous_mib(int(child)))

    def stop(self) -> float:
        """Returns the largest sample, in MiB."""
        self._is_over.set()
        self.join()
        return self.mib


class Restarts:
    """A store, and the measurements of its starts."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._queues = shuffled_queues(topics_of(QUEUE_COUNT))
        self._peaks: list[float] = []

    def round(self, variant: str, seconds: float) -> dict[str, float]:
        """Loads and kills a broker; measures the start of the next one, which stops in order."""
        with self._serving() as server:
            kept = {name: (self._store / name).read_bytes() for name in KEPT}
            begin = server.status().appended_offset
            least = FAR_BYTES if variant == FAR else 0
            end = self._load_and_kill(server, seconds, begin + least)
        if variant == FAR:
            for name, content in kept.items():
                (self._store / name).write_bytes(content)
        behind_bytes = behind(self._store, end)
        read = read_seconds(self._store, end - behind_bytes, end)
        peak, begun = Peak(), perf_counter()
        peak.start()
        with self._serving() as server:
            took = perf_counter() - begun
            cpu = server.cpu_seconds
            if server.status().appended_offset < end:
                raise SystemExit(f"the log ended at {end}, and is shorter after the start")
            mib = peak.stop()
        limit = BASE_SECONDS + SECONDS_A_GIB * behind_bytes / GIB
        return {
            "ready": took, "cpu": cpu, "behind_mib": behind_bytes / (1 << 20), "limit": limit,
            "share": took / limit, "read": read, "mib": mib,
        }  # fmt: skip

    def _serving(self) -> AbstractContextManager[Server]:
        return broker_server(ASYNC, directory=self._store)

    def _load_and_kill(self, server: Server, seconds: float, least: int) -> int:
        """Sends batches to all queues and kills the broker meanwhile; returns the end of its log.

        The end is read just before the kill; bytes appended in between do not count for the limit.
        """
        requests = [send_request(BATCH_SIZE, *queue) for queue in self._queues]
        method = BROKER + "SendMessage"
        with loading(server, method, requests, in_flight=8, seconds=HANG_SECONDS) as run:
            run.wait_until_begun()
            begun, end = perf_counter(), 0
            while perf_counter() - begun < seconds or end < least:
                end = server.status().appended_offset
            server.process.kill()
            server.process.wait()
        return end


def recovery_figures(extent: Extent) -> list[Figure]:
    """Seconds from the start after kill -9 to ready, the limit, and the time to read the log."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as temporary:
        store = Path(temporary) / "store"
        ended(module("bench.recovery", store, LOG_BYTES, QUEUE_COUNT))
        restarts = Restarts(store)
        for variant in (NEAR, FAR):
            runs = []
            for number in range(extent.rounds):
                runs.append(restarts.round(variant, extent.seconds(LOAD_SECONDS)))
                tell({"round": number, "variant": variant, **runs[-1]})
            figures += _figures(variant, runs)
    return figures


def _figures(variant: str, runs: list[dict[str, float]]) -> list[Figure]:
    rounds = {name: [run[name] for run in runs] for name in runs[0]}
    name = f"recovery_{variant}"
    what = f"start after kill -9, {QUEUE_COUNT:,} queues, checkpoint {variant}"
    rate = f"2 s + {SECONDS_A_GIB} s a GiB"
    return [
        Figure.of(name, f"{what}: command to ready line", rounds["ready"], "s"),
        Figure.of(f"{name}_share", f"that ÷ its limit, {rate}", rounds["share"], "ratio", "≤ 1"),
        Figure.of(f"{name}_limit", "the limit", rounds["limit"], "s"),
        Figure.of(f"{name}_cpu", "of it processor time", rounds["cpu"], "s"),
        Figure.of(f"{name}_log", "log behind the checkpoint", rounds["behind_mib"], "MiB"),
        Figure.of(f"{name}_read", "reading these bytes in a row", rounds["read"], "s"),
        Figure.of(f"{name}_memory", "RssAnon meanwhile, at most", rounds["mib"], "MiB"),
    ]


if __name__ == "__main__":
    asyncio.run(fill(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
