"""Retries of a receive whose answer was lost: they get the same messages.

Source: the attempt id of ReceiveMessageRequest, ReceiveMessageActivity.
"""

import asyncio
from typing import Final

from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.services.consume.leases import Lease

ATTEMPTS_KEPT_MAX: Final = 10_000
"""The oldest are forgotten beyond this: their messages come back when their leases run out."""
AttemptKey = tuple[str, str, str, str]
"""(client, group, topic, attempt id)."""


def key_of(request: ReceiveRequest) -> AttemptKey:
    """Returns the key of a receive, the same when it is repeated."""
    return request.client_id, request.group, request.topic, request.attempt_id


class Attempts:
    """Leases of receives by attempt id, and the receives that still wait."""

    __slots__ = ("_leased", "_waiting")

    def __init__(self) -> None:
        self._leased: dict[AttemptKey, list[Lease]] = {}
        self._waiting: dict[AttemptKey, asyncio.Future[Received]] = {}

    def note(self, request: ReceiveRequest, leases: list[Lease]) -> None:
        """Keeps the leases of a receive, for when it is repeated."""
        if not request.attempt_id:
            return
        key = key_of(request)
        self._leased.pop(key, None)
        self._leased[key] = leases
        if len(self._leased) > ATTEMPTS_KEPT_MAX:
            del self._leased[next(iter(self._leased))]
        assert len(self._leased) <= ATTEMPTS_KEPT_MAX

    def leased(self, request: ReceiveRequest) -> list[Lease]:
        """Returns the leases of the same receive that it did not settle."""
        if not request.attempt_id:
            return []
        return [lease for lease in self._leased.get(key_of(request), ()) if lease.pending_count]

    def wait(self, request: ReceiveRequest, future: "asyncio.Future[Received]") -> None:
        """Registers a waiting receive; an earlier one of the same attempt is answered empty."""
        if not request.attempt_id:
            return
        key = key_of(request)
        before = self._waiting.get(key)
        if before is not None and not before.done():
            before.set_result(Received([], [], [], 0, 0))
        self._waiting[key] = future
        future.add_done_callback(lambda _: self._left(key, future))

    def _left(self, key: AttemptKey, future: "asyncio.Future[Received]") -> None:
        if self._waiting.get(key) is future:
            del self._waiting[key]
