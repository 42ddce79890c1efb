"""Is the process alive, started, ready: answers for the supervisor that keeps it running.

state        livez   startupz   readyz
starting     200     200        503
recovering   200     200        503      it advances, so it must not be killed
running      200     200        200
disk_full    200     200        200      reading is served; sends resume by themselves
read_only    200     200        200      reading is served; store.write says the rest
damaged      200     200        200      the same; an operator has to look
draining     200     200        503
failed       503     503        503      the process ends by itself
"""

from collections.abc import Callable
from typing import Final

READY_STATES: Final = frozenset({"running", "disk_full", "read_only", "damaged"})
RECOVERING: Final = "recovering"
FAILED: Final = "failed"


class Health:
    """What the probes are told.

    read_state      returns the store's state
    read_progress   returns the share of recovery that is done, 0 to 1
    """

    __slots__ = ("_read_progress", "_read_state")

    def __init__(
        self,
        read_state: Callable[[], str],
        *,
        read_progress: Callable[[], float] | None = None,
    ) -> None:
        self._read_state = read_state
        self._read_progress = read_progress

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

    def report(self) -> dict[str, str | float]:
        """Return what a probe's answer says: the state, and how far recovery has come."""
        state = self.state
        if state == RECOVERING and self._read_progress is not None:
            return {"state": state, "progress": round(self._read_progress(), 3)}
        return {"state": state}
