"""TLS handshakes under way, and which of them gives its place to a new one.

A client that begins handshakes and does not end them takes places for seconds. Where all are taken,
the address that has most of them gives up its oldest, so that a handshake that goes on, which takes
a few round trips, gets a place at once while others begin 1,000 a second.
"""

import asyncio
from typing import Final

from pocketmq.rpc.admission import address_name
from pocketmq.rpc.call import host_from_peer

SPARED_S: Final = 0.25
"""Time that each handshake may take before another one gets its place."""


def address_of(peer: str) -> str:
    """Returns the name under which connections of a client's address are counted."""
    return address_name(host_from_peer(peer))


class Handshakes:
    """Those under way, by address, the oldest first."""

    __slots__ = ("_running", "count")

    def __init__(self) -> None:
        self._running: dict[str, dict[asyncio.Task[None], float]] = {}
        self.count = 0

    def begin(self, address: str, task: asyncio.Task[None], now_s: float) -> None:
        """Notes a handshake that begins."""
        self._running.setdefault(address, {})[task] = now_s
        self.count += 1

    def end(self, address: str, task: asyncio.Task[None]) -> None:
        """Notes one that has ended, or is given up."""
        tasks = self._running.get(address)
        if tasks is not None and tasks.pop(task, None) is not None:
            self.count -= 1
            if not tasks:
                del self._running[address]
        assert self.count >= 0, "a handshake ends once"

    def give_up_one(self, now_s: float) -> bool:
        """Cancel the oldest of the address that has most; return whether it was there for long."""
        address = max(self._running, key=lambda one: len(self._running[one]), default="")
        tasks = self._running.get(address, {})
        task = next(iter(tasks), None)
        if task is None or now_s - tasks[task] < SPARED_S:
            return False
        self.end(address, task)
        task.cancel()
        return True
