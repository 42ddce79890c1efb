"""Refuses requests that a page of another site made, and adds the headers of all answers.

A console without users trusts every caller that reaches it, as the broker behind it does. A page of
the internet must not become such a caller: by a form (its origin differs, and it has no token), by
a frame, or by a name that it lets point to this machine.
"""

from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
LOCAL: Final = "localhost"


class Guarded:
    """An ASGI application behind this module's checks.

    closes   whether to end a connection after its answer, so that the next request is routed anew
    """

    def __init__(self, app: ASGIApp, *, closes: bool = False) -> None:
        self._app = app
        self._closes = closes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        assert scope["type"] == "http", "only HTTP is served"

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
                if self._closes:
                    headers["connection"] = "close"
            await send(message)

        await self._app(scope, receive, guarded_send)


def is_own_origin(headers: Headers) -> bool:
    """Returns whether a page of this console made a request, as far as its browser states."""
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    if site not in ("same-origin", "none"):
        return False
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


def is_sure_host(host: str) -> bool:
    """Returns whether a Host header is an address or localhost, which no site can redirect."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    name = name.removeprefix("[").removesuffix("]").rstrip(".").lower()
    if name == LOCAL or name.endswith(f".{LOCAL}"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
