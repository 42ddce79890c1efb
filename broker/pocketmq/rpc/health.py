"""grpc.health.v1: reports the status of services to checks and watches.

    ""                      the whole server
    "pocketmq.v1.Broker"    a service
    "store.write"           whether sends are accepted: NOT_SERVING while the broker is read-only
    "replica"               whether a leader has enough followers, or a follower is up to date

A full disk and a late follower send no event, so every check asks for the state, and watches ask
every second. A watch ends when the server drains, as an open watch would delay the stop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.service import Service, UnknownService, method, refuse_plainly

ServingStatus = HealthCheckResponse.ServingStatus

_HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"]
NAME: Final = "grpc.health.v1.Health"
WHOLE_SERVER: Final = ""
STORE_WRITE: Final = "store.write"
REPLICA: Final = "replica"

SERVING: Final = HealthCheckResponse.SERVING
NOT_SERVING: Final = HealthCheckResponse.NOT_SERVING
LOOK_SECONDS: Final = 1.0
State = bool | Callable[[], bool]
"""A part of the broker's state, or a function that returns it now."""


class Health:
    """Status of every name, and the watches; at first all names are NOT_SERVING."""

    __slots__ = ("_changed", "_is_over", "_is_replica", "_is_serving", "_is_writable", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset([WHOLE_SERVER, STORE_WRITE, REPLICA, *names])
        self._is_serving = False
        self._is_writable: Callable[[], bool] = _never
        self._is_replica: Callable[[], bool] = _never
        self._changed: asyncio.Future[None] | None = None
        self._is_over = False

    def show(self, *, serving: bool, writable: State, replica: State = True) -> None:
        """Sets all statuses; store.write and replica are SERVING only if `serving` is true."""
        assert not (serving and self._is_over), "SERVING after the end"
        self._is_serving = serving
        self._is_writable = writable if callable(writable) else lambda: writable
        self._is_replica = replica if callable(replica) else lambda: replica
        self._wake()

    def _status(self, name: str) -> ServingStatus | None:
        if name not in self._names:
            return None
        is_good = self._is_serving
        if name == STORE_WRITE:
            is_good = is_good and self._is_writable()
        elif name == REPLICA:
            is_good = is_good and self._is_replica()
        return SERVING if is_good else NOT_SERVING

    def end(self) -> None:
        """Reports NOT_SERVING to all watches, and ends them."""
        self._is_over = True
        self.show(serving=False, writable=False)

    def service(self) -> Service:
        """Returns the service, for any transport."""
        made = (
            method(_HEALTH, "Check", self.check, CallClass.PROBE),
            method(_HEALTH, "Watch", self.watch, CallClass.PROBE),
        )
        return Service(_HEALTH.full_name, made, refuse_plainly)

    def check(self, request: HealthCheckRequest, call: Call) -> HealthCheckResponse:
        """Returns the status of a name.

        Errors   UnknownService
        """
        status = self._status(request.service)
        if status is None:
            raise UnknownService(service=request.service)
        return HealthCheckResponse(status=status)

    async def watch(
        self, request: HealthCheckRequest, call: Call
    ) -> AsyncIterator[HealthCheckResponse]:
        """Yields the status of a name, now and after each change."""
        shown: ServingStatus | None = None
        while True:
            status = self._status(request.service)
            status = HealthCheckResponse.SERVICE_UNKNOWN if status is None else status
            if status != shown:
                shown = status
                yield HealthCheckResponse(status=status)
            elif self._is_over:
                return
            else:
                await asyncio.wait([self._change()], timeout=LOOK_SECONDS)

    def _change(self) -> asyncio.Future[None]:
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        return self._changed

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None


def _never() -> bool:
    return False
