"""Real file systems in images and in memory: full disks, and unreadable pages.

    full      fills and frees tmpfs, ext4 and XFS repeatedly, by messages or another program. While
              the disk is full, sends are refused and reads succeed; sends resume within seconds.
              After a stop or a kill and a start, all acknowledged messages must be stored
    page_in   a file system on nbdkit whose reads fail on request: a page of a mapped message cannot
              be read, so the kernel ends the broker by SIGBUS. The next start, with a healed disk,
              must have every acknowledged message

Both require root. The battery `power` cuts the power of such file systems.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.budget import Budget, NotHere
from harness.process import Failed, ended, need
from pocketmq.client import AsyncClient
from tests.e2e.daemon import Daemon
from tests.faults.power_disk import make_file_system
from tests.faults.test_full_disk import SETTINGS, Producer, all_of, beside, strays, take_all

MIB: Final = 1024 * 1024
CYCLES: Final = 12
"""Cycles of one store; afterwards little space is left for messages."""
FILE_SYSTEMS: Final = {"tmpfs": 64, "ext4": 96, "xfs": 320}
"""Sizes in MiB; XFS has about its smallest size."""
TOPIC: Final = "orders"
IMAGE_BYTES: Final = 256 << 20
READY_S: Final = 20.0
PAUSE_S: Final = 0.05
UNMOUNT_TRIES: Final = 100
LIVES_MAX: Final = 20
BODY_BYTES: Final = (1_500_000, 1_900_000)
"""Body sizes, larger than the kernel's read-ahead and fault-around of a page."""


def unmount(mount: Path) -> None:
    """Unmounts a directory if it is mounted; retries, as a dying process may still use it."""
    for _ in range(UNMOUNT_TRIES):
        if f" {mount} " not in Path("/proc/self/mounts").read_text():
            return
        if subprocess.run(["umount", str(mount)], capture_output=True, check=False).returncode:
            time.sleep(PAUSE_S)
    ended(["umount", "-l", str(mount)])


def full(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs rounds on every file system in turn; returns the figures of each."""
    if os.geteuid() != 0:
        raise NotHere("root: it mounts file systems of its own")
    chance, figures = Random(budget.seed), Counter[str]()
    worst = 0.0
    for number, _ in enumerate(budget.seeds(), 1):
        kind = [*FILE_SYSTEMS][(number - 1) % len(FILE_SYSTEMS)]
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
    """Mounts a fresh file system; yields None if this machine cannot."""
    where, size = own / "mounted", FILE_SYSTEMS[kind]
    where.mkdir()
    try:
        if kind == "tmpfs":
            ended(["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(where)])
        else:
            make_file_system(kind, own / "image", size * MIB)
            ended(["mount", "-o", "loop", str(own / "image"), str(where)])
    except (Failed, OSError):
        yield None
        return
    try:
        yield where
    finally:
        unmount(where)


def one_round(
    where: Path, chance: Random, kind: str, figures: Counter[str], budget: Budget
) -> float:
    """Fills and frees a store's disk, ends the broker, checks the store; returns the worst wait."""
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
    broker: Daemon, stranger: Path, chance: Random, budget: Budget
) -> tuple[dict[str, tuple[int, int]], float, int]:
    """Fills and frees the disk; returns (acknowledged messages, worst wait in seconds, cycles)."""
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
            free(stranger)
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
    """Returns the free bytes of a file system."""
    stats = os.statvfs(where)
    return stats.f_bavail * stats.f_frsize


def free(stranger: Path) -> None:
    """Frees the space that `leave` used."""
    stranger.unlink()


def leave(stranger: Path, size: int) -> None:
    """Fills a file system except for `size` bytes."""
    wanted = room(stranger.parent) - size
    with stranger.open("wb") as file:
        if wanted > 0:
            os.posix_fallocate(file.fileno(), 0, wanted)


# -- page-in errors -------------------------------------------------------------------------------
class FailingDisk:
    """A mounted file system whose disk fails to read on request."""

    def __init__(self, place: Path) -> None:
        self.mount = place / "mount"
        self._inject = place / "inject"

    def forget(self) -> None:
        """Drops the page cache, except mapped pages."""
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")

    def fail(self) -> None:
        """Makes every read fail from now on."""
        self._inject.touch()

    def heal(self) -> None:
        """Makes reads succeed again."""
        self._inject.unlink(missing_ok=True)


@contextmanager
def failing_disk(place: Path) -> Iterator[FailingDisk]:
    """Makes a failing disk below a directory, and removes it at the end of the block.

    Errors   NotHere
    """
    for program in ("nbdkit", "nbdfuse", "mkfs.ext4", "losetup"):
        need(program, "apt-get install nbdkit nbdfuse fuse3 e2fsprogs")
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        raise NotHere("it needs root and /dev/fuse")
    disk, image, fuse = FailingDisk(place), place / "disk.img", place / "fuse"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    fuse.mkdir()
    disk.mount.mkdir()
    error = ["error-pread=EIO", "error-pread-rate=100%", f"error-pread-file={place / 'inject'}"]
    nbdkit = ["nbdkit", "-s", "--filter=error", "file", str(image), *error]
    served = subprocess.Popen(
        ["nbdfuse", str(fuse), "--command", *nbdkit], stderr=subprocess.DEVNULL
    )
    device = ""
    try:
        device = _attached(fuse / "nbd")
        make_file_system("ext4", Path(device), 0)
        ended(["mount", device, str(disk.mount)])
        yield disk
    finally:
        disk.heal()
        unmount(disk.mount)
        if device:
            subprocess.run(["losetup", "-d", device], check=False)
        subprocess.run(["fusermount3", "-u", str(fuse)], check=False)
        served.wait(READY_S)


def _attached(file: Path) -> str:
    """Waits for a file that nbdfuse serves; returns a loop device on it.

    Errors   NotHere
    """
    until = time.monotonic() + READY_S
    while not file.exists():
        if time.monotonic() > until:
            raise NotHere("nbdfuse does not serve its file")
        time.sleep(PAUSE_S)
    try:
        return ended(["losetup", "-f", "--show", str(file)]).strip()
    except Failed as why:
        raise NotHere(f"no loop device: {why}") from why


def page_in(place: Path, budget: Budget) -> dict[str, Any]:
    """Makes the disk of one broker after another fail until the time is over."""
    chance = Random(budget.seed)
    figures = {"page-in errors": 0, "acknowledged": 0, "lost": 0}
    with failing_disk(place) as disk:
        store = place / "store"
        (disk.mount / "store").mkdir()
        store.symlink_to(disk.mount / "store")
        sent: list[str] = []
        for _ in islice(budget.seeds(), LIVES_MAX):
            sent += _one_life(disk, store, sent, chance)
            figures["page-in errors"] += 1
            budget.progress(f"{figures['page-in errors']} page-in errors")
        with _serving(store) as broker:
            found = _bodies(broker)
        figures |= {
            "acknowledged": len(sent),
            "lost": sum(a != b for a, b in zip(sent, found, strict=False)),
        }
        figures["lost"] += max(len(sent) - len(found), 0)
        if figures["lost"]:
            raise AssertionError(f"lost: {figures}")
    return figures


@contextmanager
def _serving(store: Path) -> Iterator[Daemon]:
    """Runs a broker whose event loop may be late: four programs are between it and the disk."""
    broker = Daemon(store)
    broker.begin()
    try:
        assert broker.becomes_ready(), broker.log.read_text()
        yield broker
    finally:
        broker.end()


def _one_life(disk: FailingDisk, store: Path, sent: list[str], chance: Random) -> list[str]:
    """Checks, sends, restarts, makes the disk fail, pulls; returns the acknowledged messages."""
    lines = [f"{len(sent) + number} {'x' * chance.randrange(*BODY_BYTES)}" for number in range(2)]
    with _serving(store) as broker:
        if not sent:
            assert broker.ask("topic", "create", TOPIC, "--queues", "1").code == 0
        assert _bodies(broker) == sent
        given = "\n".join(lines) + "\n"
        done = broker.ask("produce", TOPIC, "--file", "-", given=given)
        assert done.code == 0, done.err
        assert broker.stop() == 0
    disk.forget()
    with _serving(store) as broker:
        disk.forget()
        # Loads the queue's units into memory: a failed read of units is an error, not a SIGBUS.
        broker.ask("consume", TOPIC, "--pull", "--queue", "0", "--max", "1", "-o", "jsonl")
        disk.fail()
        broker.ask("consume", TOPIC, "--pull", "--queue", "0", "-o", "jsonl")
        assert broker.wait() == -signal.SIGBUS, broker.log.read_text()
    told = broker.log.read_text(errors="replace")
    assert "Fatal Python error: Bus error" in told, told
    assert "store/read/" in told, told
    disk.heal()
    return lines


def _bodies(broker: Daemon) -> list[str]:
    read = broker.ask("consume", TOPIC, "--pull", "--queue", "0", "-o", "jsonl")
    assert read.code == 0, read.err
    return [row["body_text"] for row in read.rows]
