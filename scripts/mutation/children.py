"""Runs functions in forked children, several at a time, and collects how each ended."""

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Final

CRASHED: Final = 70
"""The child's exit code for an exception out of its function."""


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code, negative for a signal; CPU and time in seconds."""

    code: int
    cpu_s: float
    wall_s: float


@dataclass(frozen=True)
class _Child:
    number: int
    descriptor: int
    begun: float


def fork(function: Callable[[], int], silent: bool) -> int:
    """Runs a function in a child that leads a session of its own; returns its process id.

    The child exits with what the function returns.

    silent  what the child prints is dropped
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    code = CRASHED
    try:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2) if silent else (0,):
            os.dup2(silence, descriptor)
        code = function()
    except BaseException:  # noqa: BLE001  # a mutant may raise anything; the child ends here
        traceback.print_exc()
    finally:
        os._exit(code)


def run_each(
    functions: Iterable[Callable[[], int]], workers: int, limit_s: float, silent: bool = True
) -> Iterator[tuple[int, Ended]]:
    """Runs functions in children, some at a time; yields (number of the function, its end).

    limit_s  after these seconds a child and its own children are killed
    """
    waiting = enumerate(functions)
    running: dict[int, _Child] = {}
    poll = select.poll()
    while True:
        while len(running) < workers and (following := next(waiting, None)) is not None:
            pid = fork(following[1], silent)
            child = _Child(following[0], os.pidfd_open(pid), monotonic())
            poll.register(child.descriptor, select.POLLIN)
            running[pid] = child
        if not running:
            return
        first = min(child.begun for child in running.values()) + limit_s - monotonic()
        poll.poll(max(first, 0.01) * 1000)
        for pid, child in list(running.items()):
            if monotonic() - child.begun > limit_s:
                _kill_group(pid)
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if not ended:
                continue
            _kill_group(pid)
            poll.unregister(child.descriptor)
            os.close(child.descriptor)
            del running[pid]
            cpu_s = usage.ru_utime + usage.ru_stime
            code = os.waitstatus_to_exitcode(status)
            yield child.number, Ended(code, cpu_s, monotonic() - child.begun)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
