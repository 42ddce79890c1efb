"""Reports the broker's state to systemd: starting, ready, reloading, stopping, and alive.

    NOTIFY_SOCKET   datagrams of sd_notify(3); without it nothing is sent
    WATCHDOG_USEC   time without a beat after which the supervisor ends the process

A beat is sent by the event loop, so a loop that hangs ends the process. Until the broker is ready,
each beat extends the time for the start, as a recovery may take minutes.
Source: sd_notify(3), sd_watchdog_enabled(3), systemd.exec(5) for JOURNAL_STREAM.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Final

from pocketmq.model.decimal import number_of

SOCKET: Final = "NOTIFY_SOCKET"
WATCHDOG: Final = "WATCHDOG_USEC"
WATCHDOG_PROCESS: Final = "WATCHDOG_PID"
JOURNAL: Final = "JOURNAL_STREAM"
BEAT_S: Final = 5.0
"""Longest time between two beats."""
START_USEC: Final = 60_000_000
"""Time by which each beat extends the start."""
USEC: Final = 1_000_000

Send = Callable[[str], None]


class Supervisor:
    """The supervisor of this process, or none.

    send      sends one datagram; None: there is no supervisor
    beat_s    seconds between two beats
    """

    __slots__ = ("_is_ready", "_read_status", "_send", "_timer", "beat_s")

    def __init__(self, send: Send | None = None, beat_s: float = BEAT_S) -> None:
        assert beat_s > 0, "beats have no interval"
        self._send = send
        self.beat_s = beat_s
        self._is_ready = False
        self._read_status: Callable[[], str] = str
        self._timer: asyncio.TimerHandle | None = None

    def start(self, read_status: Callable[[], str]) -> None:
        """Sends beats from now on; read_status returns the line that `systemctl status` shows."""
        self._read_status = read_status
        if self._send is not None:
            self._beat()

    def _beat(self) -> None:
        self._tell("WATCHDOG=1", *([] if self._is_ready else [f"EXTEND_TIMEOUT_USEC={START_USEC}"]))
        self._timer = asyncio.get_running_loop().call_later(self.beat_s, self._beat)

    def ready(self) -> None:
        """Reports that clients are served, after a start or a reload."""
        self._is_ready = True
        self._tell("READY=1")

    def reloading(self) -> None:
        """Reports that the settings are read again; `ready` ends it."""
        now_usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
        self._tell("RELOADING=1", f"MONOTONIC_USEC={now_usec}")

    def stopping(self) -> None:
        """Reports that the broker stops."""
        self._tell("STOPPING=1")

    def close(self) -> None:
        """Sends no more beats."""
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, *lines: str) -> None:
        if self._send is not None:
            self._send("\n".join([*lines, f"STATUS={self._read_status()}"]))


def supervisor_of(environment: MutableMapping[str, str]) -> Supervisor:
    """Returns the supervisor that the environment names, and removes the variables."""
    names = (SOCKET, WATCHDOG, WATCHDOG_PROCESS)
    given = {name: environment.pop(name, "") for name in names}
    if not given[SOCKET]:
        return Supervisor()
    is_watched = given[WATCHDOG_PROCESS] in {"", str(os.getpid())}
    limit_usec = number_of(given[WATCHDOG]) if is_watched and given[WATCHDOG] else -1
    beat_s = min(BEAT_S, limit_usec / 3 / USEC) if limit_usec > 0 else BEAT_S
    return Supervisor(_datagrams_to(given[SOCKET]), beat_s)


def _datagrams_to(address: str) -> Send:
    """Returns a function that sends a datagram, or nothing if the supervisor does not read."""
    place = f"\0{address[1:]}" if address.startswith("@") else address

    def send(text: str) -> None:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(text.encode(), place)

    return send


def is_journal(environment: Mapping[str, str], descriptor: int) -> bool:
    """Returns whether a descriptor of this process is a stream of systemd's journal."""
    device, _, inode = environment.get(JOURNAL, "").partition(":")
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return (device, inode) == (str(found.st_dev), str(found.st_ino))
