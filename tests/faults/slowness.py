"""Watches a broker that starts or stops: where it stands, and what it cost, once that takes long.

    with Slowness(daemon, "start", tell) as slowness:
        daemon.becomes_ready()
    slowness.seconds, slowness.cpu_seconds

What is slow is looked at every SLOW_S seconds: the processor time of each thread, how long they
were kept waiting for a core, what each waits for in the kernel, and the Python stacks of all, which
the broker itself writes to its log on SIGUSR1.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from typing import Final, Self

from tests.e2e.daemon import Daemon

SLOW_S: Final = 10.0
LOOKS_MAX: Final = 6
STACKS_S: Final = 0.5
"""What the broker has to write its stacks."""
_USR1_BIT: Final = 1 << (signal.SIGUSR1 - 1)
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Slowness:
    """One start or stop; `tell` is given a text for each look at one that takes long."""

    def __init__(
        self, daemon: Daemon, what: str, tell: Callable[[str], None], *, slow_s: float = SLOW_S
    ) -> None:
        self._daemon = daemon
        self._what = what
        self._tell = tell
        self._slow_s = slow_s
        self._is_over = Event()
        self._watcher = Thread(target=self._watch, daemon=True)
        self._begun = 0.0
        self.looks = 0
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        """Processor time of the process in all its life, as far as it could be read."""

    def __enter__(self) -> Self:
        self._begun = perf_counter()
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = perf_counter() - self._begun
        self._read_cpu(self.process_id)
        self._is_over.set()
        self._watcher.join()
        if self.looks:
            self._tell(
                f"slow {self._what} is over: {self.seconds:.1f} s, {self.cpu_seconds:.2f} s cpu"
            )

    @property
    def process_id(self) -> int:
        """The broker's process; while a tracer starts it, the tracer's child."""
        known = self._daemon.ready.get("pid")
        if known is not None:
            return int(known)
        outer = self._daemon.pid
        with suppress(OSError):
            children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
            name = Path(f"/proc/{outer}/comm").read_text().strip()
            if name == "strace" and children:
                return int(children[0])
        return outer

    def _read_cpu(self, process_id: int) -> None:
        with suppress(OSError):
            self.cpu_seconds = cpu_seconds(Path(f"/proc/{process_id}/stat"))

    def _watch(self) -> None:
        while not self._is_over.wait(self._slow_s) and self.looks < LOOKS_MAX:
            self.looks += 1
            self._look(self.process_id)

    def _look(self, process_id: int) -> None:
        self._read_cpu(process_id)
        before = len(self._log())
        with suppress(OSError):
            if writes_stacks(process_id):
                os.kill(process_id, signal.SIGUSR1)
                self._is_over.wait(STACKS_S)
        so_far = f"{perf_counter() - self._begun:.1f} s, {self.cpu_seconds:.2f} s cpu in all"
        lines = [
            f"slow {self._what}: {so_far} so far, load {os.getloadavg()[0]:.1f}",
            *threads_of(process_id),
            f"store {self._daemon.store}: {store_size(self._daemon.store)}",
            self._log()[before:],
        ]
        self._tell("\n".join(lines))

    def _log(self) -> str:
        with suppress(OSError):
            return self._daemon.log.read_text(errors="replace")
        return ""


def cpu_seconds(stat: Path) -> float:
    """Returns the user and system time that a stat file of /proc tells."""
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def writes_stacks(process_id: int) -> bool:
    """Tells whether a process has a handler for SIGUSR1: without one it would end."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) & _USR1_BIT)
    return False


def threads_of(process_id: int) -> list[str]:
    """Returns a line for each thread: its times, its state and where in the kernel it waits."""
    lines = []
    with suppress(OSError):
        for task in sorted(Path(f"/proc/{process_id}/task").iterdir()):
            with suppress(OSError):
                waited_s = int((task / "schedstat").read_text().split()[1]) / 1e9
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                lines.append(
                    f"thread {task.name}: {cpu_seconds(task / 'stat'):.2f} s cpu, {waited_s:.2f} s "
                    f"without a core, state {state}, in {(task / 'wchan').read_text() or '-'}"
                )
    return lines


def store_size(store: Path) -> str:
    """Returns how many files and bytes each part of a store has."""
    parts = []
    for part in ("commitlog", "consumequeue", "index"):
        sizes = []
        for path in (store / part).rglob("*"):
            with suppress(OSError):  # It may be removed meanwhile.
                sizes += [path.stat().st_size] if path.is_file() else []
        parts.append(f"{part} {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB")
    return ", ".join(parts)
