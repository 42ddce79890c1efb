"""Authentication and permission checks of calls, for all APIs and transports.

    service ─► guarded service: each handler:  identify caller ─► check permissions ─► handler
                                each shortcut: the same checks, on the request's bytes

Without authentication there is no guard, and none of this runs.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from pocketmq.format.signature import AUTHORIZATION_KEY, DATE_KEY
from pocketmq.model.access import Need, ResourceKind
from pocketmq.model.rights import Rights
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.creations import Creations
from pocketmq.rpc.pending_reply import PendingReply
from pocketmq.rpc.permissions import PUB, AdminOnly, Asked, FaceRules, Named, group_need, topic_need
from pocketmq.rpc.service import Handler, Metadata, Method, Service, Shortcut
from pocketmq.services.access.access import Access

_WAITING: Final = (CallClass.POLL, CallClass.QUESTION)
"""Classes of calls that wait for messages, or for a client's answer."""
_NO_MORE: Final = object()
_NEEDS: Final = {ResourceKind.TOPIC: topic_need, ResourceKind.GROUP: group_need}


RightsOf = Callable[[Access, Any], Rights]
"""(access control, call) -> rights of the user who signed the call; raises Unauthenticated."""


def signed_by_header(access: Access, call: Call) -> Rights:
    """Returns the rights of the user who signed a call of gRPC, by its authorization header.

    Errors   Unauthenticated
    """
    metadata = call.metadata
    return access.caller(metadata(AUTHORIZATION_KEY), metadata(DATE_KEY))


class Guard:
    """Wraps services so that only permitted calls reach their handlers."""

    __slots__ = ("_access", "_creations", "_rights_of")

    def __init__(
        self,
        access: Access,
        creations: Creations | None = None,
        rights_of: RightsOf = signed_by_header,
    ) -> None:
        """Guards services of a broker with authentication.

        creations   checks implicit creations of topics and groups; None: they are not checked
        rights_of   verifies who signed a call
        """
        self._access = access
        self._creations = creations
        self._rights_of = rights_of

    def guarded(self, service: Service, rules: FaceRules) -> Service:
        """Returns a service that serves permitted calls; a shortcut without a rule is dropped."""
        needs, quick, creating = rules
        names = {method.name for method in service.methods}
        assert names == needs.keys(), f"methods of {service.name} without permission rules"
        rows = [
            self._guarded(
                method, needs[method.name], quick.get(method.name), creates=method.name in creating
            )
            for method in service.methods
        ]
        return replace(service, methods=tuple(rows))

    def _guarded(
        self, method: Method, need: Asked | AdminOnly, named: Named | None, *, creates: bool
    ) -> Method:
        creations = self._creations
        if creations is not None and creates:
            assert not isinstance(need, AdminOnly), "an admin method creates implicitly"
            need = creations.asked(need)
        if method.kind.has_requests:
            assert not isinstance(need, AdminOnly), "an admin method with a stream of requests"
            handler = self._stream_guarded(method.handler, need)
        elif method.kind.has_answers or method.call_class in _WAITING:
            handler = self._poll_guarded(method.handler, need)
        else:
            handler = self._request_guarded(method.handler, need)
        shortcut = method.shortcut
        if shortcut is not None:
            shortcut = None if named is None else self._quick(shortcut, named)
        return replace(method, handler=handler, shortcut=shortcut, identifies=True)

    def _request_guarded(self, handler: Handler, need: Asked | AdminOnly) -> Handler:
        def serve(request: Any, call: Call) -> Any:
            self._check(self._caller(call), need, request, call)
            return handler(request, call)

        return serve

    def _poll_guarded(self, handler: Handler, need: Asked | AdminOnly) -> Handler:
        """Guards a handler that may wait: permissions are checked again before each answer."""

        def serve(request: Any, call: Call) -> Any:
            caller = self._caller(call)
            self._check(caller, need, request, call)
            answer = handler(request, call)
            if isinstance(answer, bytes):
                return answer

            def check() -> None:
                self._check(self._access.current(caller), need, request, call)

            if isinstance(answer, AsyncIterator):
                return _each(answer, check)
            return _late(answer, check) if isinstance(answer, Awaitable) else answer

        return serve

    def _stream_guarded(self, handler: Handler, need: Asked) -> Handler:
        """Guards a handler of a request stream: checks the caller once, permissions per request.

        Before each answer, the permissions of the last request that needed some are checked again.
        The stream of requests ends when its user is deleted, disabled, or gets another secret.
        """

        async def checked(
            requests: AsyncIterator[Any], caller: Rights, call: Call, last: list[Need]
        ) -> AsyncIterator[Any]:
            async for request in _until_gone(requests, partial(self._access.when_gone, caller)):
                needs = [*need(request, call)]  # Kept without the request, which may be large.
                self._check_needs(self._access.current(caller), needs, call)
                last[:] = needs or last
                yield request
                del request

        def serve(requests: AsyncIterator[Any], call: Call) -> Any:
            caller, last = self._caller(call), list[Need]()

            def check() -> None:
                self._check_needs(self._access.current(caller), last, call)

            answer = handler(checked(requests, caller, call, last), call)
            return _each(answer, check) if isinstance(answer, AsyncIterator) else answer

        return serve

    def _quick(self, shortcut: Shortcut, named: Named) -> Shortcut:
        """Guards a shortcut: refuses callers without `pub` on the topic or group that is named."""
        access, (kind, name_of) = self._access, named
        need_of = _NEEDS[kind]

        def serve(raw: bytes, host: bytes, metadata: Metadata) -> bytes | Awaitable[bytes] | None:
            caller = access.caller(metadata(AUTHORIZATION_KEY), metadata(DATE_KEY))
            if not caller.user.is_admin:
                name = name_of(raw, metadata)
                if name is None:
                    return None
                if (kind, name) not in caller.published:
                    access.check(caller, (need_of(name, PUB),), host)
                    caller.allow(kind, name)
            reply = shortcut(raw, host, metadata)
            if isinstance(reply, PendingReply):
                reply.user = caller.user.access_key
            return reply

        return serve

    def _caller(self, call: Call) -> Rights:
        caller = self._rights_of(self._access, call)
        call.identify(caller.user.access_key, is_admin=caller.user.is_admin)
        call.may = partial(self._access.may, caller, call.peer_host)
        return caller

    def _check(self, caller: Rights, need: Asked | AdminOnly, request: Any, call: Call) -> None:
        if isinstance(need, AdminOnly):
            self._access.check_admin(caller, need.what)
        elif not caller.user.is_admin:
            self._access.check(caller, need(request, call), call.peer_host)

    def _check_needs(self, caller: Rights, needs: Iterable[Need], call: Call) -> None:
        if not caller.user.is_admin:
            self._access.check(caller, needs, call.peer_host)


async def _late(answer: Awaitable[Any], check: Callable[[], None]) -> Any:
    found = await answer
    check()
    return found


async def _each(answers: AsyncIterator[Any], check: Callable[[], None]) -> AsyncIterator[Any]:
    async with aclosing(cast(AsyncGenerator[Any], answers)) as found:
        async for answer in found:
            check()
            yield answer
        check()


class _Gone:
    """Whether a stream's user lost access, and the task that waits for the next request."""

    __slots__ = ("_is_gone", "waiting")

    def __init__(self) -> None:
        self._is_gone = False
        self.waiting: asyncio.Task[Any] | None = None

    def is_gone(self) -> bool:
        """Returns whether the user lost access."""
        return self._is_gone

    def end(self) -> None:
        """Marks the user's access as lost, and cancels the wait for a request."""
        assert not self._is_gone, "access lost twice"
        self._is_gone = True
        waiting = self.waiting
        if waiting is not None and waiting is not asyncio.current_task():
            waiting.cancel()


async def _until_gone(
    requests: AsyncIterator[Any], when_gone: Callable[[Callable[[], None]], Callable[[], None]]
) -> AsyncIterator[Any]:
    """Yields requests until there are no more, or their user loses access.

    when_gone   registers a function to call when the user loses access; returns a function that
                unregisters it
    """
    user = _Gone()
    forget = when_gone(user.end)
    try:
        while not user.is_gone():
            user.waiting = asyncio.current_task()
            try:
                request = await anext(requests, _NO_MORE)
            except asyncio.CancelledError:
                if not user.is_gone() or user.waiting is None or user.waiting.uncancel():
                    raise
                return
            finally:
                user.waiting = None  # Task and frame would keep each other alive.
            if request is _NO_MORE:
                return
            yield request
            del request
    finally:
        forget()
