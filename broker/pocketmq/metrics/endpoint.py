"""HTTP pages: /metrics, /livez, /readyz, /startupz, /version.

Status codes of probes:

state        livez   startupz   readyz
starting     200     200        503
recovering   200     200        503      recovery advances: the process must not be killed
running      200     200        200
following    200     200        200      serves reads; copies another broker
disk_full    200     200        200      serves reads; sends resume without an operator
read_only    200     200        200      serves reads; the log event store.refused has the reason
damaged      200     200        200      serves reads; an operator must act
draining     200     200        503
failed       503     503        503      the process ends
"""

import json
import platform
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from pocketmq import native
from pocketmq.metrics.exposition import Exposition
from pocketmq.model.page import Answer
from pocketmq.native.commit import commit

JSON: Final = "application/json"
READY_STATES: Final = frozenset({"running", "following", "disk_full", "read_only", "damaged"})
RECOVERING: Final = "recovering"
FAILED: Final = "failed"


class ProbeAnswers:
    """State of the broker for probes.

    read_progress   returns the progress of recovery, 0 to 1
    read_held       returns a text about the message because of which retention keeps expired files;
                    "": no file is kept
    """

    __slots__ = ("_read_held", "_read_progress", "_read_state")

    def __init__(
        self,
        read_state: Callable[[], str],
        *,
        read_progress: Callable[[], float] | None = None,
        read_held: Callable[[], str] = str,
    ) -> None:
        self._read_state = read_state
        self._read_held = read_held
        self._read_progress = read_progress

    @property
    def state(self) -> str:
        """The store's state."""
        return self._read_state()

    @property
    def is_alive(self) -> bool:
        """Whether the process should keep running."""
        return self.state != FAILED

    @property
    def is_ready(self) -> bool:
        """Whether clients may be routed to the broker."""
        return self.state in READY_STATES

    def report(self) -> dict[str, str | float]:
        """Returns the body of a response."""
        state = self.state
        if state == RECOVERING and self._read_progress is not None:
            return {"state": state, "progress": round(self._read_progress(), 3)}
        held = self._read_held()
        return {"state": state, "retention": held} if held else {"state": state}


Page = Callable[[str], Awaitable[Answer]]
"""Accept header of a request -> page; "": any content type."""


def site_pages(
    exposition: Exposition,
    health: ProbeAnswers,
    version: Mapping[str, object],
    refresh: Callable[[], Awaitable[None]] | None = None,
) -> dict[str, Page]:
    """Returns the five pages by their paths; `refresh` is awaited before a scrape."""

    async def metrics(accept: str) -> Answer:
        if refresh is not None:
            await refresh()
        page, content_type = await exposition.page_in_turns(accept)
        return Answer(200, content_type, page)

    async def live(accept: str) -> Answer:
        return _json(health.report(), 200 if health.is_alive else 503)

    async def ready(accept: str) -> Answer:
        return _json(health.report(), 200 if health.is_ready else 503)

    async def show_version(accept: str) -> Answer:
        python, modules = platform.python_version(), native.form()
        return _json({**version, "commit": commit(), "python": python, "modules": modules})

    return {
        "/metrics": metrics,
        "/livez": live,
        "/startupz": live,
        "/readyz": ready,
        "/version": show_version,
    }


def _json(content: Mapping[str, Any], status: int = 200) -> Answer:
    return Answer(status, JSON, json.dumps(content, separators=(",", ":")).encode())
