"""Protects the console from pages of other sites, and adds security headers to all answers.

A console without users trusts every caller that reaches it, as its broker does. Three attacks would
let another site become such a caller, and each is refused:

    cross-site request forgery   the form has another origin, and no token
    framing                      the headers forbid frames
    DNS rebinding                the Host header is neither an address nor localhost
"""

from hmac import compare_digest
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
TUNNEL: Final = "x-pocketmq-tunnel"
PRIVATE: Final = "pocketmq.private"
"""Key of an ASGI scope: whether secrets may be sent on the connection."""
LOCAL: Final = "localhost"


class Guarded:
    """An ASGI application behind this module's checks.

    is_private   whether others cannot read the connections, so that secrets may be sent on them
    token        secret of the broker's tunnel; "": browsers connect directly. The tunnel's header
                 states whether a connection is private. Each connection then has one request, so
                 that the broker routes the next one
    """

    def __init__(self, app: ASGIApp, *, is_private: bool = True, token: str = "") -> None:
        self._app = app
        self._is_private = is_private
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        assert scope["type"] == "http", "only HTTP is served"
        scope[PRIVATE] = self._is_private
        if self._token:
            given = Headers(scope=scope).get(TUNNEL, "").split(" ")
            is_known = len(given) == 3 and compare_digest(given[0].encode(), self._token.encode())
            scope[PRIVATE] = is_known and given[1] == "private"
            scope["scheme"] = given[2] if is_known else "http"

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
                if self._token:
                    headers["connection"] = "close"
            await send(message)

        await self._app(scope, receive, guarded_send)


def is_own_origin(headers: Headers) -> bool:
    """Returns whether a page of this console made a request; True without a browser's headers."""
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    if site not in ("same-origin", "none"):
        return False
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


def is_sure_host(host: str) -> bool:
    """Returns whether a Host header is an address or localhost: no DNS rebinding changes these."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    name = name.removeprefix("[").removesuffix("]").rstrip(".").lower()
    if name == LOCAL or name.endswith(f".{LOCAL}"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
