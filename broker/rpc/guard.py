"""The one place where calls are let through or not, for all faces and transports.

    a face ─► the same face, each handler behind: who calls? ─► may they? ─► the handler
                             each shortcut behind the same, by the bytes of its request

Where access is not checked there is no guard, and nothing of this runs.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from broker.format.signature import AUTHORIZATION_KEY, DATE_KEY
from broker.model.rights import Rights
from broker.rpc.call import Call
from broker.rpc.needs import PUB, AdminOnly, Asked, NeedTable, topic_need
from broker.rpc.service import Handler, Metadata, Method, Service, Shortcut
from broker.services.access.access import Access

FirstTopic = Callable[[bytes, Metadata], str | None]
"""Returns the one topic that a send's bytes and metadata name, None where that takes a closer
look."""
Quick = Mapping[str, FirstTopic]
"""Of a face, by the names of its methods with shortcuts."""
NONE: Final[Quick] = {}


class Guard:
    """Stands before faces."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access

    def guarded(self, service: Service, needs: NeedTable, quick: Quick = NONE) -> Service:
        """Return a face that serves who may.

        needs   of all its methods
        quick   of those that have shortcuts; without it a shortcut is not taken
        """
        names = {method.name for method in service.methods}
        assert names == needs.keys(), f"each method of {service.name} says what it needs"
        rows = [
            self._guarded(method, needs[method.name], quick.get(method.name))
            for method in service.methods
        ]
        return replace(service, methods=tuple(rows))

    def _guarded(
        self, method: Method, need: Asked | AdminOnly, first_topic: FirstTopic | None
    ) -> Method:
        guard = self._stream_guarded if method.kind.has_requests else self._request_guarded
        shortcut = method.shortcut
        if shortcut is not None:
            shortcut = None if first_topic is None else self._quick(shortcut, first_topic)
        return replace(method, handler=guard(method.handler, need), shortcut=shortcut)

    def _request_guarded(self, handler: Handler, need: Asked | AdminOnly) -> Handler:
        def serve(request: Any, call: Call) -> Any:
            self._check(self._caller(call.metadata), need, request, call)
            return handler(request, call)

        return serve

    def _stream_guarded(self, handler: Handler, need: Asked | AdminOnly) -> Handler:
        """Return a handler of many requests: who calls is asked once, what they may of each."""

        async def checked(
            requests: AsyncIterator[Any], caller: Rights, call: Call
        ) -> AsyncIterator[Any]:
            async for request in requests:
                self._check(self._access.current(caller), need, request, call)
                yield request

        def serve(requests: AsyncIterator[Any], call: Call) -> Any:
            return handler(checked(requests, self._caller(call.metadata), call), call)

        return serve

    def _quick(self, shortcut: Shortcut, first_topic: FirstTopic) -> Shortcut:
        """Return a shortcut that who may not send is refused by."""
        access = self._access

        def serve(raw: bytes, host: bytes, metadata: Metadata) -> bytes | Awaitable[bytes] | None:
            caller = access.caller(metadata(AUTHORIZATION_KEY), metadata(DATE_KEY))
            if not caller.user.is_admin:
                topic = first_topic(raw, metadata)
                if topic is None:
                    return None
                if topic not in caller.topics:
                    access.check(caller, (topic_need(topic, PUB),), host)
                    caller.allow(topic)
            return shortcut(raw, host, metadata)

        return serve

    def _caller(self, metadata: Metadata) -> Rights:
        return self._access.caller(metadata(AUTHORIZATION_KEY), metadata(DATE_KEY))

    def _check(self, caller: Rights, need: Asked | AdminOnly, request: Any, call: Call) -> None:
        if isinstance(need, AdminOnly):
            self._access.check_admin(caller, need.what)
        elif not caller.user.is_admin:
            self._access.check(caller, need(request, call), call.peer_host)
