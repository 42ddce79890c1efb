"""Lives of a broker, each ended by SIGKILL: how it is started, how it ends, what holds afterwards.

    start     it is killed while it starts, at a random time
    load      it is killed when so many messages are acknowledged, others under way
    stop      it is told to end in order, and killed meanwhile
    syscall   it is killed in the middle of a system call, by strace
    orderly   it is told to end in order under load, and does

A start or stop that takes long is looked at meanwhile (slowness.py).

Options are chosen anew at each start; files are so small that everything rolls.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from pocketmq.client import Unreachable
from tests.e2e.daemon import Daemon, pocketmq
from tests.faults.history import History
from tests.faults.load import Load
from tests.faults.slowness import Slowness

START, LOAD, STOP, SYSCALL, ORDERLY = "start", "load", "stop", "syscall", "orderly"
SMALL_FILES: Final = (
    "mappedFileSizeCommitLog=262144", "mappedFileSizeConsumeQueue=4000",
    "maxHashSlotNum=500", "maxIndexNum=3000", "maxMessageSize=65536",
)  # fmt: skip
START_S: Final = (0.3, 0.8)
"""Before that, Python loads modules; later it is ready."""
STOP_S: Final = 0.1
CALLS: Final = {
    "fdatasync": 60, "fsync": 12, "fallocate": 8, "pwrite64": 60, "rename": 6, "unlink": 3,
    "ftruncate": 2,
}  # fmt: skip
"""System calls to be killed in, and the highest number of the call that is chosen; a thread's calls
are counted."""
FLAWS: Final = (
    "consume_queue.mended", "log.damaged", "log.quarantined", "rpc.failed", "service.failed",
    "store.failed", "store.task_failed",
)  # fmt: skip
"""Events of a broker that found, after a kill, what a kill cannot do; or failed."""
POOL_LOSS_S: Final = 5.0
"""What the pool held longer was committed: 200 ms, and what a busy machine adds."""


def options(chance: Random) -> dict[str, str]:
    """Returns settings for one life."""
    flush = chance.choice(["sync", "sync", "async"])
    chosen = {
        "store.flush": flush,
        "store.view_flush_interval_ms": f"{chance.choice([20, 200, 1_000])}ms",
        "store.view_flush_thorough_interval_ms": f"{chance.choice([50, 500, 10_000])}ms",
        "store.view_flush_least_pages": str(chance.choice([0, 2])),
        "store.warm_files": chance.choice(["true", "false", "false"]),
        "store.open_queue_files_max": str(chance.choice([4, 16_384])),
        "store.reserve_size_bytes": chance.choice(["0", "16777216"]),
    }
    if flush == "async":
        chosen["store.flush_interval_ms"] = f"{chance.choice([10, 500])}ms"
        chosen["store.transient_pool"] = chance.choice(["true", "false", "false"])
    return chosen


def words(settings: dict[str, str], *more: str) -> list[str]:
    """Returns settings as words of a command line."""
    given = [*more, *(f"{key}={value}" for key, value in settings.items())]
    return [word for text in given for word in ("--set", text)]


def tracer(call: str, number: int) -> Sequence[str]:
    """Returns the words that run a command and kill it in its Nth call."""
    inject = f"inject={call}:signal=KILL:when={number}"
    return (
        "strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", f"trace={call}",
        "-e", inject,
    )  # fmt: skip


def can_trace() -> bool:
    """Tells whether strace is there and may trace."""
    if shutil.which("strace") is None:
        return False
    command = ["strace", "-qq", "--seccomp-bpf", "-f", "-o", "/dev/null", sys.executable, "-c", ""]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def check_log(daemon: Daemon) -> None:
    """Fails where a broker told, in the life that ended, of what a kill cannot do."""
    told = daemon.log.read_text()
    flaws = [line for line in told.splitlines() if any(f'"{flaw}"' in line for flaw in FLAWS)]
    assert not flaws, "\n".join(["the broker tells of what a kill does not do:", *flaws[:3]])


class Lives:
    """All lives of the broker of one store.

    tell   is given what was seen of starts and stops that take long
    """

    def __init__(self, place: Path, seed: int, tell: Callable[[str], None] = print) -> None:
        self.store = place / "store"
        self.history = History(place / "history.jsonl")
        self.kills: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        """System calls it was to be killed in."""
        self._chance = Random(seed)
        crc = self._chance.choice(["true", "false"])
        self._fixed = (*SMALL_FILES, f"store.property_crc={crc}")
        self._load = Load(self.history, seed)
        self._lost_since = -1.0
        self._tell = tell
        self.slowest: dict[str, float] = {}
        """The most seconds that starts and stops took, and the most processor time of a start."""

    def live(self, ended_by: str, wanted: int, *, whole: bool = False) -> None:
        """Starts the broker, checks its content, sends, kills it.

        Errors   Violation; AssertionError where it does not start
        """
        chosen = options(self._chance)
        arguments = words(chosen, *self._fixed)
        if ended_by == START:
            self._kill_at_start(arguments)
        else:
            self._kill_at_work(ended_by, arguments, wanted, whole=whole)
        self.kills[ended_by] += 1
        if chosen.get("store.transient_pool") == "true" and ended_by != ORDERLY:
            self._lost_since = time.monotonic() - POOL_LOSS_S

    def _kill_at_start(self, arguments: list[str]) -> None:
        daemon = Daemon(self.store, *arguments)
        daemon.begin()
        time.sleep(self._chance.uniform(*START_S))
        daemon.signal(signal.SIGKILL)
        daemon.end()

    def _kill_at_work(
        self, ended_by: str, arguments: list[str], wanted: int, *, whole: bool
    ) -> None:
        traced: Sequence[str] = ()
        if ended_by == SYSCALL:
            call = self._chance.choice(list(CALLS))
            traced = tracer(call, self._chance.randint(1, CALLS[call]))
            self.calls[call] += 1
        daemon = Daemon(self.store, *arguments, tracer=traced)
        daemon.begin()
        try:
            if not self._becomes_ready(daemon):
                assert ended_by == SYSCALL, f"it did not start: {daemon.log.read_text()}"
                return
            asyncio.run(self._one_life(daemon, ended_by, wanted, whole=whole))
            if ended_by == ORDERLY:
                self._end_in_order(daemon, daemon.wait)
        finally:
            daemon.end()
        check_log(daemon)

    def _becomes_ready(self, daemon: Daemon) -> bool:
        with Slowness(daemon, "start", self._tell) as start:
            is_ready = daemon.becomes_ready()
        self._note("start", start.seconds)
        self._note("start cpu", start.cpu_seconds)
        return is_ready

    def _end_in_order(self, daemon: Daemon, end: Callable[[], int]) -> None:
        with Slowness(daemon, "stop", self._tell) as stop:
            code = end()
        self._note("stop", stop.seconds)
        assert code == os.EX_OK, daemon.log.read_text()

    def _note(self, what: str, seconds: float) -> None:
        self.slowest[what] = max(self.slowest.get(what, 0.0), round(seconds, 2))

    async def _one_life(self, daemon: Daemon, ended_by: str, wanted: int, *, whole: bool) -> None:
        def kill() -> None:
            if ended_by == ORDERLY:
                daemon.signal(signal.SIGTERM)
            elif ended_by == STOP:
                daemon.signal(signal.SIGTERM)
                delay = self._chance.uniform(0, STOP_S)
                asyncio.get_running_loop().call_later(delay, daemon.signal, signal.SIGKILL)
            else:
                daemon.signal(signal.SIGKILL)

        try:
            await self._load.look(daemon.endpoint, whole=whole, loss_since=self._lost_since)
        except Unreachable:
            assert ended_by == SYSCALL, daemon.log.read_text()  # which it dies of at any time
            return
        self._lost_since = -1.0
        await self._load.run(daemon.endpoint, wanted, kill)

    def end(self) -> None:
        """Starts once more, compare everything, stops in order, and verify the files.

        Errors   Violation
        """
        arguments = words({}, *self._fixed)
        daemon = Daemon(self.store, *arguments)
        daemon.begin()
        try:
            assert self._becomes_ready(daemon), daemon.log.read_text()
            look = self._load.look(daemon.endpoint, whole=True, loss_since=self._lost_since)
            asyncio.run(look)
            self._lost_since = -1.0
            self._end_in_order(daemon, daemon.stop)
        finally:
            daemon.end()
        check_log(daemon)
        self.history.close()
        done = pocketmq("store", "verify", str(self.store), "-o", "jsonl", "--max-findings", "5")
        assert (done.code, done.out) == (0, ""), f"{done.out}{done.err}"
