"""Is the process alive, started, ready: answers for whoever keeps it running.

state        livez   startupz   readyz
starting     200     200        503
recovering   200     200        503      it advances, so it must not be killed
running      200     200        200
read_only    200     200        200      reading is served; store.write says the rest
draining     200     200        503
failed       503     503        503      the process ends by itself
"""

from collections.abc import Callable
from typing import Final

READY_STATES: Final = frozenset({"running", "read_only"})
FAILED: Final = "failed"


class Health:
    """What the probes are told; `read_state` returns the store's state."""

    __slots__ = ("_read_state",)

    def __init__(self, read_state: Callable[[], str]) -> None:
        self._read_state = read_state

    @property
    def state(self) -> str:
        """The store's state."""
        return self._read_state()

    @property
    def is_alive(self) -> bool:
        """Whether the process should go on living."""
        return self.state != FAILED

    @property
    def is_ready(self) -> bool:
        """Whether clients should come."""
        return self.state in READY_STATES
