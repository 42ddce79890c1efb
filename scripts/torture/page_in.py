"""Real page-in errors: the disk under the map answers EIO, and the broker dies of it.

A file system lies on nbdkit, whose reads fail while a file named `inject` exists. A broker starts
on a store of long messages, of which it looks at the heads; what is not mapped is dropped from
memory, reads fail, a consumer asks: a page of a body cannot be brought in, and the system ends the
broker by SIGBUS. The next start, with a disk that reads again, has every acknowledged message.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from shutil import which
from typing import Any, Final

from tests.e2e.daemon import Daemon
from torture.budget import Budget, NotHere

TOPIC: Final = "orders"
IMAGE_BYTES: Final = 256 << 20
READY_S: Final = 20.0
PAUSE_S: Final = 0.05
UNMOUNT_TRIES: Final = 100
LIVES_MAX: Final = 20
BODY_BYTES: Final = (1_500_000, 1_900_000)
"""Longer than what the system reads ahead, and maps around a page that is asked for."""


class FailingDisk:
    """A mounted file system whose disk fails to read on request."""

    def __init__(self, place: Path) -> None:
        self.mount = place / "mount"
        self._inject = place / "inject"

    def forget(self) -> None:
        """Drops what is in memory and not mapped by anybody."""
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
    """Makes one below a directory; nothing of it is left when the block ends.

    Errors   NotHere
    """
    for program in ("nbdkit", "nbdfuse", "mkfs.ext4", "losetup"):
        if which(program) is None:
            raise NotHere(f"{program} is missing (apt-get install nbdkit nbdfuse fuse3 e2fsprogs)")
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
        subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
        subprocess.run(["mount", device, str(disk.mount)], check=True)
        yield disk
    finally:
        disk.heal()
        _unmount(disk.mount)
        if device:
            subprocess.run(["losetup", "-d", device], check=False)
        subprocess.run(["fusermount3", "-u", str(fuse)], check=False)
        served.wait(READY_S)


def _unmount(mount: Path) -> None:
    """Unmount a directory, if need be; a process that is being killed may hold it a moment."""
    for _ in range(UNMOUNT_TRIES):
        if f" {mount} " not in Path("/proc/self/mounts").read_text():
            return
        done = subprocess.run(["umount", str(mount)], capture_output=True, check=False)
        if done.returncode:
            time.sleep(PAUSE_S)
    subprocess.run(["umount", "-l", str(mount)], check=True)


def _attached(file: Path) -> str:
    """Returns the loop device on a file that is about to be served.

    Errors   NotHere
    """
    until = time.monotonic() + READY_S
    while not file.exists():
        if time.monotonic() > until:
            raise NotHere("nbdfuse does not serve its file")
        time.sleep(PAUSE_S)
    done = subprocess.run(
        ["losetup", "-f", "--show", str(file)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotHere(f"no loop device: {done.stderr.strip()}")
    return done.stdout.strip()


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Makes the disk fail under one broker after the other until the time is over."""
    chance = Random(budget.seed)
    figures = {"page-in errors": 0, "acknowledged": 0, "lost": 0}
    with failing_disk(place) as disk:
        store = place / "store"
        (disk.mount / "store").mkdir()
        store.symlink_to(disk.mount / "store")
        sent: list[str] = []
        while budget.left() and figures["page-in errors"] < LIVES_MAX:
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
    """Runs a broker; its event loop may be late, on a disk behind four programs."""
    broker = Daemon(store)
    broker.begin()
    try:
        assert broker.becomes_ready(), broker.log.read_text()
        yield broker
    finally:
        broker.end()


def _one_life(disk: FailingDisk, store: Path, sent: list[str], chance: Random) -> list[str]:
    """Checks, sends, restarts, makes the disk fail, pulls; returns what was acknowledged."""
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
        # Brings the queue's units into memory: they are read by calls, whose errors are told.
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
