"""TLS handshakes in progress; if there are too many, a slow one is cancelled for a new one.

A client that begins handshakes without completing them occupies slots for seconds. If all slots are
taken, the oldest handshake of the address with the most handshakes is cancelled.
"""

import asyncio
from typing import Final

from pocketmq.rpc.admission import address_name
from pocketmq.rpc.call import host_from_peer

SPARED_S: Final = 0.25
"""Age in seconds below which a handshake is not cancelled for another one."""


def address_of(peer: str) -> str:
    """Returns the name under which connections of a client's address are counted."""
    return address_name(host_from_peer(peer))


class Handshakes:
    """TLS handshakes in progress, by client address, the oldest first."""

    __slots__ = ("_running", "count")

    def __init__(self) -> None:
        self._running: dict[str, dict[asyncio.Task[None], float]] = {}
        self.count = 0

    def begin(self, address: str, task: asyncio.Task[None], now_s: float) -> None:
        """Adds a handshake."""
        self._running.setdefault(address, {})[task] = now_s
        self.count += 1

    def end(self, address: str, task: asyncio.Task[None]) -> None:
        """Removes a handshake, if it was not removed before."""
        tasks = self._running.get(address)
        if tasks is not None and tasks.pop(task, None) is not None:
            self.count -= 1
            if not tasks:
                del self._running[address]
        assert self.count >= 0, "more handshakes ended than began"

    def give_up_one(self, now_s: float) -> bool:
        """Cancels the oldest handshake of the address with the most, if it is older than SPARED_S.

        Returns  whether a handshake was cancelled
        """
        address = max(self._running, key=lambda one: len(self._running[one]), default="")
        tasks = self._running.get(address, {})
        task = next(iter(tasks), None)
        if task is None or now_s - tasks[task] < SPARED_S:
            return False
        self.end(address, task)
        task.cancel()
        return True
