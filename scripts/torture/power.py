"""Simulates power failures of real file systems under a working broker, until the time is over.

A store is on ext4 or XFS in an image on a loop device. At a random time the file system is shut
down as by a power failure: unsynced data is lost, the journal is not written. Then the broker is
killed, the file system mounted again, the broker started, and all messages are compared.

    ext4   data=ordered, commit=1, 5 and 1000        xfs   if xfsprogs is installed
    sync    no acknowledged or read message and no committed offset may be lost
    async   only messages of the last flush interval, and of one flush, may be lost

Mounts and loop devices are always removed, also on Ctrl-C. Requires root and loop devices.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.budget import Budget, NotHere
from harness.process import Failed, ended, need
from tests.e2e.daemon import Daemon, pocketmq
from tests.faults.history import WRONG, History
from tests.faults.lives import SMALL_FILES, words
from tests.faults.load import Load
from tests.faults.power_disk import PowerDisk

IMAGE_BYTES: Final = 320 * 1024 * 1024
"""Size of the sparse image; mkfs.xfs requires 300 MiB."""
KINDS: Final[dict[str, tuple[str, str]]] = {
    "ext4, commit=1": ("ext4", "data=ordered,commit=1"),
    "ext4, commit=5": ("ext4", "data=ordered,commit=5"),
    "ext4, commit=1000": ("ext4", "data=ordered,commit=1000"),
    "xfs": ("xfs", "defaults"),
}
CUTS_PER_IMAGE: Final = 10
FLUSH_MS: Final = 100
THOROUGH_MS: Final = 400
LOSS_S: Final = THOROUGH_MS / 1000 + 2.0
"""Allowed loss with async flush: the thorough interval, and a flush on a busy machine."""
CUT_AFTER_S: Final = (0.02, 1.5)
TOLD: Final = ("acknowledged", "read", "stored", "sent again and stored twice", "lost, allowed")


def needed() -> None:
    """Checks that this machine can simulate power failures.

    Errors   NotHere
    """
    if os.geteuid() != 0:
        raise NotHere("only root may mount and shut file systems down")
    need("losetup", "it makes loop devices")
    need("mkfs.ext4", "it makes the file systems")
    try:
        ended(["losetup", "-f"])
    except Failed as why:
        raise NotHere(f"no loop device is free: {why}") from why


@contextlib.contextmanager
def begun(daemon: Daemon) -> Iterator[Daemon]:
    """Starts a broker, and ends it with the block."""
    daemon.begin()
    try:
        yield daemon
    finally:
        daemon.end()


class Cuts:
    """One machine's store through all its power cuts."""

    def __init__(self, place: Path, machine: PowerDisk, seed: int) -> None:
        self.machine = machine
        self.store = machine.root / "store"
        self.history = History(place / "history.jsonl")
        self._place = place
        self._chance = Random(seed)
        self._load = Load(self.history, seed)
        self._lost_since = -1.0

    def _daemon(self, flush: str) -> Daemon:
        chance = self._chance
        settings = {
            "store.flush": flush,
            "store.view_flush_interval_ms": f"{chance.choice([20, 1_000])}ms",
            "store.view_flush_thorough_interval_ms": f"{chance.choice([50, 500, 10_000])}ms",
            "store.reserve_size_bytes": "0",
        }
        if flush == "async":
            settings["store.flush_interval_ms"] = f"{FLUSH_MS}ms"
            settings["store.flush_thorough_interval_ms"] = f"{THOROUGH_MS}ms"
        daemon = Daemon(self.store, *words(settings, *SMALL_FILES))
        daemon.log = self._place / "broker.log"  # Not on the disk whose power fails.
        return daemon

    def cut(self, flush: str, *, whole: bool) -> None:
        """Starts the broker, compares, works, cuts the power, and mounts again.

        Errors   AssertionError
        """
        with begun(self._daemon(flush)) as daemon:
            if self._chance.random() < 0.1:  # During the start.
                time.sleep(self._chance.uniform(0.3, 0.9))
                self._cut_here(daemon, flush)
            else:
                assert daemon.becomes_ready(), daemon.log.read_text()
                asyncio.run(self._one_life(daemon, flush, whole=whole))
        self.machine.unmount()
        self.machine.mount()

    async def _one_life(self, daemon: Daemon, flush: str, *, whole: bool) -> None:
        since, self._lost_since = self._lost_since, -1.0
        await self._load.look(daemon.endpoint, whole=whole, loss_since=since)
        loop = asyncio.get_running_loop()
        loop.call_later(self._chance.uniform(*CUT_AFTER_S), self._cut_here, daemon, flush)
        await self._load.run(daemon.endpoint, sys.maxsize, lambda: None)

    def _cut_here(self, daemon: Daemon, flush: str) -> None:
        self.machine.cut()
        if flush == "async" and self._lost_since < 0:
            self._lost_since = time.monotonic() - LOSS_S
        # An acknowledgement after the cut would be false: some cuts leave time for one.
        time.sleep(self._chance.choice([0, 0, 0.05]))
        daemon.signal(signal.SIGKILL)

    def end(self) -> None:
        """Starts the broker, compares all messages, stops in order, and verifies the files.

        Errors   AssertionError
        """
        with begun(self._daemon("sync")) as daemon:
            assert daemon.becomes_ready(), daemon.log.read_text()
            look = self._load.look(daemon.endpoint, whole=True, loss_since=self._lost_since)
            asyncio.run(look)
            assert daemon.stop() == os.EX_OK, daemon.log.read_text()
        self.history.close()
        done = pocketmq("store", "verify", str(self.store), "-o", "jsonl", "--max-findings", "5")
        assert (done.code, done.out) == (0, ""), f"{done.out}{done.err}"


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Cuts the power until the time is over; returns the figures.

    Errors   NotHere; AssertionError: a violation, such as a lost message
    """
    needed()
    kinds = [name for name, (kind, _) in KINDS.items() if shutil.which(f"mkfs.{kind}")]
    chance = Random(budget.seed)
    figures: Counter[str] = Counter()
    for number, _ in enumerate(budget.seeds()):
        kind = kinds[number % len(kinds)]
        own = place / f"machine-{number}"
        own.mkdir()
        with _machine(own, kind) as machine:
            cuts = Cuts(own, machine, chance.randrange(2**31))
            try:
                _one_machine(cuts, kind, budget, figures)
            except AssertionError as error:
                raise AssertionError(f"{kind}: {error}\nkept in {_kept(own)}") from error
            figures.update(cuts.history.figures)
        shutil.rmtree(own)
    return {
        "cuts": figures["cuts"],
        "by file system": {kind: figures[kind] for kind in KINDS if kind in kinds},
        "by flush": {flush: figures[flush] for flush in ("sync", "async")},
        "NOT RUN HERE": [kind for kind in KINDS if kind not in kinds],
        **{name: figures[name] for name in (*TOLD, *WRONG)},
    }


def _machine(own: Path, kind: str) -> PowerDisk:
    root = own / "mounted"
    root.mkdir()
    return PowerDisk(own / "image", root, *KINDS[kind], IMAGE_BYTES)


def _one_machine(cuts: Cuts, kind: str, budget: Budget, figures: Counter[str]) -> None:
    for index in range(CUTS_PER_IMAGE):
        if index and not budget.left():
            break
        flush = ("sync", "sync", "async")[index % 3]
        cuts.cut(flush, whole=index % 5 == 4)
        figures.update({"cuts": 1, kind: 1, flush: 1})
        done = figures["acknowledged"] + cuts.history.figures["acknowledged"]
        budget.progress(f"{figures['cuts']} cuts, {done} acknowledged, {kind}")
    cuts.end()


def _kept(place: Path) -> Path:
    """Copies the files of a failure while the file system is mounted; returns the copy's path."""
    kept = Path(tempfile.mkdtemp(prefix="pocketmq-power-kept-"))
    with contextlib.suppress(OSError, shutil.Error):
        shutil.copytree(place / "mounted", kept / "mounted")
    for name in ("history.jsonl", "broker.log"):
        with contextlib.suppress(OSError):
            shutil.copy(place / name, kept / name)
    return kept
