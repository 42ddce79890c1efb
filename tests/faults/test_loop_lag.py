"""Nothing the broker does to its files keeps the event loop waiting: every call would wait as well.

One run does it all: 96 MiB are dirty and flushed at once, files roll, old messages are read from
disk, keys are looked up, files expire. Flushing a map, reading through one what is not in memory,
or touching a new file would each hold the interpreter, and with it the loop, for all that time.
"""

import asyncio
import mmap
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from pocketmq.client import AsyncClient, KeyQuery, Message, PullQuery, Shape, Wait
from pocketmq.files.disk import Disk
from pocketmq.model.reading import PullStatus
from tests.e2e.daemon import LATE_FACTOR, LATE_S, Daemon, is_busy
from tests.faults.lives import words
from tests.kit.store_language import store_at

MIB: Final = 1024 * 1024
DIRTY_BYTES: Final = 96 * MIB
"""64 are asked for; what does not stall takes much longer than 50 ms."""
BATCH_BYTES: Final = 1 * MIB
BODY_BYTES: Final = 32 * 1024
ROUNDS: Final = 3
TOPIC: Final = "big"
SHARE_MAX: Final = 0.3
"""A loop that is late for that share of every flush waits for it, whatever the machine does."""
FLUSH_S_MIN: Final = 0.05
"""A flush that is quicker says nothing."""

SETTINGS: Final = words(
    {
        "store.flush": "async",
        "store.flush_interval_ms": "600000ms",
        "store.flush_thorough_interval_ms": "600000ms",
        "store.view_flush_thorough_interval_ms": "500ms",
        "retention.mode": "on",
        "retention.hours": "",
        "retention.age_ms": "0",
        "retention.size_bytes": str(128 * MIB),
        "retention.interval_ms": "100ms",
        "retention.pause_ms": "10ms",
    },
    f"mappedFileSizeCommitLog={32 * MIB}",
)


def late(daemon: Daemon, before: dict[float, float]) -> float:
    """Returns the highest bound in s of the loop's lateness since a sample; 0: never late."""
    now = daemon.lateness()
    return max((le for le, count in now.items() if count > before.get(le, 0)), default=0.0)


async def fill(client: AsyncClient, size: int) -> None:
    """Makes so many bytes dirty, and nothing durable."""
    count = BATCH_BYTES // BODY_BYTES
    for number in range(size // BATCH_BYTES):
        batch = [
            Message(TOPIC, bytes([number % 251]) * BODY_BYTES, queue_id=0, keys=["k"])
            for _ in range(count)
        ]
        await client.send_many(batch, wait=Wait.APPENDED)


async def read_all(client: AsyncClient) -> int:
    """Reads a queue from its first message on; returns how many there were."""
    state = await client.query_offsets(TOPIC, 0)
    position, count = state.min_offset, 0
    while position < state.max_offset:
        query = PullQuery(TOPIC, 0, position, max_messages=128, shape=Shape.RECORDS)
        page = await client.pull(query)
        count += page.next_begin_offset - position if page.status is PullStatus.FOUND else 0
        position = page.next_begin_offset
    return count


def forget_files(store: Path) -> None:
    """Drops the store's clean pages from the page cache, where that is allowed."""
    for path in (store / "commitlog").iterdir():
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # It has expired meanwhile.
            continue
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


@pytest.mark.timeout(200)
def test_files_never_keep_the_loop_waiting(tmp_path: Path) -> None:
    flushes: list[tuple[float, float]] = []
    reads = 0

    async def work(daemon: Daemon) -> None:
        nonlocal reads
        async with AsyncClient(daemon.endpoint, timeout_ms=60_000, retry_ms=0) as client:
            await client.admin.create_topic(TOPIC, queue_count=1)
            for _ in range(ROUNDS):
                await fill(client, DIRTY_BYTES)
                before, begun = daemon.late_s(), time.monotonic()
                await client.admin.flush()
                flushes.append((time.monotonic() - begun, daemon.late_s() - before))
                forget_files(daemon.store)
                reads += await read_all(client)
                for _ in range(20):
                    await client.query_by_key(KeyQuery(TOPIC, "k", count_max=32))

    with Daemon(tmp_path / "store", *SETTINGS) as daemon:
        first = daemon.lateness()
        asyncio.run(work(daemon))
        worst = late(daemon, first)
        bound = LATE_S * (LATE_FACTOR if is_busy() else 1) + daemon.kept_waiting_s()
        expired = '"commit_log.expired"' in daemon.log.read_text()
        assert daemon.stop() == 0
    print(f"flushes (s, late in all): {flushes}, {reads} messages read")
    print(f"late by {worst} s at most, {bound:.2f} s are allowed")
    assert expired
    assert reads >= ROUNDS * 96 * MIB // BODY_BYTES // 2
    assert worst < bound
    shares = [lag / took for took, lag in flushes if took > FLUSH_S_MIN]
    assert min(shares, default=0.0) < SHARE_MAX, f"the loop waits for flushes: {flushes}"


POOL: Final = {"flush": "async", "transient_pool": True, "transient_pool_file_count": 8}
"""More buffers than the test fills: a slow disk delays their return to the pool."""


@pytest.mark.parametrize("settings", [{}, {"flush": "async"}, POOL], ids=["sync", "async", "pool"])
async def test_maps_are_made_durable_by_fdatasync_and_never_flushed(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On any disk: the system calls that are made while files roll and a store closes."""
    flushed: list[tuple[int, ...]] = []
    synced: set[str] = set()

    class WatchedMap(mmap.mmap):
        def flush(self, *part: int) -> None:
            flushed.append(part)

    def fdatasync(descriptor: int, *, real: Callable[[int], None] = os.fdatasync) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.add(path.relative_to(directory).parts[0])
        real(descriptor)

    directory = tmp_path / "s"
    monkeypatch.setattr(mmap, "mmap", WatchedMap)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    async with store_at(directory, disk=Disk(), **settings) as store:
        assert mmap.mmap is WatchedMap
        for number in range(30):
            await store.stocked()
            await store.send("T", "x" * 500, key=f"k{number}")
            store.store.writing.commit.request()
        await store.store.flush()
        assert len(store.store.log.files.files) > 3
    assert flushed == []
    assert synced >= {"commitlog", "consumequeue", "index"}


def test_the_probe_of_every_test_sees_a_stall(tmp_path: Path) -> None:
    """A broker that is held up, by SIGSTOP, is late."""
    daemon = Daemon(tmp_path / "store")
    with pytest.raises(AssertionError, match=re.escape("the event loop was late")), daemon:
        daemon.signal(signal.SIGSTOP)
        time.sleep(2 * LATE_FACTOR * LATE_S + 0.1)
        daemon.signal(signal.SIGCONT)
        time.sleep(0.1)
