"""Full disks: real file systems filled and freed again and again under a broker.

    tmpfs, ext4, XFS     each of some 100 MiB, made in memory or in an image
    a round              one store: cycles of being filled by a stranger or by messages and freed
                         again, then a stop or a kill, a start, and everything acknowledged is there

Sends must be refused while there is no room, reads go on, and sends resume within seconds.
"""

import asyncio
import os
import random
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pocketmq.client import AsyncClient
from tests.e2e.daemon import Daemon
from tests.faults.test_full_disk import SETTINGS, Producer, all_of, beside, strays, take_all
from torture.budget import Budget, NotHere

MIB: Final = 1024 * 1024
CYCLES: Final = 12
"""Of one store; later ones find little room left for messages."""
FILE_SYSTEMS: Final = {"tmpfs": 64, "ext4": 96, "xfs": 320}
"""Sizes in MiB: XFS cannot be made any smaller."""


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs rounds on every file system in turn; returns how much was done on each."""
    if os.geteuid() != 0:
        raise NotHere("root: it mounts file systems of its own")
    chance, figures, number = random.Random(budget.seed), Counter[str](), 0
    worst = 0.0
    while budget.left():
        kind = [*FILE_SYSTEMS][number % len(FILE_SYSTEMS)]
        number += 1
        own = place / f"{number}"
        own.mkdir()
        with mounted(own, kind) as where:
            if where is None:
                figures[f"{kind}_missing"] += 1
                if figures.total() == figures["tmpfs_missing"] + figures["ext4_missing"] + number:
                    raise NotHere("no file system can be mounted")
                continue
            resumed = one_round(where, chance, kind, figures, budget)
            worst = max(worst, resumed)
        shutil.rmtree(own)
    return {**figures, "rounds": number, "resumed_worst_s": round(worst, 2)}


@contextmanager
def mounted(own: Path, kind: str) -> Iterator[Path | None]:
    """Mount a fresh file system; None where this machine cannot."""
    where, size = own / "mounted", FILE_SYSTEMS[kind]
    where.mkdir()
    if kind == "tmpfs":
        commands = [["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(where)]]
    else:
        image = own / "image"
        with image.open("wb") as file:
            file.truncate(size * MIB)
        make = [f"mkfs.{kind}", "-q", str(image)]
        commands = [make, ["mount", "-o", "loop", str(image), str(where)]]
    done = [subprocess.run(c, capture_output=True, check=False).returncode for c in commands]
    if any(done):
        yield None
        return
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=False)


def one_round(
    where: Path, chance: random.Random, kind: str, figures: Counter[str], budget: Budget
) -> float:
    """Fill and free one store's disk, end it, and look at what is there; returns the worst wait."""
    store, stranger = where / "store", where / "stranger"
    with beside(where, Daemon(store, *SETTINGS)) as broker:
        broker.ask("topic", "create", "T", "--queues", "2")
        acknowledged, worst, cycles = asyncio.run(cycled(broker, stranger, chance, budget))
        figures[f"{kind}_cycles"] += cycles
        figures["acknowledged"] += len(acknowledged)
        if chance.randrange(2):
            take_all(stranger)
        if chance.randrange(2):
            broker.signal(signal.SIGKILL)
            broker.wait()
            stranger.unlink(missing_ok=True)
            figures["kills"] += 1
        elif (code := broker.stop()) != 0:
            raise AssertionError(f"a stop on a full disk ended with {code}")
        else:
            figures["stops"] += 1
    with beside(where, Daemon(store, *SETTINGS)) as broker:
        found = asyncio.run(all_of(broker, acknowledged))
        lost = acknowledged.keys() - found
        if lost:
            raise AssertionError(f"{len(lost)} of {len(acknowledged)} acknowledged are lost")
        broker.stop()
    if left := strays(store):
        raise AssertionError(f"left behind: {left}")
    return worst


async def cycled(
    broker: Daemon, stranger: Path, chance: random.Random, budget: Budget
) -> tuple[dict[str, tuple[int, int]], float, int]:
    """Fills and free; returns (what was acknowledged, worst wait in seconds, cycles)."""
    worst, cycles = 0.0, 0
    async with AsyncClient(broker.endpoint, retry_ms=0) as client:
        producer = Producer(broker, client)
        await producer.send(1_000)
        for _ in range(CYCLES):
            if chance.randrange(2):
                take_all(stranger)
            else:
                leave(stranger, chance.randrange(1, 4) * MIB)
            await producer.fill(chance.choice([100, 3_000, 100_000]))
            if await producer.read() != set(producer.acknowledged):
                raise AssertionError("what is read is not what was acknowledged")
            remove(stranger)
            cycles += 1
            if room(stranger.parent) < 8 * MIB:
                break
            worst = max(worst, await producer.resume())
            budget.progress(
                f"{stranger}: {cycles} cycles, {len(producer.acknowledged)} acknowledged"
            )
            if not budget.left():
                break
    return producer.acknowledged, worst, cycles


def room(where: Path) -> int:
    """Returns the bytes that are left of a file system."""
    stats = os.statvfs(where)
    return stats.f_bavail * stats.f_frsize


def remove(stranger: Path) -> None:
    """Gives back what was taken."""
    stranger.unlink()


def leave(stranger: Path, size: int) -> None:
    """Takes all but some bytes of a file system."""
    wanted = room(stranger.parent) - size
    with stranger.open("wb") as file:
        if wanted > 0:
            os.posix_fallocate(file.fileno(), 0, wanted)
